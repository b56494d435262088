"""muster: find, choose, mask and lease GPUs. The functions are in muster.distributed and muster.lease."""

from . import distributed
from ._native import RefusedError, __version__
from .distributed import *  # noqa: F403
from .lease import HeldGpus, lease_gpus

RefusedError.__module__ = __name__

__all__ = ["HeldGpus", "RefusedError", "__version__", "distributed", "lease_gpus", *distributed.__all__]
