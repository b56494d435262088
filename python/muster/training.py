"""Training from a plain script: a model, a dataset, a trainer. `muster train` does the work, in processes of its own."""

import csv
import json
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from . import _native
from ._main_rank import by_main_rank
from ._program import find_program, run_program
from ._rank_facts import rank_from
from ._rewards import RewardFunction, RewardServer
from .environments import EnvironmentServer
from ._training_arguments import checkpointing_word, flat_to_tree, settings_of, whole_minutes
from ._training_rows import Dataset, RowUse, data_path
from .multi_gpu import MultiGPUConfig

__all__ = ["DistributedTrainer", "FastLanguageModel", "LanguageModel", "ModelTokenizer", "TrainOutput"]

_GIB = float(1 << 30)
_DTYPES = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "auto": "auto"}


@dataclass(frozen=True)
class LanguageModel:
    """A model by name, and how it is to be loaded. Nothing is in memory until train()."""

    path: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelTokenizer:
    """The model's own tokenizer; muster reads it by itself."""

    name_or_path: str


@dataclass(frozen=True)
class TrainOutput:
    """What came of a run."""

    global_step: int
    training_loss: Optional[float]
    metrics: dict[str, Any]  # as result.json of the run has them
    folder: Path  # of the run: docs/runs.md tells what is in it
    exit_code: int  # 0, or 128 + signal where it was interrupted

    @property
    def model(self) -> Path:
        """The trained model, as transformers and muster read it; there when the run is done, unless training.save_at_end says nothing."""
        return self.folder / "model"

    def history(self) -> list[dict[str, Optional[float]]]:
        """A dict for each step, with step, loss, learning_rate, …; None: not measured at that step."""
        with (self.folder / "metrics.csv").open(newline="") as file:
            return [{key: float(text) if text else None for key, text in row.items()} for row in csv.DictReader(file)]


