"""A folder of sweeps for every test, on eight GPUs of an inventory file, and the built program that works on it."""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from waiting import until

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))
TRIAL = pathlib.Path(__file__).resolve().parent / "trial.py"


def alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Sweeps:
    program = PROGRAM
    until = staticmethod(until)
    alive = staticmethod(alive)

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.inventory("gpus:\n  - {count: 8, name: GPU of a test, memory_total: 80GiB}\n")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "CUDA_", "GPU_"))},
            "MUSTER_LEASE_DIR": str(folder / "leases"),
            "MUSTER_GPUS": str(folder / "gpus.yaml"),
        }
        if worker := os.environ.get("MUSTER_WORKER"):
            self.environment["MUSTER_WORKER"] = worker

    def inventory(self, text: str):
        (self.folder / "gpus.yaml").write_text(text)

    def spec(self, name: str = "s.yaml", **changes) -> str:
        """A sweep file over x, whose trials are trial.py; JSON is YAML, too."""
        whole = {
            "metric": "loss",
            "goal": "minimize",
            "method": "random",
            "parameters": {"x": {"distribution": "uniform", "min": -2, "max": 2}},
            "limits": {"trials": 8},
            "command": [sys.executable, "-S", str(TRIAL), "${args}"],
            **changes,
        }
        (self.folder / name).write_text(json.dumps({key: value for key, value in whole.items() if value is not None}))
        return name

    def start(self, *words) -> subprocess.Popen:
        return subprocess.Popen([str(PROGRAM), *map(str, words)], env=self.environment, cwd=self.folder, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *words, status: int | None = 0, text: str = "") -> subprocess.CompletedProcess:
        done = subprocess.run([str(PROGRAM), *map(str, words)], input=text, env=self.environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=120)
        assert status is None or done.returncode == status, done.stdout + done.stderr
        return done

    def observations(self, name: str = "s") -> list[dict]:
        file = self.folder / "sweeps" / name / "observations.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def notes(self, name: str = "s") -> list[dict]:
        """What the phases of all trials noted about themselves."""
        found = (self.folder / "sweeps" / name).glob(f"{name}.r.*/notes.jsonl")
        return [json.loads(line) for file in found for line in file.read_text().splitlines()]

    def kill(self, process: subprocess.Popen):
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()

    def is_in_a_trial(self) -> bool:
        """Whether a trial is under way right now."""
        ended = {(note["MUSTER_TRIAL"], note["pid"]) for note in self.notes() if "end" in note}
        return any((note["MUSTER_TRIAL"], note["pid"]) not in ended and alive(note["pid"]) for note in self.notes())

    def nothing_runs(self, name: str = "s") -> bool:
        """Whether nobody is left of any trial that was begun."""
        for path in (self.folder / "sweeps" / name / "running").iterdir():
            with open(path) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
        return True


@pytest.fixture
def sweeps(tmp_path: pathlib.Path) -> Sweeps:
    return Sweeps(tmp_path)
