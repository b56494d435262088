"""A model's tree of modules and tensors as the planner reads it, from a torch module or from a file."""

import os
import re
from typing import Any, Optional

from . import _native

# Types of tensors that are counted as others of their size.
_COUNTED_AS = {
    "uint16": "int16",
    "uint32": "int32",
    "uint64": "int64",
    "complex32": "float32",
    "complex64": "float64",
}
_COUNTED = {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}
_OTHER_NAMES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}
_PACKED = {"bool": 1 / 8, "int2": 1 / 4, "int4": 1 / 2, "nf4": 1 / 2, "fp8": 1.0}

_Tensor = tuple[str, list[int], str, bool, Optional[int]]
_Module = tuple[str, str, Optional[int], list[_Tensor]]


def bytes_per_element(dtype: Any) -> float:
    """Of torch.bfloat16, "bfloat16", "int8" or accelerate's CustomDtype.INT4; fractions of a byte where it has them."""
    word = str(dtype).rpartition(".")[2].lower()
    word = _OTHER_NAMES.get(word, word)
    if word in _PACKED:
        return _PACKED[word]
    if word.startswith("float8_"):
        return 1.0
    bits = re.fullmatch(r"(?:u?int|b?float|complex)(8|16|32|64|128)", word)
    if bits is None:
        raise ValueError(f'dtype={dtype!r} is not a type of number\n  try: torch.bfloat16, "float16", "int8" or "int4"')
    return int(bits[1]) / 8


def shape_of(model: Any, floating: Optional[str] = None) -> _native.ModelShape:
    """The shape of a torch module (also on meta), or of what muster.plan() accepts as a model.

    floating: the type in which numbers with a point are counted; None: as they are.
    """
    if hasattr(model, "named_modules"):
        return _native.ModelShape(_modules_of(model, floating), list(getattr(model, "_no_split_modules", None) or []))
    if isinstance(model, (str, os.PathLike)):
        return _native.read_shape(os.fspath(model), floating)
    raise TypeError(f"model={model!r} is neither a torch module nor the path of a model")


def _modules_of(model: Any, floating: Optional[str]) -> list[_Module]:
    """Modules in the order of definition, each under all its names; a tensor that came before is tied to itself."""
    modules: list[_Module] = []
    index_of: dict[str, int] = {}
    first_place: dict[int, int] = {}
    count = 0
    for path, module in model.named_modules(remove_duplicate=False):
        parent, _, name = path.rpartition(".")
        index_of[path] = len(modules)
        tensors: list[_Tensor] = []
        for is_parameter, own in (
            (True, module.named_parameters(recurse=False, remove_duplicate=False)),
            (False, module.named_buffers(recurse=False, remove_duplicate=False)),
        ):
            for tensor_name, tensor in own:
                counted = _counted_type(tensor.dtype, f"{path}.{tensor_name}", floating)
                tensors.append((tensor_name, list(tensor.shape), counted, is_parameter, first_place.get(id(tensor))))
                first_place.setdefault(id(tensor), count)
                count += 1
        modules.append((name, type(module).__name__, index_of[parent] if path else None, tensors))
    return modules


def _counted_type(dtype: Any, tensor: str, floating: Optional[str]) -> str:
    word = str(dtype).removeprefix("torch.")
    if floating is not None and ("float" in word or "complex" in word):
        return floating
    if word.startswith("float8_"):
        return "float8"
    word = _COUNTED_AS.get(word, word)
    if word in _COUNTED:
        return word
    raise ValueError(f"{tensor} is of type {dtype}, whose size muster does not know")
