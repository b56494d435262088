"""Which rank this process is, with and without a launch. torch is asked where the caller imported it, never imported.

A torch.distributed group that is initialised has the last word; else the environment: RANK, WORLD_SIZE and LOCAL_RANK
as torchrun and muster set them, else Slurm's variables where srun started this process; else rank 0 of 1. A variable
that makes no sense is a ValueError that names it.
"""

import os

from . import _native
from ._rank_facts import rank_from
from ._torch import loaded_process_group

__all__ = ["get_local_rank", "get_rank", "get_world_size", "is_distributed_available", "is_main_process"]


def is_distributed_available() -> bool:
    """Whether work can be distributed here: this process is a rank, or sees more than one GPU."""
    return _is_rank() or len(_native.Host().look(everything=False).visible) > 1


def _is_rank() -> bool:
    """Whether a group is initialised, or a launcher started this process: init_distributed() then makes one."""
    return loaded_process_group() is not None or rank_from(os.environ).launched


def get_rank() -> int:
    """This process's place among all: 0 to get_world_size() - 1."""
    group = loaded_process_group()
    return rank_from(os.environ).rank if group is None else int(group.get_rank())


def get_world_size() -> int:
    """How many processes work together; 1 without a launch."""
    group = loaded_process_group()
    return rank_from(os.environ).world_size if group is None else int(group.get_world_size())


def get_local_rank() -> int:
    """This process's place among those of its machine; 0 where no launcher set it."""
    return rank_from(os.environ).local_rank or 0


def is_main_process() -> bool:
    """Whether this is rank 0, the one that prints and saves."""
    return get_rank() == 0
