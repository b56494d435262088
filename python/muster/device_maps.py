"""accelerate's planner functions, with its arguments and its results, without accelerate or torch; and what models take.

Where accelerate fails with an error of its own, these raise RefusedError, which names it. docs/device-maps.md tells what
accelerate does that one would not expect; muster.plan() has none of it.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from . import _native
from ._devices import devices_of
from ._module_shape import bytes_per_element, shape_of

__all__ = ["estimate_memory", "get_balanced_memory", "infer_auto_device_map"]

Place = Union[int, str]
MaxMemory = Mapping[Place, Union[int, float, str]]
ClassNames = Union[None, str, Iterable[str]]
Budgets = list[tuple[str, int, float]]

_MOST_BYTES = 2**62
# As accelerate reads sizes: the first unit that the text ends with, in any case.
_UNITS = {"GIB": 2**30, "MIB": 2**20, "KIB": 2**10, "GB": 10**9, "MB": 10**6, "KB": 10**3}


def infer_auto_device_map(
    model: Any,
    max_memory: Optional[MaxMemory] = None,
    no_split_module_classes: ClassNames = None,
    dtype: Any = None,
    special_dtypes: Optional[Mapping[str, Any]] = None,
    verbose: bool = False,
    clean_result: bool = True,
    offload_buffers: bool = False,
    fallback_allocation: bool = False,
) -> dict[str, Place]:
    """The device map that accelerate's function of this name makes: {module: GPU number, "cpu" or "disk"}.

    model: a torch module, also on meta, or a path that muster.plan() accepts. max_memory: as accelerate reads it; None:
    what is free on the visible GPUs, and host memory as "cpu". A name in special_dtypes that the model lacks is a
    ValueError. offload_buffers changes no map. verbose prints each entry.
    """
    shape = shape_of(model)
    request = _request(dtype, special_dtypes, no_split_module_classes)
    request.clean = clean_result
    request.fallback_allocation = fallback_allocation
    device_map = {path: _place(word) for path, word in _native.compat_map(shape, request, _budgets(max_memory))}
    if verbose:
        for path, place in device_map.items():
            print(f"{path or 'the whole model'}: {place}")
    return device_map


def get_balanced_memory(
    model: Any,
    max_memory: Optional[MaxMemory] = None,
    no_split_module_classes: ClassNames = None,
    dtype: Any = None,
    special_dtypes: Optional[Mapping[str, Any]] = None,
    low_zero: bool = False,
) -> dict[Place, Union[int, float]]:
    """The budgets in bytes that accelerate's function of this name gives, for infer_auto_device_map(max_memory=…).

    Arguments as there. low_zero: as little as possible on GPU 0.
    """
    request = _request(dtype, special_dtypes, no_split_module_classes)
    request.limits_given = max_memory is not None
    balanced = _native.balanced_budgets(shape_of(model), request, _budgets(max_memory), low_zero)
    return {_place(word): whole + fraction if fraction else whole for word, whole, fraction in balanced}


def estimate_memory(
    model: Any, dtypes: Iterable[Any] = ("float32", "float16", "int8", "int4")
) -> list[dict[str, Any]]:
    """What a model takes in each type, in bytes: a row per type.

    "dtype", "Largest Layer or Residual Group", "Total Size" and "Training using Adam" are the columns of `accelerate
    estimate-memory`, by its rules, for a model of float32; None: it has no number. Ours beside them: "parameters"
    (their count), "weights" (bytes they are held in, with the scales and 16-bit parts of quantised ones; None where a
    torch module does not say which classes its blocks have, as transformers' models do), "buffers", and "training"
    (None for quantised types): weights, gradients and Adam's two moments, 16 bytes per parameter, for float32 as for
    mixed precision, activations not included.
    """
    shape = shape_of(model, floating="float32")
    largest, total = _native.largest_and_total(shape)
    return [_estimate(shape, str(dtype).removeprefix("torch."), largest, total) for dtype in dtypes]


def _estimate(shape: _native.ModelShape, dtype: str, largest: float, total: float) -> dict[str, Any]:
    parts = {"float32": 1, "float16": 2, "bfloat16": 2, "int8": 4, "int4": 8}
    if dtype not in parts:
        raise ValueError(f"dtype={dtype!r}\n  try: one of {', '.join(parts)}")
    parameters, weights, buffers = _native.weigh(shape, dtype)
    quantised = dtype in ("int8", "int4")
    return {
        "dtype": dtype,
        "Largest Layer or Residual Group": math.ceil(largest / parts[dtype]),
        "Total Size": math.ceil(total / parts[dtype]),
        "Training using Adam": None if quantised else math.ceil(total * (4 if dtype == "float32" else 2)),
        "parameters": parameters,
        "weights": None if quantised and not shape.whole_classes else weights,
        "buffers": buffers,
        "training": None
        if quantised
        else {
            "weights": 4 * parameters,
            "gradients": 4 * parameters,
            "optimizer": 8 * parameters,
            "total": 16 * parameters,
        },
    }


def _request(
    dtype: Any, special_dtypes: Optional[Mapping[str, Any]], no_split_module_classes: ClassNames
) -> _native.CompatRequest:
    if no_split_module_classes is None:
        classes = []
    elif isinstance(no_split_module_classes, str):
        classes = [no_split_module_classes]
    else:
        classes = list(no_split_module_classes)
    special = {name: bytes_per_element(kind) for name, kind in (special_dtypes or {}).items()}
    return _native.CompatRequest(None if dtype is None else bytes_per_element(dtype), special, classes)


def _place(word: str) -> Place:
    return word if word in ("cpu", "disk") else int(word)


def _budgets(max_memory: Optional[MaxMemory]) -> Budgets:
    limits = _free_memory() if max_memory is None else max_memory
    if not isinstance(limits, Mapping):
        raise TypeError(f'max_memory={limits!r} is not a dict\n  try: {{0: "10GiB", "cpu": "30GiB"}}')
    budgets = []
    for place, size in limits.items():
        number = isinstance(place, int) and not isinstance(place, bool) and place >= 0
        if not number and place not in ("cpu", "disk"):
            raise ValueError(f'max_memory names {place!r}\n  try: a GPU as the number of cuda:N, "cpu" or "disk"')
        size = _size(size) if isinstance(size, str) else size
        if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 <= size <= _MOST_BYTES:
            raise ValueError(f'max_memory gives {place!r} {size!r}\n  try: bytes, or a text such as "10GiB"')
        budgets.append((str(place), math.floor(size), size - math.floor(size)))
    return budgets


def _size(text: str) -> int:
    """Bytes of "10GiB", "10GB", or "10Gb", which are bits: a small b at the end of a decimal unit."""
    for unit, factor in _UNITS.items():
        if not text.upper().endswith(unit):
            continue
        try:
            size = int(float(text[: -len(unit)]) * factor)
        except (ValueError, OverflowError):
            break
        if size < 0:
            break
        return size // 8 if len(unit) == 2 and text.endswith("b") else size
    raise ValueError(f'"{text}" is not a size\n  try: "10GiB", "10GB", or a number of bytes that is not text')


def _free_memory() -> dict[Place, int]:
    """What is free on the visible GPUs and in host memory."""
    free: dict[Place, int] = {}
    for device in devices_of(_native.Host().look(everything=False)):
        known = device.memory_free if device.memory_free is not None else device.memory_total
        if known is None:
            raise RuntimeError(f"GPU {device.id} does not tell its memory\n  try: give max_memory")
        free[device.id] = known
    host = _native.free_host_memory()
    if host is not None:
        free["cpu"] = host
    return free
