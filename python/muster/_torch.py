"""The caller's torch and the state of CUDA in this process. torch is never imported from here."""

import ctypes
import os
import sys
from types import ModuleType
from typing import Optional

_CUDA_ERROR_NOT_INITIALIZED = 3


def loaded_torch() -> Optional[ModuleType]:
    """torch, where the caller has imported it."""
    module = sys.modules.get("torch")
    return module if hasattr(module, "cuda") else None


def torch_with_cuda() -> Optional[ModuleType]:
    """torch, where it is loaded and has initialised CUDA: asking it then changes nothing."""
    torch = loaded_torch()
    return torch if torch is not None and torch.cuda.is_initialized() else None


def loaded_process_group() -> Optional[ModuleType]:
    """torch.distributed, where the caller has imported it and a group is initialised."""
    module = sys.modules.get("torch.distributed")
    return module if module is not None and module.is_available() and module.is_initialized() else None


def cuda_user() -> Optional[str]:
    """Who has initialised CUDA in this process, in words. CUDA reads the mask in that moment and never again."""
    if torch_with_cuda() is not None:
        return "torch"
    return "a library" if _driver_is_initialized() else None


def _driver_is_initialized() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False  # nobody in this process has loaded it
    count = ctypes.c_int()
    return bool(driver.cuDeviceGetCount(ctypes.byref(count)) != _CUDA_ERROR_NOT_INITIALIZED)
