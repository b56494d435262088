"""From the arguments that trainers elsewhere take to muster's settings."""

import dataclasses
import difflib
import enum
from collections.abc import Callable, Mapping
from typing import Any, Optional

_SCHEDULES = {
    "linear": "linear",
    "cosine": "cosine",
    "constant": "constant",
    "constant_with_warmup": "constant",
    "warmup_stable_decay": "wsd",
}
_OPTIMIZERS = {
    "adamw": "adamw",
    "adamw_8bit": "adamw_8bit",
    "adamw_bnb_8bit": "adamw_8bit",
    "adamw_hf": "adamw",
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw_fused",
    "adamw_fused": "adamw_fused",
    "sgd": "sgd",
}


def settings_of(args: Any) -> dict[str, Any]:
    """{"training.max_steps": 100, …} of a dict, a dataclass, or an object such as transformers' TrainingArguments.

    Of a dict, what it holds; of an object, all that is known here: its defaults are meant, too. What is not known and
    not at its default is a ValueError with the names.
    """
    if args is None:
        return {}
    given, defaults = (dict(args), {}) if isinstance(args, Mapping) else (_values(args), _defaults(args))
    settings: dict[str, Any] = {}
    unknown = []
    for name, value in given.items():
        if "." in name:
            settings[name] = value
        elif name in _KNOWN:
            settings.update(_KNOWN[name](name, _plain(value)))
        elif not isinstance(args, Mapping) and (name.startswith("_") or _same(value, defaults.get(name))):
            continue
        else:
            unknown.append((name, value))
    if unknown:
        raise ValueError(_complaint(unknown))
    _settle(settings, given, isinstance(args, Mapping))
    return settings