class FastLanguageModel:
    """Names a model for DistributedTrainer."""

    @staticmethod
    def from_pretrained(
        model_name: str,
        max_seq_length: Optional[int] = None,
        dtype: Any = None,
        load_in_4bit: bool = False,
        load_in_8bit: bool = False,
        full_finetuning: Optional[bool] = None,
        device_map: Any = None,
        auto_device_map: bool = True,
        max_memory: Optional[Mapping[Any, Any]] = None,
        use_multi_gpu: Optional[bool] = None,
        use_gradient_checkpointing: Any = None,
        random_state: Optional[int] = None,
        trust_remote_code: bool = False,
    ) -> tuple[LanguageModel, ModelTokenizer]:
        """The model and its tokenizer, looked up but not loaded. ValueError with all that cannot be honoured.

        model_name: a folder, a name in the Hugging Face cache or in muster's store, or builtin:llama-0.6m, which begins
        from random weights; the folder of an adapter is trained on, over its own model. use_multi_gpu=False trains with
        one rank.

        All weights are trained, or with full_finetuning=False, and over weights in 4 or 8 bits, low-rank adapters beside
        every linear layer: get_peft_model() says which.
        """
        packed = load_in_4bit or load_in_8bit
        _refuse(
            (load_in_4bit and load_in_8bit, "load_in_4bit=True with load_in_8bit=True", "keep one of the two"),
            (
                packed and bool(full_finetuning),
                "full_finetuning=True",
                "leave it out: weights in 4 or 8 bits stay as they are, and adapters beside them are trained",
            ),
            (
                device_map not in (None, "auto"),
                f"device_map={device_map!r}",
                'device_map="auto": every GPU gets the whole model, and no map splits it',
            ),
            (not auto_device_map, "auto_device_map=False", "leave it out: every rank gets its GPU"),
            (trust_remote_code, "trust_remote_code=True", "leave it out: no code of a model is run"),
        )
        if not model_name.startswith("builtin:") and not _says_more_than_a_model(model_name):
            _native.read_shape(model_name, None)  # a model that is not there is reported at once
        settings: dict[str, Any] = {"model.path": model_name}
        for key, value in (
            ("training.sequence_length", max_seq_length),
            ("model.dtype", None if dtype is None else _dtype_word(dtype)),
            ("model.max_memory", None if max_memory is None else {str(key): size for key, size in max_memory.items()}),
            ("distributed.enabled", use_multi_gpu),
            ("training.gradient_checkpointing", checkpointing_word(use_gradient_checkpointing)),
            ("experiment.seed", random_state),
            ("model.load_in_4bit", load_in_4bit or None),
            ("model.load_in_8bit", load_in_8bit or None),
            ("model.use_lora", True if packed or full_finetuning is False else None),
        ):
            if value is not None:
                settings[key] = value
        return LanguageModel(model_name, settings), ModelTokenizer(model_name)

    @staticmethod
    def get_peft_model(
        model: LanguageModel,
        r: int = 16,
        target_modules: Union[str, Iterable[str]] = "all-linear",
        lora_alpha: float = 16,
        lora_dropout: float = 0.0,
        bias: str = "none",
        use_rslora: bool = False,
        exclude_modules: Union[None, str, Iterable[str]] = None,
        use_dora: bool = False,
        modules_to_save: Union[None, str, Iterable[str]] = None,
        use_gradient_checkpointing: Any = None,
        random_state: Optional[int] = None,
    ) -> LanguageModel:
        """The same model with low-rank adapters, which alone are trained. ValueError with all that cannot be honoured."""
        FastLanguageModel.for_training(model)
        _refuse((bias != "none", f"bias={bias!r}", 'bias="none": biases are not trained beside adapters'))
        settings = model.settings | {
            "model.use_lora": True,
            "model.lora_r": r,
            "model.lora_alpha": lora_alpha,
            "model.lora_dropout": lora_dropout,
            "model.lora_target_modules": _names(target_modules),
            "model.use_rslora": use_rslora,
            "model.use_dora": use_dora,
        }
        for key, value in (
            ("model.lora_exclude_modules", None if exclude_modules is None else _names(exclude_modules)),
            ("model.modules_to_save", _names(modules_to_save) if modules_to_save else None),
            ("training.gradient_checkpointing", checkpointing_word(use_gradient_checkpointing)),
            ("experiment.seed", random_state),
        ):
            if value is not None:
                settings[key] = value
        return LanguageModel(model.path, settings)

    @staticmethod
    def for_training(model: LanguageModel) -> LanguageModel:
        """The model itself: there is nothing to switch before train()."""
        if not isinstance(model, LanguageModel):
            raise TypeError(f"model={model!r} is not from FastLanguageModel.from_pretrained()")
        return model


