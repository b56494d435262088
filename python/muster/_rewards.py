"""Rewards by functions of the caller: a program that muster train starts hands what it is asked to this process."""

import inspect
import json
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Callable, Optional, TextIO

from ._relay_server import RelayServer

RewardFunction = Callable[..., Sequence[Optional[float]]]
_OWN = {"prompt", "completion", "answer", "row", "id", "tokens", "ids", "finish", "left"}


class RewardServer(RelayServer):
    """Functions are called one at a time."""

    def __init__(self, functions: Iterable[RewardFunction], weights: Optional[Sequence[float]] = None) -> None:
        self._functions = list(functions)
        self._weights = [1.0] * len(self._functions) if weights is None else [float(weight) for weight in weights]
        if not self._functions or not all(map(callable, self._functions)):
            raise TypeError("rewards has something that is not a function\n  try: rewards=[f], f(prompts, completions, **columns)")
        if len(self._weights) != len(self._functions):
            raise ValueError(
                f"reward_weights has {len(self._weights)} weights, and rewards {len(self._functions)} functions\n"
                "  try: one weight for each function"
            )
        self._one_at_a_time = threading.Lock()
        super().__init__()

    def settings(self) -> dict[str, Any]:
        return {"reward.functions": ["program"], "reward.program": self._command()}

    def _serve(self, lines: TextIO, answers: TextIO, hang_up: Callable[[], None]) -> None:
        batch: list[dict[str, Any]] = []
        for line in lines:
            batch.append(json.loads(line))
            if batch[-1]["left"] > 0:
                continue
            for asked, reward in zip(batch, self._judge(batch)):
                answers.write(json.dumps({"id": asked["id"], "reward": reward}) + "\n")
            answers.flush()
            batch = []

    def _judge(self, batch: list[dict[str, Any]]) -> list[Optional[float]]:
        columns: dict[str, list[Any]] = {}
        for name in sorted({name for asked in batch for name in asked["row"] or {}} - _OWN):
            columns[name] = [(asked["row"] or {}).get(name) for asked in batch]
        given = {
            "prompts": [_asked_messages(asked) or asked["prompt"] for asked in batch],
            "completions": [_said(asked) for asked in batch],
            "completion_ids": [asked["ids"] for asked in batch],
            "answer": [asked["answer"] for asked in batch],
            **columns,
        }
        with self._one_at_a_time:
            found = [self._call(function, given, len(batch)) for function in self._functions]
        rewards: list[Optional[float]] = []
        for parts in zip(*found):
            known = [weight * part for weight, part in zip(self._weights, parts) if part is not None]
            rewards.append(sum(known) if known else None)
        return rewards

    @staticmethod
    def _call(function: RewardFunction, given: dict[str, list[Any]], count: int) -> list[Optional[float]]:
        parameters = inspect.signature(function).parameters.values()
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        names = {parameter.name for parameter in parameters}
        rewards = list(function(**{name: values for name, values in given.items() if takes_all or name in names}))
        label = getattr(function, "__name__", repr(function))
        if len(rewards) != count:
            raise ValueError(f"{label} gave {len(rewards)} rewards for {count} completions\n  try: one for each, or None")
        for reward in rewards:
            if reward is not None and not abs(float(reward)) < float("inf"):
                raise ValueError(f"{label} gave {reward!r}\n  try: a number, or None where there is none")
        return [None if reward is None else float(reward) for reward in rewards]


def _asked_messages(asked: dict[str, Any]) -> Optional[list[Any]]:
    """Of a row that is a conversation, without the right answer; None where the prompt is a text."""
    row = asked["row"] or {}
    for messages in (row.get("prompt"), row.get("messages")):
        if isinstance(messages, list) and messages:
            return messages[:-1] if messages[-1].get("role") == "assistant" else messages
    return None


def _said(asked: dict[str, Any]) -> Any:
    """As TRL hands it over: a message where the prompt has messages."""
    if _asked_messages(asked) is None:
        return asked["completion"]
    return [{"role": "assistant", "content": asked["completion"]}]
