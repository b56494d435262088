"""A queue of its own for every test, on eight GPUs of an inventory file, and the built program that works on it."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))


def until(condition, seconds: float = 60):
    """The first true value of condition(); an AssertionError when there is none for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("it did not happen")


class Queue:
    until = staticmethod(until)
    program = PROGRAM

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.state = folder / "state/queue"
        inventory = folder / "gpus.yaml"
        inventory.write_text("gpus:\n  - {count: 8, name: GPU of a test, memory_total: 80GiB}\n")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "CUDA_"))},
            "MUSTER_STATE": str(folder / "state"),
            "MUSTER_LEASE_DIR": str(folder / "leases"),
            "MUSTER_GPUS": str(inventory),
            "MUSTER_QUEUE_IDLE": "500ms",
            "MUSTER_QUEUE_GRACE": "500ms",
        }

    def run(self, *words, text: str = "", status: int | None = 0) -> subprocess.CompletedProcess:
        done = subprocess.run([str(PROGRAM), *map(str, words)], input=text, env=self.environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=120)
        assert status is None or done.returncode == status, done.stdout + done.stderr
        return done

    def submit(self, *command, options=(), text: str = "") -> list[str]:
        tail = ["--", *command] if command else []
        return self.run("submit", *options, *tail, text=text).stdout.split()

    def jobs(self) -> dict[str, dict]:
        return {job["id"]: job for job in json.loads(self.run("queue", "--all", "--json").stdout)["jobs"]}

    def state_of(self, job: str) -> str:
        return self.jobs()[job]["state"]

    def conductor(self) -> int | None:
        """The process that holds the conductor's lock."""
        lock = self.state / "conductor.lock"
        if not lock.exists():
            return None
        inode = str(lock.stat().st_ino)
        for line in pathlib.Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rsplit(":", 1)[1] == inode and int(fields[4]) > 0:
                return int(fields[4])
        return None

    def kill_conductor(self) -> int:
        pid = until(self.conductor)
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.conductor() != pid)
        return pid


@pytest.fixture
def queue(tmp_path: pathlib.Path):
    made = Queue(tmp_path)
    yield made
    # Nothing of a test is left running.
    open_jobs = [job["id"] for job in made.jobs().values() if job["state"] in ("submitted", "waiting", "ready", "running", "stopping")]
    if open_jobs:
        made.run("stop", *open_jobs, status=None)
        made.run("wait", *open_jobs, status=None)
    if pid := made.conductor():
        os.kill(pid, signal.SIGKILL)
    until(lambda: made.conductor() is None)