class DistributedTrainer:
    """Trains on all GPUs that are visible and free, or on CPU ranks: the program `muster train`, started and followed.

    In a script that torchrun, muster launch or srun started, rank 0 starts it, with as many ranks as were launched, and
    the others wait for its end. `args` is a dict, a dataclass, or an object such as transformers' TrainingArguments and
    trl's SFTConfig; a key with a point, as in {"training.deterministic": True}, is any setting of muster's.

    rewards: functions that judge what the model answers while it is trained (training.algorithm "grpo" or "rloo"), in
    this process: f(prompts, completions, **columns of the dataset), lists of one length, gives a number for each, or
    None where it cannot tell. reward_weights: one for each function.

    environment: what the model acts in while it is trained, in this process, in the place of rewards: a class whose
    sessions have reset(row, seed) and step(answer) (muster.environments), or an environment of the verifiers package.
    """

    def __init__(
        self,
        model: Union[LanguageModel, str],
        tokenizer: Any = None,
        train_dataset: Optional[Dataset] = None,
        eval_dataset: Optional[Dataset] = None,
        args: Any = None,
        multi_gpu_config: Optional[MultiGPUConfig] = None,
        rewards: Optional[Sequence[RewardFunction]] = None,
        reward_weights: Optional[Sequence[float]] = None,
        environment: Any = None,
    ) -> None:
        if rewards is not None and environment is not None:
            raise ValueError("both rewards and an environment are given, and an environment judges by itself\n  try: keep one of the two")
        self.rewards = rewards
        self.environment = environment
        self.reward_weights = reward_weights
        self.model = model if isinstance(model, LanguageModel) else LanguageModel(model, {"model.path": model})
        if tokenizer is not None and getattr(tokenizer, "name_or_path", tokenizer) != self.model.path:
            raise ValueError(
                f"tokenizer={tokenizer!r} is not that of {self.model.path}\n"
                "  try: leave it out: a model is trained with its own"
            )
        if train_dataset is None:
            raise ValueError("train_dataset is missing\n  try: a path, or an iterable of dicts")
        self.train_dataset = train_dataset
        self.eval_dataset = eval_dataset
        # Later ones win: what args say counts more than how the model was named.
        self._settings = {**self.model.settings, **_of_config(multi_gpu_config), **settings_of(args)}
        self._output: Optional[TrainOutput] = None

    def train(self, resume_from_checkpoint: Union[bool, str, None] = None) -> TrainOutput:
        """Trains to the end. True: resumes the newest run of the same settings; a text: that run.

        ValueError where muster train refuses what it is given, RefusedError where it does not fit or is busy,
        RuntimeError where it fails; its own words are on standard error. Ctrl-C saves a checkpoint before it is raised.
        """
        told = by_main_rank(lambda: self._run(resume_from_checkpoint))
        result = told["result"]
        self._output = TrainOutput(
            result["steps"], result["final_loss"], result, Path(result["folder"]), told["exit_code"]
        )
        return self._output

    def get_model_memory_usage(self) -> dict[str, dict[str, float]]:
        """{"gpu_0": {"allocated", "cached", "max_allocated"}} in GiB, as each rank last reported it; "cpu_0" of CPU ranks.

        Before train(): nothing of any visible GPU.
        """
        usage: dict[str, dict[str, float]] = {}
        if self._output is None:
            visible = range(len(_native.Host().look(everything=False).visible))
            return {f"gpu_{gpu}": {"allocated": 0.0, "cached": 0.0, "max_allocated": 0.0} for gpu in visible}
        devices: dict[int, str] = {}
        for event in self._events():
            if event["event"] == "ready":
                kind, _, index = event["device"].partition(":")
                devices[event["rank"]] = f"gpu_{index}" if kind == "cuda" else f"cpu_{event['rank']}"
            if event["event"] == "memory":
                usage[devices[event["rank"]]] = {
                    "allocated": event["used"] / _GIB,
                    "cached": event["reserved"] / _GIB,
                    "max_allocated": event["peak"] / _GIB,
                }
        return dict(sorted(usage.items()))

    def print_memory_stats(self) -> None:
        """A line for each GPU or CPU rank."""
        usage = self.get_model_memory_usage()
        if not usage:
            print("no GPU is visible; CPU ranks report their memory while they train")
        for device, numbers in usage.items():
            name = device.replace("gpu_", "GPU ").replace("cpu_", "CPU rank ")
            print(
                f"{name}: {numbers['allocated']:.2f} GiB allocated, {numbers['cached']:.2f} GiB cached, "
                f"{numbers['max_allocated']:.2f} GiB at most"
            )

    def _run(self, resume: Union[bool, str, None]) -> dict[str, Any]:
        program = find_program()
        settings = dict(self._settings)
        output = Path(settings.setdefault("experiment.output", "runs"))
        settings["data.path"] = data_path(self.train_dataset, output / "data", "train_dataset", RowUse.acted_in if self.environment is not None else RowUse.judged if self.rewards is not None else RowUse.learnt)
        if self.eval_dataset is not None:
            settings["data.eval_path"] = data_path(self.eval_dataset, output / "data", "eval_dataset")
        if resume:
            settings["experiment.resume"] = resume if isinstance(resume, str) else "auto"
        launched = rank_from(os.environ)
        if launched.world_size > 1 and settings.get("distributed.enabled") is not False:
            settings.setdefault("distributed.ranks", launched.world_size)
        output.mkdir(parents=True, exist_ok=True)
        file = output / "settings.json"
        with self._judge() as judge:
            if judge is not None:
                settings = {"training.algorithm": "grpo"} | settings | judge.settings()
            file.write_text(json.dumps(flat_to_tree(settings), indent=2) + "\n")
            code, text = run_program([program, "train", "--config", str(file), "--json"], launched.launched)
        if judge is not None and judge.failure is not None:
            raise judge.failure
        if code in _FAILURES:
            raise _FAILURES[code](f"muster train ended with exit code {code}\n  try: what it printed on standard error")
        if code < 0:
            raise RuntimeError(f"muster train was killed by {signal.Signals(-code).name}\n  try: resume_from_checkpoint=True")
        return {"result": json.loads(text.splitlines()[-1]), "exit_code": code}

    def _judge(self) -> Any:
        """What answers the program's questions meanwhile, if it asks any."""
        if self.environment is not None:
            return EnvironmentServer(self.environment)
        return nullcontext() if self.rewards is None else RewardServer(self.rewards, self.reward_weights)

    def _events(self) -> list[dict[str, Any]]:
        if self._output is None:
            return []
        with (self._output.folder / "events.jsonl").open() as file:
            return [json.loads(line) for line in file if line.endswith("\n")]


