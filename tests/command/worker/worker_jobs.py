"""Jobs of muster-worker's, run and watched from outside."""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests"))
WORKER = Path(os.environ.get("MUSTER_TEST_WORKER", ROOT / "build/engine/apps/worker/muster-worker"))

# Seconds after which something that should have happened counts as never happening; far more than any of it takes.
PATIENCE = 120

# How often the all-reduce is repeated: so often that a job is never done by itself while a test looks at it.
ENDLESS = 10**9


def environment(**variables: str) -> dict:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "OMP_"))}
    return kept | {"MUSTER_WORKER": str(WORKER)} | variables


class Job:
    """A collective check in so many ranks, started and not yet ended."""

    def __init__(self, ranks=2, elements=1000, repeats=2, timeout_ms=60000, **variables):
        self.process = subprocess.Popen(
            [PROGRAMS / "worker_job", str(ranks), str(elements), str(repeats), str(timeout_ms)],
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ranks = ranks
        self.events = []

    def next_event(self) -> dict:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.events.append(json.loads(line))
        return self.events[-1]

    def wait_until_ready(self) -> dict[int, int]:
        """Until every rank computes; returns their process ids by rank."""
        while sum(event["event"] == "ready" for event in self.events) < self.ranks:
            self.next_event()
        return {event["rank"]: event["pid"] for event in self.events if event["event"] == "hello"}

    def finish(self) -> tuple[int, list[dict], str]:
        """Exit code, all events, and what went to standard error."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        self.events += [json.loads(line) for line in output.splitlines()]
        return self.process.returncode, self.events, errors

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate(timeout=PATIENCE)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pids) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if is_running(pid)]}"
        time.sleep(0.02)


class Controller:
    """Stands in the controlling program's place, for one worker."""

    def __init__(self, folder: Path):
        self.address = folder / "control"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.address))
        self.listener.listen()
        self.listener.settimeout(PATIENCE)

    def start_worker(self, **variables: str) -> subprocess.Popen:
        place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MUSTER_CONTROL": str(self.address)}
        process = subprocess.Popen(
            [WORKER], env=environment(**(place | variables)), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(PATIENCE)
        self.lines = self.connection.makefile()
        return process

    def hear(self) -> dict:
        return json.loads(self.lines.readline())

    def say(self, **order) -> None:
        self.connection.sendall((json.dumps(order) + "\n").encode())

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


def assignment(**changes) -> dict:
    return {
        "order": "assignment",
        "version": 1,
        "device": "cpu",
        "backend": "gloo",
        "threads": 1,
        "seed": 0,
        "timeout": 60000,
        "task": {"kind": "collective-check", "elements": 10, "repeats": 1},
    } | changes
