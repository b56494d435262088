"""Real ranks on this machine: processes with the environment a launcher would give them.

They are forked from one process that has imported torch, which takes seconds, once for all tests.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Optional

PATIENCE = 240  # seconds after which a rank counts as hanging; far more than any of them takes


def launcher_environment(rank: int, size: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def caught(call) -> Optional[dict[str, Any]]:
    """What a call raised, as a report can carry it; None: nothing."""
    try:
        call()
    except Exception as error:
        return {
            "type": type(error).__name__,
            "is_timeout": isinstance(error, TimeoutError),
            "missing": getattr(error, "missing", None),
            "text": str(error),
        }
    return None


def run_rank(code: str, environment: dict[str, str], connection) -> None:
    """In the rank's process. The code may report() facts and wait_at_gate() until the test opens it."""
    os.environ.clear()
    os.environ.update(environment)
    import muster
    import torch

    torch.set_num_threads(1)

    def report(**facts: Any) -> None:
        connection.send(facts)

    def wait_at_gate() -> None:
        report(at_gate=True)
        connection.recv()

    names = {
        "caught": caught,
        "muster": muster,
        "os": os,
        "report": report,
        "signal": signal,
        "sys": sys,
        "torch": torch,
        "wait_at_gate": wait_at_gate,
    }
    exec(code, names)


class RankGroup:
    """The processes of one launch. What is left of them, running or stopped, ends with the block."""

    def __init__(self, code: str, environments: Sequence[Mapping[str, str]]):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed", "muster"])
        self.processes = []
        self._connections = []
        for environment in environments:
            ours, theirs = context.Pipe()
            arguments = (code, {**os.environ, **environment}, theirs)
            process = context.Process(target=run_rank, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self._connections.append(ours)

    def __enter__(self) -> "RankGroup":
        return self

    def __exit__(self, *failure: object) -> None:
        for process, connection in zip(self.processes, self._connections):
            process.kill()
            process.join()
            connection.close()

    def report(self, rank: int) -> dict[str, Any]:
        """The next report of a rank."""
        assert self._connections[rank].poll(PATIENCE), f"rank {rank} hangs"
        return self._connections[rank].recv()

    def reports(self, ranks: Optional[Sequence[int]] = None) -> list[dict[str, Any]]:
        return [self.report(rank) for rank in (range(len(self.processes)) if ranks is None else ranks)]

    def open_gate(self) -> None:
        """Lets the ranks go on together, once all of them are at the gate."""
        assert all(report == {"at_gate": True} for report in self.reports())
        for connection in self._connections:
            connection.send("open")

    def signal(self, rank: int, number: int) -> None:
        os.kill(self.processes[rank].pid, number)

    def exit_codes(self) -> list[Optional[int]]:
        for process in self.processes:
            process.join(PATIENCE)
        return [process.exitcode for process in self.processes]