_FAILURES = {1: RuntimeError, 2: ValueError, 3: _native.RefusedError}


def _refuse(*cases: tuple[bool, str, str]) -> None:
    refused = [f"{what}\n  try: {remedy}" for wrong, what, remedy in cases if wrong]
    if refused:
        raise ValueError("from_pretrained() cannot honour " + "\nand ".join(refused))


def _says_more_than_a_model(name: str) -> bool:
    """The folder of an adapter, or a name that says how weights are held: the program reads what it means."""
    return name.endswith(("-4bit", "-8bit")) or Path(name, "adapter_config.json").exists()


def _names(modules: Union[str, Iterable[str]]) -> list[str]:
    return [modules] if isinstance(modules, str) else list(modules)


def _dtype_word(dtype: Any) -> str:
    word = str(dtype).rpartition(".")[2]
    if word not in _DTYPES:
        raise ValueError(f"dtype={dtype!r} is not known\n  try: {', '.join(_DTYPES)}, or None")
    return _DTYPES[word]


def _of_config(config: Optional[MultiGPUConfig]) -> dict[str, Any]:
    """A configuration's wishes as settings; ValueError with those that training cannot honour."""
    if config is None:
        return {}
    _refuse_config(config)
    settings: dict[str, Any] = {"distributed.timeout_minutes": whole_minutes(config.timeout_minutes)}
    if config.backend is not None:
        settings["distributed.backend"] = config.backend
    if config.use_gradient_checkpointing:
        settings["training.gradient_checkpointing"] = "full"
    if config.find_unused_parameters:
        settings["distributed.find_unused_parameters"] = True
    return settings


def _refuse_config(config: MultiGPUConfig) -> None:
    wrong = [
        f"{name}\n  try: {remedy}"
        for name, refused, remedy in (
            ("tensor_parallel=True", config.tensor_parallel, "leave it out: every GPU gets the whole model"),
            ("pipeline_parallel=True", config.pipeline_parallel, "leave it out: every GPU gets the whole model"),
            ("auto_device_map=False", not config.auto_device_map, "leave it out: every rank gets its GPU"),
            (
                f"init_method={config.init_method!r}",
                config.init_method not in (None, "env://"),
                "leave it out: muster train brings its ranks together",
            ),
        )
        if refused
    ]
    if wrong:
        raise ValueError("DistributedTrainer cannot honour " + "\nand ".join(wrong))
