"""Run folders written by run_driver, and the built program that reads them."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))
DRIVER = PROGRAM.parents[2] / "tests/run_driver"


class Writer:
    """One process that works on one run. Its run is locked until close() or kill()."""

    def __init__(self):
        self.process = subprocess.Popen([str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.path = None

    def ask(self, do: str, **order):
        """What the program says: its value, or an AssertionError with its words."""
        self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "ok" in answer, answer.get("error")
        if do in ("create", "hold"):
            self.path = pathlib.Path(answer["ok"])
        return answer["ok"]

    def step(self, number: int, **values: float):
        self.ask("step", step=number, values=values)

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(timeout=60)
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=60)
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def output(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "runs"


@pytest.fixture
def writer():
    """Starts writers; those that are still there at the end of the test are ended."""
    started = []

    def start() -> Writer:
        started.append(Writer())
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()


@pytest.fixture
def muster(tmp_path: pathlib.Path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    environment |= {"LC_ALL": "C.UTF-8", "COLUMNS": "80"}

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(PROGRAM), *arguments],
            env={**environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
        )

    return run
