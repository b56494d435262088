"""GPUs held against everyone else on this machine."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional, Union

from . import _native
from ._request import GpuId, byte_count, gpu_count, id_texts, wait_milliseconds

__all__ = ["HeldGpus", "lease_gpus"]


@dataclass(frozen=True)
class HeldGpus:
    """What a lease gives: ids within the mask in force, and what a child process needs to use them."""

    gpus: list[int]
    mask: str  # CUDA_VISIBLE_DEVICES of a child that may use them all
    environment: dict[str, str]  # to be added to a child's environment
    file_descriptors: list[int]  # for subprocess's pass_fds: a child that has them keeps the lease until it is dead


@contextmanager
def lease_gpus(
    num_gpus: Optional[int] = None,
    gpu_ids: Optional[Sequence[GpuId]] = None,
    min_free: Union[None, int, str] = None,
    wait: Union[None, float, str] = None,
    share: bool = False,
) -> Iterator[HeldGpus]:
    """Chooses GPUs and holds them until the block ends, or the process does, however it dies.

    num_gpus: exactly so many, 1 when neither is given. gpu_ids: exactly these. min_free: free memory each must have,
    in bytes or as "20GiB". wait: how long to wait for GPUs that others hold, in seconds or as "10m", first come, first
    served; None: now or RefusedError. share: use them whoever has them, and hold nothing. Ctrl-C ends the wait.

    This process's own mask stays as it is: give environment to children, or call set_visible_gpus(gpus). A child that
    inherits the open descriptors (subprocess with pass_fds=held.file_descriptors, or a fork) keeps the lease alive
    until it is dead, too.
    """
    if share and wait is not None:
        raise ValueError("share and wait contradict each other\n  try: one of them")
    ids = None if gpu_ids is None else id_texts(gpu_ids)
    if ids is not None and not ids:
        raise ValueError("gpu_ids=[] leases nothing\n  try: name a GPU, or leave gpu_ids out")
    count = gpu_count(num_gpus)
    request = _native.SelectionRequest(
        ids=ids or [],
        count=1 if count is None and ids is None else count,
        minimum_free=None if min_free is None else byte_count(min_free, "min_free"),
    )
    host = _native.Host()
    grant = host.hold(request, _command(), share=share, wait=wait_milliseconds(wait), on_waiting=_tell_of_waiting)
    try:
        visible = [device.uuid for device in host.look(everything=False).visible]
        gpus = [visible.index(device.uuid) for device in grant.devices]
        yield HeldGpus(gpus=gpus, mask=grant.mask, environment=dict(grant.environment), file_descriptors=grant.descriptors())
    finally:
        grant.release()


def _command() -> str:
    return " ".join(getattr(sys, "orig_argv", [sys.executable, *sys.argv]))


def _tell_of_waiting(reason: str) -> None:
    logging.getLogger("muster").warning("waiting: %s", reason)
