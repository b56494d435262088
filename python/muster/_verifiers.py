"""Environments of the `verifiers` package as sessions: its own rollout, with answers that come from outside."""

import inspect
import json
import re
from typing import Any, Optional

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def is_verifiers_environment(environment: Any) -> bool:
    """By what it can do: the package itself is not imported."""
    needed = ("init_state", "setup_state", "get_prompt_messages", "add_trajectory_step", "is_completed", "render_completion", "rubric")
    return not inspect.isclass(environment) and all(hasattr(environment, name) for name in needed)


class VerifiersSession:
    """The rewards of the rubric come with the last step. A rubric over whole groups has none for one episode."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._state: Any = None
        self._prompt: list[dict[str, Any]] = []

    async def reset(self, row: dict[str, Any], seed: int) -> list[dict[str, Any]]:
        given = {"prompt": self._first_messages(row), "example_id": row.get("example_id", seed), "task": row.get("task", "default")}
        given |= {key: row[key] for key in ("answer", "info") if row.get(key) is not None}
        self._state = await self._environment.init_state(given, None, "", None)
        self._state = await self._environment.setup_state(self._state) or self._state
        self._prompt = await self._environment.get_prompt_messages(self._state)
        return self._prompt

    async def step(self, answer: str) -> tuple[list[dict[str, Any]], Optional[float], bool, dict[str, Any]]:
        environment, state = self._environment, self._state
        spoken = self._spoken(answer)
        await environment.add_trajectory_step(state, {
            "prompt": self._prompt, "completion": [spoken], "response": None, "tokens": None, "reward": None, "advantage": None,
            "is_truncated": False, "trajectory_id": state["trajectory_id"], "extras": {},
        })  # fmt: skip
        if not await environment.is_completed(state):
            before = [*self._prompt, spoken]
            self._prompt = await environment.get_prompt_messages(state)
            if state.get("final_env_response") is None:
                return [_text_of(message) for message in self._prompt[len(before) :]], 0.0, False, {}
            await environment.is_completed(state)
        return [], await self._score(), True, dict(state.get("metrics") or {})

    async def end(self) -> Optional[float]:
        self._state["is_truncated"] = True
        return await self._score()

    async def _score(self) -> Optional[float]:
        await self._environment.render_completion(self._state)
        score = self._environment.rubric.score_rollout
        needed = (self._state, _Free()) if "score_sem" in inspect.signature(score).parameters else (self._state,)
        await score(*needed)
        return self._state["reward"]

    def _first_messages(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        asked = next((row[key] for key in ("prompt", "messages", "question") if row.get(key)), None)
        if isinstance(asked, list):
            return asked
        system = getattr(self._environment, "system_prompt", None)
        return [*([{"role": "system", "content": system}] if system else []), *(getattr(self._environment, "few_shot", None) or []),
                {"role": "user", "content": str(asked)}]  # fmt: skip

    def _spoken(self, answer: str) -> dict[str, Any]:
        """With the calls that the answer makes of the environment's tools, where it has some."""
        spoken: dict[str, Any] = {"role": "assistant", "content": answer}
        calls = []
        for number, text in enumerate(_CALL.findall(answer) if getattr(self._environment, "oai_tools", None) else []):
            try:
                call = json.loads(text)
                function = {"name": call["name"], "arguments": json.dumps(call.get("arguments", {}))}
            except (ValueError, KeyError, TypeError):
                continue
            calls.append({"id": f"call_{number}", "type": "function", "function": function})
        if calls:
            spoken["tool_calls"] = calls
        return spoken


class _Free:
    """Where the package wants to bound how many scores are made at a time."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *failure: object) -> None:
        return None


def _text_of(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": message["role"], "content": message.get("content") or ""}
