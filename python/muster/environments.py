"""Environments in Python: what a model acts in while muster trains it, or plays episodes with it.

An environment is anything that begins a session when it is called without arguments, as a class does. A session has

    reset(row, seed) -> messages             # a row of the data, and what to draw from
    step(answer) -> messages, reward, done   # and perhaps a dict of facts: messages, reward, done, info
    end() -> reward                          # if it has it: what an episode earns beside that must end where it is

Messages are dicts with role and content, or a text, which is the user's. A reward is a number, or None where nobody knows. They
may be coroutines: those that wait for something keep no other session waiting. An environment of the `verifiers` package
(MultiTurnEnv, SingleTurnEnv and what is made of them) is one as it is.
"""

import asyncio
import inspect
import json
import math
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Optional, TextIO

from ._relay_server import RelayServer
from ._verifiers import VerifiersSession, is_verifiers_environment

__all__ = ["serve_environment"]


def serve_environment(environment: Any, lines: Optional[TextIO] = None, answers: Optional[TextIO] = None) -> None:
    """Answers what `environment.type=program` asks, on standard input and output, until the input ends.

    What a session prints goes to standard error. What it raises is told there, and the episode is tried again as the settings say.
    """
    lines, answers = lines or sys.stdin, answers or sys.stdout
    before, sys.stdout = sys.stdout, sys.stderr
    try:
        _Sessions(environment).answer(lines, answers)
    finally:
        sys.stdout = before


class EnvironmentServer(RelayServer):
    """Sessions of an environment, for programs that this process has started. What one raises ends the run."""

    def __init__(self, environment: Any) -> None:
        self._begin = _beginner(environment)
        super().__init__()

    def settings(self) -> dict[str, Any]:
        return {"environment.type": "program", "environment.program": self._command()}

    def _serve(self, lines: TextIO, answers: TextIO, hang_up: Callable[[], None]) -> None:
        _Sessions(self._begin, hang_up).answer(lines, answers)


def _beginner(environment: Any) -> Callable[[], Any]:
    if is_verifiers_environment(environment):
        return lambda: VerifiersSession(environment)
    if callable(environment):
        return environment
    raise TypeError(
        f"environment={environment!r} begins no sessions\n  try: a class with reset(row, seed) and step(answer), or an environment of verifiers"
    )


class _Sessions:
    """Those of one program. They run in one thread, in turn wherever they wait for something."""

    def __init__(self, environment: Any, hang_up: Optional[Callable[[], None]] = None) -> None:
        """hang_up: what ends the lines once a session has raised something, which answer() then raises."""
        self._begin = _beginner(environment)
        self._hang_up = hang_up
        self._sessions: dict[int, Any] = {}
        self._failure: Optional[BaseException] = None

    def answer(self, lines: Iterable[str], answers: TextIO) -> None:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        under_way: set[Future[None]] = set()
        try:
            for line in lines:
                if line.strip():
                    begun = asyncio.run_coroutine_threadsafe(self._take(json.loads(line), answers), loop)
                    under_way.add(begun)
                    begun.add_done_callback(under_way.discard)
            wait(list(under_way))
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
        if self._failure is not None:
            raise self._failure

    async def _take(self, asked: dict[str, Any], answers: TextIO) -> None:
        if "close" in asked:
            self._sessions.pop(asked["session"], None)
            return
        try:
            said = await self._said(asked)
        except Exception as failure:
            if self._hang_up is not None:
                self._failure = self._failure or failure
                return self._hang_up()
            traceback.print_exc()
            said = {"failed": f"{type(failure).__name__}: {failure}"}
        answers.write(json.dumps({"id": asked["id"], **said}) + "\n")
        answers.flush()

    async def _said(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "reset" in asked:
            session = self._sessions[asked["session"]] = self._begin()
            messages = _messages(await _value(session.reset(asked["reset"], asked["seed"])))
            if not messages:
                raise ValueError("reset() gave no messages\n  try: what the first answer answers")
            return {"messages": messages}
        session = self._sessions[asked["session"]]
        if "end" in asked:
            del self._sessions[asked["session"]]
            return {"reward": _reward(await _value(session.end())) if hasattr(session, "end") else 0}
        step = await _value(session.step(asked["answer"]))
        if not isinstance(step, tuple) or len(step) not in (3, 4):
            raise TypeError(f"step() gave {step!r}\n  try: a tuple of messages, reward and done, and perhaps a dict")
        messages, reward, done = step[:3]
        if done:
            del self._sessions[asked["session"]]
        info = step[3] if len(step) == 4 else {}
        return {"messages": _messages(messages), "reward": _reward(reward), "done": bool(done), "info": _plain(info)}


async def _value(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


def _messages(given: Any) -> list[dict[str, str]]:
    if given is None:
        return []
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages = [given] if isinstance(given, Mapping) else list(given)
    for message in messages:
        if not isinstance(message, Mapping) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
            raise TypeError(f"{message!r} is not a message\n  try: {{'role': 'user', 'content': text}}")
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _reward(given: Any) -> Optional[float]:
    if given is None:
        return None
    if not math.isfinite(float(given)):
        raise ValueError(f"the reward is {given!r}\n  try: a number, or None where nobody knows")
    return float(given)


def _plain(info: Any) -> dict[str, Any]:
    """As far as JSON can say it."""
    return json.loads(json.dumps(dict(info or {}), default=str, allow_nan=False))
