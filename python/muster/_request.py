"""Python arguments turned into a native request, or refused in Python's words."""

import math
import operator
from collections.abc import Iterable
from typing import Optional, Union

from . import _native

GpuId = Union[int, str]

_MOST_GPUS = 1_000_000
_MOST_BYTES = 2**62


def whole_number(value: object, name: str) -> int:
    """An int or what stands for one (numpy's integers); True and 1.0 do not."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r} is not a whole number")
    return operator.index(value)


def id_texts(gpu_ids: Iterable[GpuId]) -> list[str]:
    """The ids as the native selection reads them: visible numbers and UUIDs."""
    if isinstance(gpu_ids, (str, bytes)) or not isinstance(gpu_ids, Iterable):
        raise TypeError(f"gpu_ids={gpu_ids!r} is not a list\n  try: a list of ids, as in [0, 2]")
    return [item if isinstance(item, str) else str(whole_number(item, "an id in gpu_ids")) for item in gpu_ids]


def gpu_count(num_gpus: Optional[int]) -> Optional[int]:
    """None: not given."""
    if num_gpus is None:
        return None
    count = whole_number(num_gpus, "num_gpus")
    if not 1 <= count <= _MOST_GPUS:
        raise ValueError(f"num_gpus={count}\n  try: 1 or more; gpu_ids=[] uses none")
    return count


def byte_count(size: Union[int, str], name: str) -> int:
    """Bytes, from a number of them or a text such as "20GiB"."""
    count = _native.parse_byte_count(size) if isinstance(size, str) else whole_number(size, name)
    if not 0 <= count <= _MOST_BYTES:
        raise ValueError(f'{name}={size!r}\n  try: a size such as "20GiB", from 0 to {_MOST_BYTES} bytes')
    return count


def model_bytes(model_size_gb: float) -> int:
    """Bytes of so many GiB, rounded up."""
    if not math.isfinite(model_size_gb) or not 0 < model_size_gb <= _MOST_BYTES / 2**30:
        raise ValueError(f"model_size_gb={model_size_gb}\n  try: its size in GiB, as in 14")
    return math.ceil(model_size_gb * 2**30)


def wait_milliseconds(wait: Union[None, float, str]) -> Optional[int]:
    """None: no waiting. A year is as good as for ever."""
    if wait is None:
        return None
    if isinstance(wait, str):
        return _native.parse_duration(wait)
    if isinstance(wait, bool) or math.isnan(wait) or wait < 0:
        raise ValueError(f'wait={wait}\n  try: seconds, as in 30, or a text, as in "10m"')
    return math.ceil(min(wait, 365 * 24 * 3600) * 1000)
