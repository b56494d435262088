"""GPUs of this machine, as this process may use them: list, choose, mask.

Ids count from 0 within CUDA_VISIBLE_DEVICES, which is read again on each call, as is MUSTER_GPUS (an inventory file in
place of the driver). Nothing here imports torch or creates a CUDA context. Bad arguments are ValueError or TypeError;
what does not fit or is busy is RefusedError; a driver that fails is RuntimeError.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _native
from ._devices import describe, devices_of, find_device, in_mebibytes, used_percent
from ._plan import Plan, plan, smallest_set
from ._rank_facts import place_of_rank
from ._request import GpuId, byte_count, gpu_count, id_texts, model_bytes, whole_number
from ._torch import cuda_user, loaded_torch, torch_with_cuda
from .collectives import *  # noqa: F403 - ranks and what they do together are found here, too
from .process_group import *  # noqa: F403
from .ranks import *  # noqa: F403

__all__ = [
    "auto_select_gpus_for_model",
    "clear_gpu_cache",
    "get_available_gpus",
    "get_current_gpu_index",
    "get_gpu_info",
    "get_gpu_memory_info",
    "get_gpu_memory_usage",
    "get_optimal_device",
    "print_gpu_info",
    "select_gpus",
    "set_gpu_device",
    "set_visible_gpus",
    "setup_gpu_environment",
]

_MASK = "CUDA_VISIBLE_DEVICES"


@dataclass
class _Choices:
    """What this process has chosen so far. The mask is a fact of the whole process, and so is this."""

    masked_ids: Optional[list[str]] = None  # of the last set_visible_gpus(), relative to the mask before it
    mask: Optional[str] = None  # what it wrote
    gpu_id: Optional[int] = None  # of the last set_gpu_device() without torch

    def made(self, ids: list[str]) -> bool:
        """Whether the mask in force is the one made of exactly these ids."""
        return self.masked_ids == ids and self.mask == os.environ.get(_MASK)


_choices = _Choices()


def get_available_gpus() -> list[int]:
    """The ids of the visible GPUs: 0 to n-1. Empty without a GPU or a driver."""
    return list(range(len(_native.Host().look(everything=False).visible)))


def get_gpu_info() -> list[dict[str, Any]]:
    """What is known about each visible GPU; None: not known.

    Keys: id, name, compute_capability ("8.0"), memory_total, memory_used, memory_free (MiB, device-wide),
    multi_processor_count, uuid, index (on the machine, as nvidia-smi counts), utilization (percent), and lease (None,
    or pid, user, command and since of the holder).
    """
    return [
        {
            "id": device.id,
            "name": device.name,
            "compute_capability": device.compute_capability,
            "memory_total": in_mebibytes(device.memory_total),
            "multi_processor_count": device.multi_processor_count,
            "uuid": device.uuid,
            "index": device.index,
            "memory_used": in_mebibytes(device.memory_used),
            "memory_free": in_mebibytes(device.memory_free),
            "utilization": device.utilization,
            "lease": device.lease,
        }
        for device in devices_of(_native.Host().look())
    ]


def print_gpu_info(gpu_ids: Optional[Sequence[int]] = None) -> None:
    """Prints "Available GPUs: N" and a line for each visible GPU, or for each of gpu_ids; used memory device-wide."""
    devices = devices_of(_native.Host().look())
    shown = devices if gpu_ids is None else [find_device(devices, gpu_id) for gpu_id in gpu_ids]
    print(f"Available GPUs: {len(devices)}")
    for device in shown:
        print(describe(device))


def get_gpu_memory_usage(gpu_id: int = 0) -> tuple[int, int, float]:
    """(used MiB, total MiB, percent used) of one GPU, by all processes together."""
    device = find_device(devices_of(_native.Host().look(everything=False)), gpu_id)
    percent = used_percent(device)
    return in_mebibytes(device.memory_used) or 0, in_mebibytes(device.memory_total) or 0, percent


def select_gpus(
    gpu_ids: Optional[Sequence[GpuId]] = None,
    num_gpus: Optional[int] = None,
    min_memory_mb: Optional[int] = None,
) -> list[int]:
    """Ids of GPUs that are healthy, not leased by others, and have min_memory_mb MiB of free memory.

    Without min_memory_mb, GPUs on which others compute without a lease are left out, too.

    gpu_ids: exactly these (ids or UUIDs), in this order; [] means none. num_gpus: exactly so many, the best connected.
    Neither: all that qualify. Fewer than asked for is a RefusedError that says what stood in the way of each. Without
    any GPU, and with nothing asked for: [].
    """
    count = gpu_count(num_gpus)
    ids = None if gpu_ids is None else id_texts(gpu_ids)
    minimum_free = None
    if min_memory_mb is not None:
        minimum_free = byte_count(whole_number(min_memory_mb, "min_memory_mb") << 20, "min_memory_mb in bytes")
    if ids is not None and not ids:
        if count is not None:
            raise ValueError(
                f"no GPU named, and {count} asked for\n  try: give the ids or the count, or make them agree"
            )
        return []
    host = _native.Host()
    if ids is None and count is None and minimum_free is None and not host.look(everything=False).visible:
        return []
    return host.pick(_native.SelectionRequest(ids=ids or [], count=count, minimum_free=minimum_free))


def auto_select_gpus_for_model(
    model_size_gb: Union[float, str, "os.PathLike[str]", Plan], safety_margin: Optional[float] = None
) -> list[int]:
    """The smallest set of GPUs that holds a model; leased and sick ones are left out.

    A number: GiB, times safety_margin (1.5) for what the work adds, in equal parts. A model that muster.plan() accepts,
    or a plan of inference: what the plan counts, byte for byte, times safety_margin (1), as it splits the layers.
    RefusedError with the shortfall where no set does.
    """
    host = _native.Host()
    if not isinstance(model_size_gb, (str, os.PathLike, Plan)):
        margin = 1.5 if safety_margin is None else safety_margin
        return host.pick(_native.SelectionRequest(model_size=model_bytes(model_size_gb), margin=margin))
    margin = 1.0 if safety_margin is None else safety_margin
    if not (math.isfinite(margin) and margin >= 1):
        raise ValueError(f"safety_margin={safety_margin}\n  try: 1 or more")
    candidates = host.pick(_native.SelectionRequest())
    wanted = model_size_gb if isinstance(model_size_gb, Plan) else plan(model_size_gb, gpu_ids=candidates)
    return smallest_set(wanted, candidates, margin)


def set_visible_gpus(gpu_ids: Sequence[GpuId]) -> None:
    """Makes only these GPUs visible to this process and its children, in this order; [] hides all.

    Writes CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER. The ids are relative to the mask in force, which can only become
    narrower; afterwards ids count from 0 again. RuntimeError where CUDA is initialised in this process already: it
    reads the mask in that moment and never again.
    """
    ids = id_texts(gpu_ids)
    host = _native.Host()
    view = host.look(everything=False)
    # Whoever masks need not be the holder of a lease, and may look at a sick GPU.
    request = _native.SelectionRequest(ids=ids, allow_leased=True, allow_unhealthy=True)
    chosen = host.pick(request) if ids else []
    mask = view.mask_for(chosen)
    user = cuda_user()
    if user is not None and chosen != list(range(len(view.visible))):
        raise RuntimeError(
            f'{_MASK}="{mask}" would come too late: {user} has initialised CUDA in this process\n'
            "  try: call this before the first use of CUDA, or set the mask of a new process"
        )
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ[_MASK] = mask
    _choices.masked_ids = ids
    _choices.mask = mask
    _choices.gpu_id = None


def get_optimal_device(gpu_ids: Optional[Sequence[GpuId]] = None) -> Any:
    """The device to put a model on: "cuda:N", or "cpu" without a GPU or for []. A torch.device where torch is imported.

    N counts within the mask in force: the first of gpu_ids, else 0. Right after set_visible_gpus(ids), the same ids
    mean the GPUs it made visible: set_visible_gpus([4, 6]) and get_optimal_device([4, 6]) give cuda:0. Below a
    launcher that sets LOCAL_RANK, the GPU at that position in place of the first, unless there is only one.
    """
    ids = None if gpu_ids is None else id_texts(gpu_ids)
    host = _native.Host()
    visible = list(range(len(host.look(everything=False).visible)))
    if ids == []:
        return _as_device("cpu")
    if ids is None or _choices.made(ids):
        candidates = visible
    else:
        candidates = host.pick(_native.SelectionRequest(ids=ids, allow_leased=True, allow_unhealthy=True))
    return _as_device(f"cuda:{candidates[place_of_rank(len(candidates))]}" if candidates else "cpu")


def setup_gpu_environment(gpu_ids: Optional[Sequence[GpuId]] = None, num_gpus: Optional[int] = None) -> Any:
    """Selects GPUs, makes only them visible, prints them, and returns the device to use.

    The device is cuda:0 of the new mask (cuda:LOCAL_RANK below a launcher). "cpu" only for gpu_ids=[], or where there
    is no GPU and none was asked for.
    """
    selected = select_gpus(gpu_ids=gpu_ids, num_gpus=num_gpus)
    view = _native.Host().look()
    devices = devices_of(view)
    set_visible_gpus(selected)
    if selected:
        print(f"Using {len(selected)} of {len(devices)} GPUs ({_MASK}={os.environ[_MASK]})")
        for gpu_id in selected:
            print(describe(devices[gpu_id]))
    elif devices:
        print("Using the CPU: no GPU was asked for")
    else:
        print(f"Using the CPU: {view.explanation or f'{_MASK} shows no GPU'}")
    return get_optimal_device()


def get_current_gpu_index() -> Optional[int]:
    """The id of the GPU this process works on; None without a GPU.

    torch's current device where torch has initialised CUDA; else what set_gpu_device() set; else LOCAL_RANK below a
    launcher, unless only one GPU is visible; else 0.
    """
    torch = torch_with_cuda()
    if torch is not None:
        return int(torch.cuda.current_device())
    count = len(get_available_gpus())
    if count == 0:
        return None
    if _choices.gpu_id is not None and _choices.gpu_id < count:
        return _choices.gpu_id
    return place_of_rank(count)


def set_gpu_device(gpu_id: int) -> None:
    """Makes a visible GPU the current one: torch's where torch is imported, else the default of the functions here."""
    device = find_device(devices_of(_native.Host().look(everything=False)), gpu_id)
    torch = loaded_torch()
    if torch is not None:
        torch.cuda.set_device(device.id)
    _choices.gpu_id = device.id


