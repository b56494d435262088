"""A queue of its own for every test, on eight GPUs of an inventory file, and the built program that works on it."""

import contextlib
import json
import os
import pathlib
import signal

import pytest
from muster_commands import Commands
from waiting import until


class Queue(Commands):
    until = staticmethod(until)

    def __init__(self, folder: pathlib.Path):
        inventory = folder / "gpus.yaml"
        inventory.write_text("gpus:\n  - {count: 8, name: GPU of a test, memory_total: 80GiB}\n")
        super().__init__(
            folder,
            MUSTER_STATE=str(folder / "state"),
            MUSTER_LEASE_DIR=str(folder / "leases"),
            MUSTER_GPUS=str(inventory),
            MUSTER_QUEUE_IDLE="500ms",
            MUSTER_QUEUE_GRACE="500ms",
        )
        self.state = folder / "state/queue"

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
        """There must be one: a job that runs keeps it, or patience."""
        pid = until(self.conductor)
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.conductor() != pid)
        return pid

    def keep_conductors(self):
        """Those that are started from now on stay when there is nothing to do."""
        self.environment["MUSTER_QUEUE_IDLE"] = "1h"


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
        with contextlib.suppress(ProcessLookupError):  # it had nothing to do any more
            os.kill(pid, signal.SIGKILL)
    until(lambda: made.conductor() is None)
