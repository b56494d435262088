"""What is known about the devices this process sees."""

from dataclasses import dataclass
from typing import Optional, Union

from . import _native
from ._request import whole_number

_MIB = 1 << 20


@dataclass(frozen=True)
class Device:
    """One visible device. Memory in bytes, device-wide; None: not known."""

    id: int  # within the mask
    index: int  # on the machine
    uuid: Optional[str]
    name: Optional[str]
    compute_capability: Optional[str]
    multi_processor_count: Optional[int]
    memory_total: Optional[int]
    memory_used: Optional[int]
    memory_free: Optional[int]
    utilization: Optional[int]
    lease: Optional[dict[str, Union[int, str, None]]]


def devices_of(view: _native.HostView) -> list[Device]:
    return [_device(view, position) for position in range(len(view.visible))]


def find_device(devices: list[Device], gpu_id: int) -> Device:
    """The device with this id; ValueError with the ids there are."""
    position = whole_number(gpu_id, "gpu_id")
    if not 0 <= position < len(devices):
        available = ", ".join(str(device.id) for device in devices)
        seen = f"available: {available}" if devices else "no GPU is visible here"
        raise ValueError(f"no visible GPU {position}; {seen}\n  try: ids count from 0 within CUDA_VISIBLE_DEVICES")
    return devices[position]


def in_mebibytes(count: Optional[int]) -> Optional[int]:
    """Whole MiB, rounded down: what nvidia-smi calls MB."""
    return None if count is None else count // _MIB


def used_percent(device: Device) -> float:
    """RuntimeError where the device does not tell."""
    if device.memory_used is None or not device.memory_total:
        raise RuntimeError(f"GPU {device.id} ({device.name or 'unknown'}) does not report how much memory is in use")
    return 100.0 * device.memory_used / device.memory_total


def describe(device: Device) -> str:
    """The line of print_gpu_info()."""
    total = "memory unknown" if device.memory_total is None else f"{in_mebibytes(device.memory_total)} MB total"
    used = "use unknown"
    if device.memory_used is not None and device.memory_total:
        used = f"{in_mebibytes(device.memory_used)} MB used ({used_percent(device):.1f}%)"
    compute = device.compute_capability or "unknown"
    return f"GPU {device.id}: {device.name or 'unknown'} ({total}, {used}, Compute {compute})"


def _device(view: _native.HostView, position: int) -> Device:
    visible = view.visible[position]
    gpu = view.gpu_of(visible)
    instance = None if visible.mig is None else gpu.mig_instances[visible.mig]
    holder = view.holder_of(visible)
    lease = None
    if holder is not None:
        lease = {"pid": holder.pid, "user": holder.user, "command": holder.command, "since": holder.since}
    # What a GPU in MIG mode reports about itself is not true of one of its instances.
    return Device(
        id=position,
        index=visible.index,
        uuid=visible.uuid,
        name=instance.name or gpu.name if instance else gpu.name,
        compute_capability=gpu.compute_capability,
        multi_processor_count=None if instance else gpu.multiprocessor_count,
        memory_total=instance.memory_total if instance else gpu.memory_total,
        memory_used=None if instance else gpu.memory_used,
        memory_free=None if instance else gpu.memory_free,
        utilization=None if instance else gpu.utilization,
        lease=lease,
    )
