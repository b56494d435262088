"""The torch.distributed group of a launch: joined, and left."""

import logging
import math
import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Optional
from urllib.parse import urlparse

from . import _native, _roll_call, _slurm
from ._rank_facts import RankFacts, place_of_rank, rank_from
from ._request import whole_number
from ._torch import loaded_process_group

__all__ = ["cleanup_distributed", "init_distributed"]


@dataclass
class _Stores:
    """Stores stay open until the process ends: others may still be reading when this rank leaves a group."""

    by_address: dict[tuple[str, int], Any] = field(default_factory=dict)
    groups: int = 0  # made so far: each has keys of its own


_stores = _Stores()


def init_distributed(
    backend: Optional[str] = None,
    init_method: Optional[str] = None,
    rank: Optional[int] = None,
    world_size: Optional[int] = None,
    timeout_minutes: float = 30,
) -> bool:
    """Joins the group of this launch. True: there is a group now, or was before; False: nobody launched this process.

    Without a launch nothing happens, and rank helpers and collectives are those of one process. backend: "nccl" where
    torch can use a GPU, else "gloo". init_method: "env://" (MASTER_ADDR and MASTER_PORT; under srun the first machine
    of the step), "tcp://HOST:PORT", or what torch knows besides. rank, world_size: in place of the environment's. This
    rank's GPU becomes torch's current device: cuda:LOCAL_RANK, or cuda:0 where only one is visible. Ranks that do not
    come before the timeout, here or in a collective, are named by a CollectiveTimeoutError.
    """
    timeout = _timeout(timeout_minutes)
    if loaded_process_group() is not None:
        return True
    facts = _facts(rank, world_size)
    if not facts.launched and init_method is None:
        return False
    import torch.distributed

    backend = backend or _default_backend()
    device = _take_device(backend)
    base, serving_rank = _rendezvous(init_method or "env://", facts, timeout)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = torch.distributed.PrefixStore(f"muster/attempt_{attempt}/group_{_stores.groups}", base)
    _stores.groups += 1
    _roll_call.meet(torch.distributed, store, facts.rank, facts.world_size, timeout, serving_rank)
    torch.distributed.init_process_group(
        backend,
        store=store,
        rank=facts.rank,
        world_size=facts.world_size,
        timeout=timeout,
        device_id=device if "nccl" in backend else None,
    )
    _roll_call.begin(store, timeout, serving_rank)
    return True


def cleanup_distributed() -> None:
    """Leaves the group, whoever made it; without one nothing happens. Does not wait for the other ranks."""
    distributed = loaded_process_group()
    if distributed is not None:
        distributed.destroy_process_group()


def _timeout(minutes: float) -> timedelta:
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)):
        raise TypeError(f"timeout_minutes={minutes!r} is not a number")
    if not math.isfinite(minutes) or not 1e-5 <= minutes <= 1e6:
        raise ValueError(f"timeout_minutes={minutes}\n  try: minutes or a part of one, as in 0.5")
    return timedelta(minutes=minutes)


def _facts(rank: Optional[int], world_size: Optional[int]) -> RankFacts:
    environment = dict(os.environ)
    for name, value, smallest in (("rank", rank, 0), ("world_size", world_size, 1)):
        if value is None:
            continue
        if whole_number(value, name) < smallest:
            raise ValueError(f"{name}={value}\n  try: {smallest} or more")
        environment[name.upper()] = str(value)
    return rank_from(environment)


def _default_backend() -> str:
    import torch

    if torch.cuda.is_available():
        return "nccl"
    visible = len(_native.Host().look(everything=False).visible)
    if visible > 0:
        logging.getLogger("muster").warning(
            "%d GPUs are visible, but torch %s cannot use them: the ranks talk over gloo", visible, torch.__version__
        )
    return "gloo"


def _take_device(backend: str) -> Any:
    """Makes the GPU at this rank's place the current one; None without. Ranks beyond the last GPU may use gloo."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        if "nccl" in backend:
            raise RuntimeError(f'backend="{backend}" needs a GPU, and torch sees none\n  try: backend="gloo"')
        return None
    try:
        device = torch.device("cuda", place_of_rank(count))
    except RuntimeError:
        if "nccl" in backend:
            raise
        return None
    torch.cuda.set_device(device)
    return device


def _rendezvous(init_method: str, facts: RankFacts, timeout: timedelta) -> tuple[Any, Optional[int]]:
    """The store where the ranks meet, and the rank that serves it; None: a launcher does, or a file."""
    import torch.distributed

    if init_method.startswith("env://"):
        host, port = _address_in_environment(facts)
        if host is None or port is None:
            return torch.distributed.HashStore(), 0  # one rank needs nobody
        launcher_serves = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return _tcp_store(host, port, facts, timeout, None if launcher_serves else 0)
    if init_method.startswith("tcp://"):
        address = urlparse(init_method)
        if address.hostname is None or address.port is None:
            raise ValueError(f'init_method="{init_method}"\n  try: "tcp://HOST:PORT"')
        return _tcp_store(address.hostname, address.port, facts, timeout, 0)
    store, _, _ = next(torch.distributed.rendezvous(init_method, facts.rank, facts.world_size, timeout=timeout))
    return store, None


def _address_in_environment(facts: RankFacts) -> tuple[Optional[str], Optional[int]]:
    host = os.environ.get("MASTER_ADDR") or _slurm.first_host(os.environ)
    port = os.environ.get("MASTER_PORT") or _slurm.port_of_step(os.environ)
    missing = [name for name, value in (("MASTER_ADDR", host), ("MASTER_PORT", port)) if value is None]
    if missing and facts.world_size > 1:
        raise ValueError(
            f"{' and '.join(missing)} not set: rank {facts.rank} of {facts.world_size} cannot find the others\n"
            '  try: start the ranks with muster launch, or give init_method="tcp://HOST:PORT"'
        )
    if port is not None and not (str(port).isdecimal() and 0 < int(port) < 2**16):
        raise ValueError(f'MASTER_PORT="{port}" in the environment\n  try: a number from 1 to 65535')
    return host, None if port is None else int(port)


def _tcp_store(
    host: str, port: int, facts: RankFacts, timeout: timedelta, serving_rank: Optional[int]
) -> tuple[Any, Optional[int]]:
    import torch.distributed

    serves = facts.rank == serving_rank
    if (host, port) not in _stores.by_address:
        try:
            _stores.by_address[host, port] = torch.distributed.TCPStore(
                host, port, is_master=serves, timeout=timeout, wait_for_workers=False, multi_tenant=True
            )
        except torch.distributed.DistNetworkError as error:
            if serves:
                raise RuntimeError(
                    f"rank 0 cannot serve the store at {host}:{port}: {error}\n"
                    "  try: a free MASTER_PORT, or muster launch"
                ) from error
            server = "the launcher" if serving_rank is None else f"rank {serving_rank}"
            raise _roll_call.CollectiveTimeoutError(
                f"init_distributed timed out after {timeout.total_seconds():.1f} s on rank {facts.rank} of"
                f" {facts.world_size}: nothing answers at {host}:{port}, where {server} serves the store\n"
                f"  try: look at why {server} did not start, or how it ended, and check the address",
                "init_distributed",
                [] if serving_rank is None else [serving_rank],
            ) from error
    return _stores.by_address[host, port], serving_rank