def flat_to_tree(settings: Mapping[str, Any]) -> dict[str, Any]:
    """{"training.max_steps": 1} → {"training": {"max_steps": 1}}."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        tree.setdefault(section, {})[name] = value
    return tree


def _settle(settings: dict[str, Any], given: Mapping[str, Any], by_hand: bool) -> None:
    """What depends on several arguments at once."""
    if "training.max_steps" in settings and not by_hand:
        settings.pop("training.num_epochs", None)  # as transformers has it: steps count where they are given
    for strategy, key in (("save_strategy", "training.save_steps"), ("eval_strategy", "training.eval_steps")):
        word = str(_plain(given.get(strategy, "steps")))
        if word == "no":
            settings.pop(key, None)
        elif word != "steps":
            raise ValueError(f'{strategy}="{word}" is not known here\n  try: {strategy}="steps" or "no"')
    if settings.get("training.fp16") and settings.get("training.bf16"):
        raise ValueError("fp16 and bf16 are both True\n  try: one of them")


def _values(args: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(args) and not isinstance(args, type):
        return {field.name: getattr(args, field.name) for field in dataclasses.fields(args)}
    if hasattr(args, "__dict__"):
        return dict(vars(args))
    raise TypeError(f"args={args!r} is neither a dict nor an object with arguments")


def _defaults(args: Any) -> dict[str, Any]:
    """Of an object like this one that nobody changed; what its class derives from other values is in it, too."""
    for given in ({"output_dir": getattr(args, "output_dir", None)}, {}):
        try:
            return _values(type(args)(**given))
        except Exception:  # noqa: BLE001 - whatever a stranger's class refuses: the declared defaults are left
            continue
    defaults = {}
    for field in dataclasses.fields(args) if dataclasses.is_dataclass(args) else ():
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    return defaults


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value == default) or (value is None and default is None)
    except Exception:  # noqa: BLE001 - objects that cannot be compared were not written by hand
        return type(value) is type(default)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _complaint(unknown: list[tuple[str, Any]]) -> str:
    lines = []
    for name, value in unknown:
        if name in _INSTEAD:
            lines.append(f"{name}={value!r}\n  try: {_INSTEAD[name]}")
            continue
        near = difflib.get_close_matches(name, list(_KNOWN), 1)
        lines.append(f"{name}={value!r}\n  try: " + (f"{near[0]}" if near else "leave it out"))
    return "args has what muster does not know: " + "\nand ".join(lines)


def _to(key: str) -> Callable[[str, Any], dict[str, Any]]:
    def convert(_: str, value: Any) -> dict[str, Any]:
        return {} if value is None else {key: value}

    return convert


def _steps(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None or value < 0 else {"training.max_steps": _whole(name, value)}


def _epochs(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {"training.num_epochs": _whole(name, value)}


def _count(key: str) -> Callable[[str, Any], dict[str, Any]]:
    def convert(name: str, value: Any) -> dict[str, Any]:
        return {} if value is None else {key: _whole(name, value)}

    return convert


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise ValueError(f"{name}={value!r} is not a whole number\n  try: {name}=1, 2, 3 …")
    return int(value)


def _checkpointing(_: str, value: Any) -> dict[str, Any]:
    if value in ("selective", "full", "none"):
        return {"training.gradient_checkpointing": value}
    return {} if value is None else {"training.gradient_checkpointing": "full" if value else "none"}


def _worded(key: str, words: Mapping[str, str]) -> Callable[[str, Any], dict[str, Any]]:
    def convert(name: str, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if str(value) not in words:
            raise ValueError(f'{name}="{value}" is not known here\n  try: {", ".join(words)}')
        return {key: words[str(value)]}

    return convert


def _only(accepted: tuple[Any, ...], remedy: str) -> Callable[[str, Any], dict[str, Any]]:
    def convert(name: str, value: Any) -> dict[str, Any]:
        if value not in accepted:
            raise ValueError(f"{name}={value!r} cannot be honoured\n  try: {remedy}")
        return {}

    return convert


def _nothing(_: str, __: Any) -> dict[str, Any]:
    return {}


_KNOWN: dict[str, Callable[[str, Any], dict[str, Any]]] = {
    "adam_beta1": _to("training.adam_beta1"),
    "adam_beta2": _to("training.adam_beta2"),
    "adam_epsilon": _to("training.adam_epsilon"),
    "bf16": _to("training.bf16"),
    "dataloader_num_workers": _to("training.dataloader_num_workers"),
    "dataloader_pin_memory": _to("training.dataloader_pin_memory"),
    "eval_steps": _count("training.eval_steps"),
    "eval_strategy": _nothing,
    "fp16": _to("training.fp16"),
    "gradient_accumulation_steps": _to("training.gradient_accumulation_steps"),
    "gradient_checkpointing": _checkpointing,
    "learning_rate": _to("training.learning_rate"),
    "logging_steps": _count("training.logging_steps"),
    "lr_scheduler_type": _worded("training.lr_scheduler", _SCHEDULES),
    "max_grad_norm": _to("training.max_grad_norm"),
    "max_length": _to("training.sequence_length"),
    "max_seq_length": _to("training.sequence_length"),
    "max_steps": _steps,
    "num_train_epochs": _epochs,
    "optim": _worded("training.optimizer", _OPTIMIZERS),
    "output_dir": _to("experiment.output"),
    "packing": _to("training.packing"),
    "per_device_train_batch_size": _to("training.micro_batch_size"),
    "save_steps": _count("training.save_steps"),
    "save_strategy": _nothing,
    "save_total_limit": _to("training.save_total_limit"),
    "seed": _to("experiment.seed"),
    "warmup_ratio": _only((None, 0, 0.0), "warmup_steps=…"),
    "warmup_steps": _count("training.warmup_steps"),
    "weight_decay": _to("training.weight_decay"),
}
_INSTEAD = {
    "auto_scale_lr": "learning_rate=…: the result would depend on the number of GPUs",
    "deepspeed": "leave it out: muster train has strategies of its own",
    "fsdp": "leave it out: muster train has strategies of its own",
    "resume_from_checkpoint": '{"experiment.resume": "auto"}',
    "run_name": '{"experiment.name": "…"}',
}


def whole_minutes(minutes: float) -> int:
    """Rounded up: nobody waits for less time than was asked for."""
    return max(1, -int(-minutes // 1))


def checkpointing_word(value: Any) -> Optional[str]:
    """Of from_pretrained's use_gradient_checkpointing: True, False, "unsloth" or a word of muster's."""
    if value is None:
        return None
    if value in ("none", "selective", "full"):
        return str(value)
    return "full" if value else "none"