def get_gpu_memory_info(gpu_id: Optional[int] = None) -> dict[str, Optional[int]]:
    """Bytes of one GPU, by default the current one; None: not known.

    allocated, reserved and max_allocated are this process's, from torch where it has initialised CUDA. total, used and
    free are device-wide. Without a GPU all are None.
    """
    devices = devices_of(_native.Host().look(everything=False))
    chosen = get_current_gpu_index() if gpu_id is None else gpu_id
    keys = ("allocated", "reserved", "max_allocated", "total", "used", "free")
    info: dict[str, Optional[int]] = dict.fromkeys(keys)
    if chosen is None:
        return info
    device = find_device(devices, chosen)
    info.update(total=device.memory_total, used=device.memory_used, free=device.memory_free)
    torch = torch_with_cuda()
    if torch is not None:
        info.update(
            allocated=int(torch.cuda.memory_allocated(device.id)),
            reserved=int(torch.cuda.memory_reserved(device.id)),
            max_allocated=int(torch.cuda.max_memory_allocated(device.id)),
        )
    return info


def clear_gpu_cache() -> bool:
    """Lets torch give its unused cached memory back to the device. False: there was nothing to ask."""
    torch = torch_with_cuda()
    if torch is None:
        return False
    torch.cuda.empty_cache()
    return True


def _as_device(name: str) -> Any:
    torch = loaded_torch()
    return name if torch is None else torch.device(name)
