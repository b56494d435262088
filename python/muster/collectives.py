"""What all ranks do together, over the caller's torch.distributed group; identity without a group.

Every rank calls the same functions in the same order. Nothing changes its argument but broadcast(), and no result
carries a gradient. Where ranks disagree (another function, shape, type or key) each of them gets a ValueError that says
what each rank brought; where a rank is missing, the others get a CollectiveError that names it. These are for metrics
and agreement: each call costs one small exchange more than torch's own, which gradients should use.
"""

import numbers
import pickle
from collections.abc import Mapping
from typing import Any, Optional, Union

from ._request import whole_number
from ._roll_call import RollCall, current_roll_call

__all__ = [
    "all_gather_tensors",
    "all_reduce",
    "all_reduce_mean",
    "all_reduce_scalar",
    "all_reduce_sum",
    "barrier",
    "broadcast",
    "broadcast_object",
    "gather_tensors",
    "reduce_dict",
]

_OPERATORS = {"sum": "SUM", "mean": "SUM", "min": "MIN", "max": "MAX", "product": "PRODUCT"}


def all_reduce(tensor: Any, op: str = "sum") -> Any:
    """The sum, mean, min, max or product over all ranks, on every rank; a new tensor of the same type.

    The mean of integers is what their sum / world size is in torch: of the default floating type. Half-precision sums
    are made in float32.
    """
    _check_operator(op)
    _check_arithmetic(tensor)
    roll_call = current_roll_call()
    if roll_call is None:
        return _result(tensor.detach().clone(), tensor, op, 1)
    with roll_call.operation(f"all_reduce({op}) of {_describe(tensor)}"):
        group, device = roll_call.group_for(tensor)
        sums = _wide(tensor, op).to(device, copy=True).contiguous()
        roll_call.distributed.all_reduce(sums, op=_operator(roll_call, op), group=group)
    return _result(sums, tensor, op, roll_call.size)


def all_reduce_sum(tensor: Any) -> Any:
    """The sum over all ranks, on every rank: all_reduce(tensor, "sum")."""
    return all_reduce(tensor, "sum")


def all_reduce_mean(tensor: Any) -> Any:
    """The mean over all ranks, on every rank: all_reduce(tensor, "mean")."""
    return all_reduce(tensor, "mean")


def all_reduce_scalar(value: Any, op: str = "mean") -> float:
    """A number, or a tensor of one element, reduced over all ranks in double precision. Whole numbers beyond 2**53 that
    a float cannot hold are a ValueError."""
    _check_operator(op)
    number = _number(value, "value")
    roll_call = current_roll_call()
    if roll_call is None:
        return number
    import torch

    with roll_call.operation(f"all_reduce_scalar({op})"):
        sums = torch.tensor(number, dtype=torch.float64)
        roll_call.distributed.all_reduce(sums, op=_operator(roll_call, op), group=roll_call.control)
    return float(sums) / roll_call.size if op == "mean" else float(sums)


def broadcast(tensor: Any, src: int = 0) -> Any:
    """Overwrites the tensor of every rank with that of rank src, in place, and returns it."""
    roll_call = current_roll_call()
    _check_rank(src, "src", roll_call)
    if roll_call is None:
        return tensor
    with roll_call.operation(f"broadcast(src={src}) of {_describe(tensor)}"):
        group, device = roll_call.group_for(tensor)
        carried = tensor.detach().to(device).contiguous()
        roll_call.distributed.broadcast(carried, src=src, group=group)
    if roll_call.rank != src:
        tensor.detach().copy_(carried)
    return tensor


def broadcast_object(value: Any, src: int = 0) -> Any:
    """The object of rank src, on every rank: whatever pickle can carry. The others' argument is not looked at."""
    roll_call = current_roll_call()
    _check_rank(src, "src", roll_call)
    if roll_call is None:
        return value
    payload, failure = None, None
    if roll_call.rank == src:
        try:
            payload = pickle.dumps(value)
        except Exception as error:  # whatever the object's own methods raise: the others must not wait for it
            failure = error
    with roll_call.operation(f"broadcast_object(src={src})"):
        carried = [payload]
        roll_call.distributed.broadcast_object_list(carried, src=src, group=roll_call.control)
    if failure is not None:
        raise failure
    if carried[0] is None:
        raise ValueError(f"rank {src} could not pickle its object\n  try: its own error says why")
    return value if roll_call.rank == src else pickle.loads(carried[0])


def gather_tensors(tensor: Any, dst: int = 0) -> Optional[list[Any]]:
    """On rank dst the tensors of all ranks, in their order; None elsewhere. All must have the same shape and type."""
    roll_call = current_roll_call()
    _check_rank(dst, "dst", roll_call)
    if roll_call is None:
        return [tensor.detach().clone()]
    import torch

    with roll_call.operation(f"gather_tensors(dst={dst}) of {_describe(tensor)}"):
        group, device = roll_call.group_for(tensor)
        carried = tensor.detach().to(device).contiguous()
        parts = [torch.empty_like(carried) for _ in range(roll_call.size)] if roll_call.rank == dst else None
        roll_call.distributed.gather(carried, parts, dst=dst, group=group)
    return None if parts is None else [part.to(tensor.device) for part in parts]


