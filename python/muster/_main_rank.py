"""Work that rank 0 of a launch does for all, while the others wait for its end. Without torch, on one machine."""

import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

from ._rank_facts import rank_from

_PREFIX = "muster-rank-0-"
_A_DAY = 24 * 3600.0
_times = 0  # how often this process came here


def by_main_rank(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What work returns on rank 0, on every rank. What it raises there is a RuntimeError elsewhere.

    RuntimeError, too, where the ranks are on several machines, or rank 0 dies.
    """
    global _times
    _times += 1
    facts = rank_from(os.environ)
    if facts.world_size == 1:
        return work()
    _refuse_several_machines(facts.world_size)
    place = Path(tempfile.gettempdir()) / f"{_PREFIX}{os.getuid()}-{_launch_name()}"
    return _lead(work, place) if facts.rank == 0 else _follow(place)


def _refuse_several_machines(world_size: int) -> None:
    here = os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("SLURM_STEP_TASKS_PER_NODE") or str(world_size)
    if here != str(world_size) or os.environ.get("SLURM_STEP_NUM_NODES", "1") != "1":
        raise RuntimeError(
            f"{world_size} ranks are launched over several machines, and this starts them on one\n"
            "  try: muster train on each machine, with distributed.num_nodes"
        )


def _launch_name() -> str:
    """The same for all ranks of one launch: the process that started them, and when it began."""
    parent = os.getppid()
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    facts = (parent, _began(parent), os.environ.get("MASTER_PORT"), restart, _times)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def _began(process: int) -> float:
    """Seconds after the machine did."""
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _lead(work: Callable[[], dict[str, Any]], place: Path) -> dict[str, Any]:
    _remove_old_ones(place)
    _write(place, {"pid": os.getpid()})
    try:
        result = work()
    except BaseException as error:
        _write(place, {"error": f"rank 0 failed: {error}", "ended": _now()})
        raise
    _write(place, {"result": result, "ended": _now()})
    return result


def _follow(place: Path) -> dict[str, Any]:
    own_beginning = _began(os.getpid())
    while True:
        try:
            told = json.loads(place.read_text())
        except FileNotFoundError:
            told = {}
        if told.get("ended", own_beginning) < own_beginning:
            told = {}  # of a launch before, by the same process
        if "result" in told:
            return dict(told["result"])
        if "error" in told:
            raise RuntimeError(told["error"])
        if "pid" in told and not Path(f"/proc/{told['pid']}").exists():
            raise RuntimeError("rank 0 has ended without a result\n  try: its own output says why")
        time.sleep(0.1)


def _remove_old_ones(place: Path) -> None:
    for file in place.parent.glob(f"{_PREFIX}{os.getuid()}-*"):
        try:
            if time.time() - file.stat().st_mtime > _A_DAY and file != place:
                file.unlink()
        except OSError:
            continue


def _write(place: Path, value: dict[str, Any]) -> None:
    part = place.with_name(f"{place.name}.{os.getpid()}")
    part.write_text(json.dumps(value))
    part.replace(place)
