"""Environments of verifiers: an episode is worth what the package's own rollout gives it for the same answers."""

import asyncio
import importlib.machinery
import io
import json
import sys
import types
from pathlib import Path

import pytest

APART = Path(sys.prefix) / "apart"  # scripts/test-requirements-apart.txt
PYTHON = Path(__file__).resolve().parents[3] / "python"


class Absent(types.ModuleType):
    """In the place of packages that verifiers imports to talk with models, which nobody does here."""

    __path__: list = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__class_getitem__": classmethod(lambda made, item: made)})


class AbsentPackages:
    def find_spec(self, name, path=None, target=None):
        known = {"openai", "agents", "mcp", "textual", "prime_sandboxes", "wget", "nest_asyncio", "rich"}
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in known else None

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


@pytest.fixture(scope="module")
def verifiers():
    """The package, and our environments without the native module, which they do not need."""
    before, path = set(sys.modules), list(sys.path)
    finder = AbsentPackages()
    sys.meta_path.insert(0, finder)
    sys.path[:0] = [str(APART)]
    package = types.ModuleType("muster")
    package.__path__ = [str(PYTHON / "muster")]
    sys.modules["muster"] = package
    import verifiers

    from muster import environments

    yield verifiers, environments
    sys.meta_path.remove(finder)
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


ROW = {"question": "Which number?", "answer": "3"}


def hotter(verifiers):
    """Says higher and lower, until it is found or four answers are given."""

    class Hotter(verifiers.MultiTurnEnv):
        answers: list = []

        async def setup_state(self, state):
            state["number"] = int(state["answer"])
            return state

        async def env_response(self, messages, state, **kwargs):
            guess = int(messages[-1]["content"])
            if guess == state["number"]:
                state["final_env_response"] = [{"role": "user", "content": "found"}]
                return state["final_env_response"]
            return [{"role": "user", "content": "higher" if guess < state["number"] else "lower"}]

        # In the place of a model, for the package's own rollout.
        async def get_model_response(self, state, prompt, *rest, **more):
            return self.answers[len(state["trajectory"])]

        async def add_model_response(self, state, prompt, response):
            await self.add_trajectory_step(state, {"prompt": prompt, "completion": [{"role": "assistant", "content": response}]})

    def right(completion, answer):
        return float(any(message["content"] == answer for message in completion))

    def brevity(completion, state):
        return 1 - len(state["trajectory"]) / 10 - len(completion) / 100

    from datasets import Dataset

    return Hotter(max_turns=4, dataset=Dataset.from_list([ROW]), system_prompt="Be brief.",
                  rubric=verifiers.Rubric(funcs=[right, brevity], weights=[1, 0.5]))


def played(environments, environment, answers):
    """What is said to each answer, and what the episode is worth."""
    asked = [{"id": 0, "session": 0, "reset": ROW, "seed": 5}]
    asked += [{"id": i, "session": 0, "answer": answer} for i, answer in enumerate(answers, 1)]
    said = io.StringIO()
    environments.serve_environment(environment, io.StringIO("".join(json.dumps(line) + "\n" for line in asked)), said)
    return [json.loads(line) for line in said.getvalue().splitlines()]


@pytest.mark.parametrize("answers", [["3"], ["1", "5", "3"], ["1", "1", "2", "4"], ["1", "2", "4", "3"]])
def test_an_episode_is_worth_what_its_own_rollout_gives(verifiers, answers):
    package, environments = verifiers
    environment = hotter(package)
    type(environment).answers = answers
    given = {"prompt": environment.dataset[0]["prompt"], "answer": "3", "example_id": 0, "task": "default"}
    theirs = asyncio.run(environment.rollout(given, None, "", None))

    async def score():
        await environment.rubric.score_rollout(theirs, asyncio.Semaphore(1))

    asyncio.run(score())
    said = played(environments, environment, answers)
    assert said[0]["messages"] == given["prompt"]
    assert [line["done"] for line in said[1:]] == [False] * (len(answers) - 1) + [True]
    assert sum(line["reward"] for line in said[1:]) == pytest.approx(theirs["reward"]) and theirs["reward"] != 0
    assert said[-1]["info"] == pytest.approx(theirs["metrics"])
    heard = [message["content"] for line in said[1:-1] for message in line["messages"]]
    assert heard == [message["content"] for step in theirs["trajectory"][1:] for message in step["prompt"][-1:]]


def test_a_single_turn_is_an_episode_of_one_step(verifiers):
    package, environments = verifiers
    from datasets import Dataset

    def right(completion, answer):
        return float(completion[-1]["content"] == answer)

    environment = package.SingleTurnEnv(dataset=Dataset.from_list([ROW]), rubric=package.Rubric(funcs=[right]))
    assert [line.get("reward") for line in played(environments, environment, ["3"])] == [None, 1.0]
    assert played(environments, environment, ["4"])[1]["reward"] == 0
