"""What the environment says about this process's rank, and which GPU is that rank's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class RankFacts:
    """What a launcher set. launch/rank.hpp is the same in C++: tests/unit/launch/fixtures/rank_environments.json."""

    rank: int = 0
    world_size: int = 1
    local_rank: Optional[int] = None  # None: not given
    launched: bool = False  # whether a launcher started this process as a rank


def rank_from(environment: Mapping[str, str]) -> RankFacts:
    """Each of torchrun's variables, else what Slurm says to a task of a step, else nothing."""
    rank_name = _first(environment, "RANK", "SLURM_PROCID")
    size_name = _first(environment, "WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    rank = _number(environment, rank_name, 0)
    world_size = _number(environment, size_name, 1)
    local_rank = _number(environment, _first(environment, "LOCAL_RANK", "SLURM_LOCALID"), 0)
    if rank_name and not size_name:
        raise _one_without_the_other(environment, rank_name, "WORLD_SIZE")
    if size_name and not rank_name:
        raise _one_without_the_other(environment, size_name, "RANK")
    if rank is None or world_size is None:
        return RankFacts(local_rank=local_rank)
    if rank >= world_size:
        raise ValueError(
            f"{rank_name}={rank}, but {size_name}={world_size}\n"
            "  try: ranks count from 0 and are smaller than their number"
        )
    # One task alone is any program that runs under srun; a launcher that sets RANK means a rank, even a single one.
    return RankFacts(rank, world_size, local_rank, launched=rank_name == "RANK" or world_size > 1)


def place_of_rank(count: int) -> int:
    """Which of count GPUs is this process's: see "Worker contract" in docs/python.md."""
    name = _first(os.environ, "LOCAL_RANK", "SLURM_LOCALID")
    if name is None or count <= 1:
        return 0
    number = _whole(os.environ[name])
    if number is None or number >= count:
        raise RuntimeError(
            f"{name}={os.environ[name]}, and {count} GPUs are visible\n"
            "  try: start at most one process per GPU, or give each process a mask of one GPU"
        )
    return number


def _first(environment: Mapping[str, str], *names: str) -> Optional[str]:
    """The first of these variables that is set; Slurm's count for a task of a step alone.

    A batch script has SLURM_PROCID=0 and SLURM_NTASKS=N, too, and is one process: sbatch sets ENVIRONMENT=BATCH, which
    the steps of the script inherit, but only they have a SLURM_STEP_ID.
    """
    batch_script = environment.get("ENVIRONMENT") == "BATCH" and "SLURM_STEP_ID" not in environment
    task_of_a_step = "SLURM_PROCID" in environment and not batch_script
    for name in names:
        if name in environment and (task_of_a_step or not name.startswith("SLURM_")):
            return name
    return None


def _number(environment: Mapping[str, str], name: Optional[str], smallest: int) -> Optional[int]:
    if name is None:
        return None
    number = _whole(environment[name])
    if number is None or number < smallest:
        raise ValueError(
            f'{name}="{environment[name]}" in the environment\n'
            f"  try: a whole number of {smallest} or more, or unset {name}"
        )
    return number


def _whole(text: str) -> Optional[int]:
    """Digits alone: no sign, no space, no point."""
    number = int(text) if text.isascii() and text.isdecimal() else None
    return number if number is not None and number <= _LARGEST else None


def _one_without_the_other(environment: Mapping[str, str], name: str, missing: str) -> ValueError:
    return ValueError(
        f"{name}={environment[name]}, but {missing} is not set\n"
        f"  try: set both, as a launcher does, or unset {name}"
    )
