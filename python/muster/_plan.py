"""Whether work fits, where every byte goes, and what to change when it does not: `muster plan` as a function."""

import copy
import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from . import _native
from ._request import GpuId, gpu_count, id_texts, whole_number

__all__ = ["Plan", "plan"]

PathText = Union[str, "os.PathLike[str]"]
Limits = Union[str, Mapping[Union[int, str], Union[int, str]]]
Options = list[tuple[str, list[str]]]


class Plan:
    """A plan. Its attributes are the fields of `muster plan --json`; bytes are whole numbers."""

    fits: bool
    model: str
    parameters: int
    work: str  # "training" or "inference"
    implementation: str
    dtype: str
    mixed_precision: bool
    strategy: str
    sharding: Optional[str]  # None: the strategy is not fsdp
    shard_group: Optional[int]  # ranks that share a copy; None: the sharding is not hybrid_shard
    offload: bool
    world_size: int
    sequence_length: int
    unit: str  # what batches are counted in: "sequence", "pair"
    micro_batch: int
    accumulation: int
    effective_batch: int
    ranks: list[dict[str, Any]]
    device_map: Optional[dict[str, Union[int, str]]]  # for from_pretrained(device_map=…); None: the model is not split
    duplicated_bytes: int
    off_gpu_bytes: dict[str, int]
    batches: Optional[dict[str, int]]
    reasons: list[str]
    notes: list[str]
    refusal: Optional[dict[str, Any]]  # None: it fits

    def __init__(self, native: _native.AnsweredPlan, gpus_from: Optional[str] = None):
        self._native = native
        self._gpus_from = gpus_from
        self._fields: dict[str, Any] = json.loads(native.json())

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_fields"][name]
        except KeyError:
            raise AttributeError(f"a plan has no field {name!r}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def as_dict(self) -> dict[str, Any]:
        """What `muster plan --json` prints."""
        return copy.deepcopy(self._fields)

    def save_plot(self, path: PathText) -> None:
        """Writes a picture of the plan: an SVG with a bar per GPU, stacked by what fills it."""
        self._native.save_picture(os.fspath(path))

    def raise_if_refused(self) -> None:
        """RefusedError with the reason and the commands that would fit; nothing where the plan fits."""
        if self.refusal is None:
            return
        remedies = "".join(f"\n  try: {remedy['change']}\n       {remedy['command']}" for remedy in self.refusal["remedies"])
        raise _native.RefusedError(self.refusal["reason"] + remedies)

    def __str__(self) -> str:
        return self._native.text().rstrip("\n")

    def __repr__(self) -> str:
        outcome = "fits" if self.fits else "does not fit"
        return f"<muster.Plan: {self.work} of {self.model}, {self.strategy}, {outcome}>"


def plan(
    model: Optional[PathText] = None,
    *,
    params: Union[None, int, str] = None,
    train: Optional[bool] = None,
    dtype: Any = None,
    seq_len: Optional[int] = None,
    batch: Optional[int] = None,
    micro_batch: Optional[int] = None,
    accumulation: Optional[int] = None,
    num_gpus: Optional[int] = None,
    gpu_ids: Optional[Sequence[GpuId]] = None,
    gpus_from: Optional[PathText] = None,
    max_memory: Optional[Limits] = None,
    device_map: Union[None, int, str, Mapping[str, Union[int, str]]] = None,
    strategy: Optional[str] = None,
    planner: str = "optimal",
    implementation: str = "transformers",
    optimizer: Optional[str] = None,
    mixed_precision: Optional[str] = None,
    checkpointing: Optional[bool] = None,
    lora: Optional[int] = None,
    offload: Optional[bool] = None,
    new_tokens: Optional[int] = None,
    nodes: Optional[int] = None,
    sharding: Optional[str] = None,
    attention: Optional[str] = None,
    allocator: str = "auto",
    constants: Optional[PathText] = None,
) -> Plan:
    """The plan that `muster plan` makes of the same options.

    model: a folder, a config.json, a GGUF file, a name in the Hugging Face cache, or a run's configuration file;
    params instead: a size, as in "70B". train: None means inference, and training for a run's configuration file.
    max_memory: {0: "10GB", "cpu": "30GiB"}; GPUs that are not named are not used. gpu_ids=[] plans for the CPU.
    gpus_from: an inventory file in place of this machine's GPUs.

    A plan that does not fit is a plan, with a refusal: see Plan.raise_if_refused(). Arguments that make no sense are
    ValueError or TypeError; GPUs that are not there are RefusedError.
    """
    options: Options = []
    subjects = [] if model is None else [os.fspath(model)]
    subjects += _switched_off(checkpointing, "training.gradient_checkpointing")
    subjects += _switched_off(offload, "distributed.fsdp_cpu_offload")
    options += [("", [word]) for word in subjects]
    _add_flag(options, "--train", train, True)
    _add_flag(options, "--infer", train, False)
    _add(options, "--params", None if params is None else str(params))
    _add(options, "--max-memory", _limits_text(max_memory))
    _add_flag(options, "--checkpointing", checkpointing, True)
    _add_flag(options, "--offload", offload, True)
    _add_number(options, "--lora", lora)
    for option, word, usual in (
        ("--implementation", implementation, "transformers"),
        ("--planner", planner, "optimal"),
        ("--allocator", allocator, "auto"),
    ):
        _add(options, option, None if word == usual else word)
    _add(options, "--constants", None if constants is None else os.fspath(constants))
    _add_number(options, "--seq-len", seq_len)
    _add_number(options, "--batch", batch)
    _add_number(options, "--micro-batch", micro_batch)
    _add_number(options, "--accumulation", accumulation)
    _add_number(options, "--new-tokens", new_tokens)
    _add(options, "--optimizer", optimizer)
    _add(options, "--mixed-precision", mixed_precision)
    _add(options, "--attention", attention)
    _add(options, "--sharding", sharding)
    _add_number(options, "--nodes", nodes)
    _add(options, "--device-map", _map_text(device_map))
    inventory = None if gpus_from is None else os.fspath(gpus_from)
    _add(options, "--gpus-from", inventory)
    count = gpu_count(num_gpus)
    _add(options, "--num-gpus", None if count is None else str(count))
    options += _gpu_options(gpu_ids)
    _add(options, "--strategy", strategy)
    _add(options, "--dtype", None if dtype is None else type_name(dtype))
    answered = _native.answer_plan(options, inventory)
    for note in answered.notes:
        logging.getLogger("muster").info(note)
    return Plan(answered, inventory)


def smallest_set(wanted: Plan, gpu_ids: Sequence[int], margin: float) -> list[int]:
    """The fewest of these GPUs that hold the plan's model, its memory times margin; RefusedError where all are too few."""
    if wanted.work != "inference":
        raise ValueError("the plan is of training, which gives each GPU a rank\n  try: a plan of inference")
    if wanted._gpus_from is not None:
        raise ValueError(f"the plan is for the GPUs of {wanted._gpus_from}\n  try: a plan without gpus_from")
    chosen = wanted._native.smallest_set(list(gpu_ids), margin)
    if not chosen:
        wanted.raise_if_refused()
        raise _native.RefusedError(
            f"{wanted.model} does not fit the {len(gpu_ids)} GPUs that are free, its memory times {margin}"
        )
    return chosen


def type_name(dtype: Any) -> str:
    """torch.bfloat16, "torch.bfloat16" and "bfloat16" are "bfloat16"."""
    return str(dtype).removeprefix("torch.")


def _add(options: Options, option: str, value: Optional[str]) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise TypeError(f"{option.removeprefix('--').replace('-', '_')}={value!r} is not text")
    options.append((option, [value]))


def _add_number(options: Options, option: str, value: Optional[int]) -> None:
    if value is not None:
        options.append((option, [str(whole_number(value, option.removeprefix("--").replace("-", "_")))]))


def _add_flag(options: Options, option: str, value: Optional[bool], wanted: bool) -> None:
    if value is None:
        return
    if not isinstance(value, bool):
        raise TypeError(f"{option.removeprefix('--').replace('infer', 'train')}={value!r} is neither True nor False")
    if value is wanted:
        options.append((option, []))


def _switched_off(value: Optional[bool], key: str) -> list[str]:
    """A flag cannot be taken back: what a configuration file switches on is switched off by its setting."""
    return [f"{key}=false"] if value is False else []


def _gpu_options(gpu_ids: Optional[Sequence[GpuId]]) -> Options:
    if gpu_ids is None:
        return []
    ids = id_texts(gpu_ids)
    return [("--gpu-ids", ids)] if ids else [("--device", ["cpu"])]


def _limits_text(limits: Optional[Limits]) -> Optional[str]:
    if limits is None or isinstance(limits, str):
        return limits
    if not isinstance(limits, Mapping):
        raise TypeError(f'max_memory={limits!r} is not a dict\n  try: {{0: "10GB", "cpu": "30GiB"}}')
    if not limits:
        raise ValueError('max_memory={} names no device\n  try: {0: "10GB", "cpu": "30GiB"}, or leave it out')
    return ",".join(f"{device}={size}" for device, size in limits.items())


def _map_text(device_map: Union[None, int, str, Mapping[str, Union[int, str]]]) -> Optional[str]:
    if device_map is None or isinstance(device_map, str):
        return device_map
    if isinstance(device_map, Mapping):
        return json.dumps({str(path): place if isinstance(place, int) else str(place) for path, place in device_map.items()})
    return str(whole_number(device_map, "device_map"))
