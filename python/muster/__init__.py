"""muster: find, choose, mask and lease GPUs, and work with the ranks of a launch.

GPUs are in muster.distributed and muster.lease; ranks in muster.ranks, muster.process_group, muster.collectives and
muster.multi_gpu; what fits where is plan() and muster.device_maps; training is in muster.training. All of it is here,
too.
"""

from . import collectives, device_maps, distributed, environments, multi_gpu, process_group, ranks, training
from ._native import RefusedError, __version__
from ._plan import Plan, plan
from ._roll_call import CollectiveError, CollectiveTimeoutError
from .collectives import *  # noqa: F403
from .device_maps import *  # noqa: F403
from .distributed import *  # noqa: F403
from .environments import *  # noqa: F403
from .lease import HeldGpus, lease_gpus
from .multi_gpu import *  # noqa: F403
from .process_group import *  # noqa: F403
from .ranks import *  # noqa: F403
from .training import *  # noqa: F403

for _error in (RefusedError, CollectiveError, CollectiveTimeoutError):
    _error.__module__ = __name__

__all__ = [
    "CollectiveError",
    "CollectiveTimeoutError",
    "HeldGpus",
    "Plan",
    "RefusedError",
    "__version__",
    "distributed",
    "lease_gpus",
    "plan",
    *collectives.__all__,
    *device_maps.__all__,
    *distributed.__all__,
    *environments.__all__,
    *multi_gpu.__all__,
    *process_group.__all__,
    *ranks.__all__,
    *training.__all__,
]