def all_gather_tensors(tensor: Any) -> list[Any]:
    """The tensors of all ranks, in their order, on every rank. All must have the same shape and type."""
    roll_call = current_roll_call()
    if roll_call is None:
        return [tensor.detach().clone()]
    import torch

    with roll_call.operation(f"all_gather_tensors of {_describe(tensor)}"):
        group, device = roll_call.group_for(tensor)
        carried = tensor.detach().to(device).contiguous()
        parts = [torch.empty_like(carried) for _ in range(roll_call.size)]
        roll_call.distributed.all_gather(parts, carried, group=group)
    return [part.to(tensor.device) for part in parts]


def barrier() -> None:
    """Waits until every rank is here. Work that is queued on a GPU is not waited for."""
    roll_call = current_roll_call()
    if roll_call is not None:
        with roll_call.operation("barrier"):
            pass  # the roll call is one


def reduce_dict(values: Mapping[str, Any], average: bool = True) -> dict[str, Any]:
    """The mean (or sum) of each entry over all ranks, in one go. All ranks must have the same keys, in any order.

    Numbers become floats. Tensors keep shape and device, and their type as in all_reduce().
    """
    op = "mean" if average else "sum"
    wide = {key: _wide_entry(key, value, op) for key, value in values.items()}
    roll_call = current_roll_call()
    sums, size = wide, 1
    if roll_call is not None:
        sums, size = _reduced_entries(roll_call, wide, op), roll_call.size
    return {key: _entry_result(sums[key], value, op, size) for key, value in values.items()}


def _wide_entry(key: str, value: Any, op: str) -> Any:
    """A number as a float, a tensor on the CPU in the widest type of its kind."""
    if isinstance(value, numbers.Real) and not hasattr(value, "detach"):
        return _number(value, key)
    if not hasattr(value, "detach"):
        raise TypeError(f"{key}={value!r} is neither a number nor a tensor")
    _check_arithmetic(value)
    if value.is_complex():
        raise TypeError(f"{key} is a tensor of {value.dtype}\n  try: all_reduce(), or torch.view_as_real({key})")
    widened = value.detach().cpu()
    return widened.double() if widened.is_floating_point() else widened.long()


def _reduced_entries(roll_call: RollCall, wide: Mapping[str, Any], op: str) -> dict[str, Any]:
    """Each entry's sum over the ranks: all that have the same type travel together."""
    import torch

    described = ", ".join(f"{key}{_shape_of(wide[key])}" for key in sorted(wide))
    entries = {key: wide[key] for key in sorted(wide)}
    entries.update((key, torch.tensor(wide[key], dtype=torch.float64)) for key in wide if isinstance(wide[key], float))
    sums: dict[str, Any] = {}
    with roll_call.operation(f"reduce_dict({op}) of {described or 'nothing'}"):
        for dtype in (torch.float64, torch.int64):
            keys = [key for key, entry in entries.items() if entry.dtype == dtype]
            if not keys:
                continue
            bundle = torch.cat([entries[key].flatten() for key in keys])
            roll_call.distributed.all_reduce(bundle, group=roll_call.control)
            parts = bundle.split([entries[key].numel() for key in keys])
            sums.update((key, part.view(entries[key].shape)) for key, part in zip(keys, parts))
    return sums


def _entry_result(sums: Any, value: Any, op: str, size: int) -> Any:
    if hasattr(value, "detach"):
        return _result(sums.clone(), value, op, size)
    return float(sums) / size if op == "mean" else float(sums)


def _result(sums: Any, tensor: Any, op: str, size: int) -> Any:
    """The sums as what the caller gets back for this tensor."""
    if op == "mean":
        sums = sums / size
    keeps_type = op != "mean" or tensor.is_floating_point() or tensor.is_complex()
    if not keeps_type:
        import torch

        return sums.to(tensor.device, torch.get_default_dtype())
    return sums.to(tensor.device, tensor.dtype)


def _wide(tensor: Any, op: str) -> Any:
    """Without loss while summing: half precision in float32, and integers whose mean is asked for in 64 bits."""
    if tensor.is_floating_point():
        return tensor.detach().float() if tensor.element_size() < 4 else tensor.detach()
    return tensor.long() if op == "mean" and not tensor.is_complex() else tensor.detach()


def _operator(roll_call: RollCall, op: str) -> Any:
    return getattr(roll_call.distributed.ReduceOp, _OPERATORS[op])


def _check_operator(op: str) -> None:
    if op not in _OPERATORS:
        raise ValueError(f"op={op!r}\n  try: {', '.join(_OPERATORS)}")


def _check_arithmetic(tensor: Any) -> None:
    if not hasattr(tensor, "detach"):
        raise TypeError(f"{type(tensor).__name__} is not a tensor\n  try: all_reduce_scalar() for a number")
    if str(tensor.dtype) == "torch.bool":
        raise TypeError("a tensor of bool has no sum of its own type\n  try: tensor.long()")


def _check_rank(rank: int, name: str, roll_call: Optional[RollCall]) -> None:
    size = 1 if roll_call is None else roll_call.size
    if not 0 <= whole_number(rank, name) < size:
        raise ValueError(f"{name}={rank}, but there are {size} ranks\n  try: 0 to {size - 1}")


def _number(value: Any, name: str) -> float:
    number: Union[float, int, Any] = value.item() if hasattr(value, "item") else value
    if not isinstance(number, numbers.Real):
        raise TypeError(f"{name}={value!r} is not a number")
    if isinstance(number, int) and int(float(number)) != number:
        raise ValueError(f"{name}={number} does not fit into a float\n  try: all_reduce() of an int64 tensor")
    return float(number)


def _describe(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _shape_of(value: Any) -> str:
    return f" {_describe(value)}" if hasattr(value, "dtype") else ""
