"""One process per GPU in three calls: a configuration, a set-up that joins the group, and a clean-up."""

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

from . import _native
from ._torch import loaded_process_group
from .process_group import cleanup_distributed, init_distributed
from .ranks import _is_rank

__all__ = ["MultiGPUConfig", "cleanup_multi_gpu", "distributed_context", "setup_multi_gpu"]

# What needs a model, which setup_multi_gpu() does not have, and what to write in its place.
_INSTEAD = {
    "tensor_parallel": "torch.distributed.tensor.parallel.parallelize_module(model, …)",
    "pipeline_parallel": "torch.distributed.pipelining",
}
# What DistributedTrainer does with the same configuration, and a script of one's own does by itself.
_LEFT_TO_THE_CALLER = {
    "use_gradient_checkpointing": "model.gradient_checkpointing_enable()",
    "find_unused_parameters": "DistributedDataParallel(model, find_unused_parameters=True)",
}


@dataclass(frozen=True)
class MultiGPUConfig:
    """How the ranks come together. What setup_multi_gpu() cannot do is refused or named in a warning, never ignored."""

    backend: Optional[str] = None  # "nccl" where torch can use a GPU, else "gloo"
    init_method: Optional[str] = None  # "env://"
    timeout_minutes: float = 30
    auto_device_map: bool = True  # this rank's GPU becomes the current one; there is no other way, so False is refused
    tensor_parallel: bool = False
    pipeline_parallel: bool = False
    use_gradient_checkpointing: bool = False
    find_unused_parameters: bool = False


def setup_multi_gpu(config: Optional[MultiGPUConfig] = None) -> MultiGPUConfig:
    """init_distributed() as the configuration says; returns it with the backend that is in use, None without a launch.

    ValueError with every field that needs a model, and what to use in its place; a warning with those that are left to
    the caller.
    """
    config = MultiGPUConfig() if config is None else config
    _refuse_what_needs_a_model(config)
    for name, call in _LEFT_TO_THE_CALLER.items():
        if getattr(config, name):
            logging.getLogger("muster").warning("%s=True is left to you: %s", name, call)
    joined = init_distributed(
        backend=config.backend, init_method=config.init_method, timeout_minutes=config.timeout_minutes
    )
    if not joined:
        _tell_of_idle_gpus()
        return dataclasses.replace(config, backend=None)
    group = loaded_process_group()
    return dataclasses.replace(config, backend=None if group is None else str(group.get_backend()))


def cleanup_multi_gpu() -> None:
    """Leaves the group; without one nothing happens."""
    cleanup_distributed()


@contextmanager
def distributed_context(config: Optional[MultiGPUConfig] = None) -> Iterator[MultiGPUConfig]:
    """setup_multi_gpu() for the length of a block. A group that was there before stays."""
    inherited = loaded_process_group() is not None
    ready = setup_multi_gpu(config)
    try:
        yield ready
    finally:
        if not inherited:
            cleanup_multi_gpu()


def _refuse_what_needs_a_model(config: MultiGPUConfig) -> None:
    refused = [f"{name}=True\n  try: {instead}" for name, instead in _INSTEAD.items() if getattr(config, name)]
    if not config.auto_device_map:
        refused.append("auto_device_map=False\n  try: torch.cuda.set_device(…) after the set-up")
    if refused:
        raise ValueError("setup_multi_gpu() has no model to change, and cannot honour " + "\nand ".join(refused))


def _tell_of_idle_gpus() -> None:
    visible = len(_native.Host().look(everything=False).visible)
    if visible > 1 and not _is_rank():
        logging.getLogger("muster").warning(
            "%d GPUs are visible, and this is one process, which uses one; for all: muster launch --num-gpus %d …",
            visible,
            visible,
        )
