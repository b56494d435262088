"""Questions to `muster plan`, drawn from a seed: models, hosts, and every way of asking."""

import json
import pathlib
import random

GIB = 1 << 30
FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "unit/spec/fixtures/models"

# name → gibibytes of each GPU
HOSTS = {
    "1x24": [24],
    "2x24": [24, 24],
    "4x40": [40] * 4,
    "8x80": [80] * 8,
    "24-24-80-80": [24, 24, 80, 80],
}

MODELS = ["Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B", "Qwen2.5-7B", "Qwen3-32B", "Mistral-7B-v0.3", "Qwen2-1.5B",
          "Qwen3-8B", "Llama-3.2-1B", "gpt2-xl", "TinyLlama-1.1B", "Llama-2-7B"]
SIZES = ["3B", "13B", "34B", "70B", "180B"]


def inventory(gibibytes):
    return "gpus:\n" + "".join(f"  - {{index: {number}, name: GPU of {size} GiB, memory_total: {size}GiB, memory_used: 0}}\n"
                               for number, size in enumerate(gibibytes))


class Question:
    """What is asked, before it is decided how it is said."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.host = self.chance.choice(sorted(HOSTS))
        self.gpus = HOSTS[self.host]
        self.training = self.chance.random() < 0.55
        self.model = self.chance.choice(MODELS) if self.chance.random() < 0.8 else None
        self.size = None if self.model else self.chance.choice(SIZES)
        self.settings = {}  # canonical key → value
        self.options = []  # what has no key
        self.draw_devices()
        if self.training:
            self.draw_training()
        else:
            self.draw_inference()

    def maybe(self, share):
        return self.chance.random() < share

    def draw_devices(self):
        count = len(self.gpus)
        if count > 1 and self.maybe(0.3):
            self.settings["distributed.num_gpus"] = self.chance.randint(1, count)
        elif count > 1 and self.maybe(0.2):
            chosen = sorted(self.chance.sample(range(count), self.chance.randint(1, count)))
            self.settings["distributed.gpu_ids"] = chosen
        elif self.maybe(0.2):
            limits = {str(number): f"{self.chance.choice([8, 10, 16, 20])}GiB" for number in range(count)}
            if not self.training and self.maybe(0.3):
                limits["cpu"] = "30GiB"
            self.settings["model.max_memory"] = limits

    def ranks(self):
        if "distributed.gpu_ids" in self.settings:
            return len(self.settings["distributed.gpu_ids"])
        return self.settings.get("distributed.num_gpus", len(self.gpus))

    def draw_training(self):
        draw, chance = self.settings, self.chance
        draw["training.sequence_length"] = chance.choice([512, 1024, 2048, 4096, 8192, 16384])
        if self.maybe(0.3):
            draw["training.micro_batch_size"] = chance.choice([1, 2, 3, 4, 8, 32])
        if self.maybe(0.2):
            draw["training.gradient_accumulation_steps"] = chance.choice([1, 2, 4])
        if self.maybe(0.4):
            per_rank = draw.get("training.micro_batch_size", 1) * draw.get("training.gradient_accumulation_steps", chance.choice([1, 4]))
            draw["training.batch_size"] = per_rank * self.ranks()
            if "training.micro_batch_size" in draw and "training.gradient_accumulation_steps" in draw:
                del draw["training.gradient_accumulation_steps"]
        if self.maybe(0.3):
            draw["training.optimizer"] = chance.choice(["adamw", "adamw_fused", "sgd", "sgd_momentum", "adamw_8bit"])
        if self.maybe(0.25):
            draw["training.gradient_checkpointing"] = True
        precision = chance.choice(["auto", "auto", "float32", "bfloat16", "bf16", "8bit", "lora"])
        if precision in ("float32", "bfloat16"):
            draw["model.dtype"] = precision
        elif precision == "bf16":
            draw["training.bf16"] = True
        elif precision == "lora":
            draw["model.use_lora"] = True
            draw["model.lora_r"] = chance.choice([8, 64])
            draw["model.dtype"] = "bfloat16"
        elif precision == "8bit":
            draw["model.use_lora"] = True
            draw["model.load_in_8bit"] = True
        if self.maybe(0.35):
            strategy = chance.choice(["ddp", "fsdp", "fsdp", "pipeline", "tensor"] if self.ranks() > 1 else ["single"])
            draw["distributed.strategy"] = strategy
            if strategy == "fsdp" and self.maybe(0.4):
                draw["distributed.fsdp_sharding_strategy"] = chance.choice(["shard_grad_op", "no_shard", "full_shard"])
        if self.maybe(0.15):
            draw["system.attn_impl"] = "eager"
        if self.maybe(0.15):
            self.options += ["--implementation", "muster"]
        if self.maybe(0.1):
            self.options += ["--allocator", "expandable"]

    def draw_inference(self):
        draw, chance = self.settings, self.chance
        draw["generation.sequence_length"] = chance.choice([1024, 2048, 8192, 32768])
        if self.maybe(0.6):
            draw["generation.batch_size"] = chance.choice([1, 4, 7, 16, 64, 256])
        if self.maybe(0.3):
            draw["generation.max_new_tokens"] = chance.choice([16, 700])
        precision = chance.choice(["auto", "auto", "float32", "float16", "8bit", "4bit"])
        if precision in ("float32", "float16"):
            draw["model.dtype"] = precision
        elif precision in ("8bit", "4bit"):
            draw[f"model.load_in_{precision}"] = True
        if self.maybe(0.3):
            draw["model.device_map"] = chance.choice(["auto", "balanced", "balanced_low_0", "sequential", "cuda"])
            if self.maybe(0.3) and precision not in ("8bit", "4bit"):
                self.options += ["--planner", chance.choice(["compat", "transformers"])]
        elif self.ranks() > 1 and self.maybe(0.2):
            draw["distributed.strategy"] = chance.choice(["ddp", "tensor", "pipeline"])

    def arguments(self, models, folder):
        """The words of a command; may write run.yaml into the folder."""
        settings = dict(self.settings)
        chance = self.chance
        words = []
        if self.model and chance.random() < 0.35:  # part of it in a file
            kept = {key: settings.pop(key) for key in list(settings) if chance.random() < 0.6}
            kept["model.path"] = str(models / self.model)
            # JSON is YAML too.
            (folder / "run.yaml").write_text(json.dumps(nested(kept), indent=2))
            words = ["run.yaml"] + ([] if self.training and chance.random() < 0.5 else [self.work()])
            if chance.random() < 0.3:
                words = ["--config", "run.yaml", self.work()]
        else:
            words = ([str(models / self.model)] if self.model else ["--params", self.size]) + [self.work()]
        for key, value in settings.items():
            words += self.said(key, value)
        return words + self.options

    def work(self):
        return "--train" if self.training else "--infer"

    def said(self, key, value):
        """One setting as an option, or as key=value under one of its names."""
        options = {
            "training.sequence_length": "--seq-len", "generation.sequence_length": "--seq-len",
            "training.batch_size": "--batch", "generation.batch_size": "--batch",
            "training.micro_batch_size": "--micro-batch", "training.gradient_accumulation_steps": "--accumulation",
            "generation.max_new_tokens": "--new-tokens", "training.optimizer": "--optimizer",
            "system.attn_impl": "--attention", "distributed.fsdp_sharding_strategy": "--sharding",
            "model.device_map": "--device-map", "model.dtype": "--dtype", "distributed.strategy": "--strategy",
            "distributed.num_gpus": "--num-gpus",
        }
        aliases = {
            "training.sequence_length": "max_seq_length", "training.micro_batch_size": "per_device_train_batch_size",
            "training.gradient_accumulation_steps": "gradient_accumulation_steps", "model.dtype": "torch_dtype",
            "training.gradient_checkpointing": "use_gradient_checkpointing", "distributed.num_gpus": "num_gpus",
            "model.load_in_8bit": "load_in_8bit", "distributed.gpu_ids": "gpu_list", "training.bf16": "bf16",
        }
        if self.chance.random() < 0.5:
            if key in options:
                return [options[key], str(value)]
            if key == "distributed.gpu_ids":
                return ["--gpu-ids", *map(str, value)]
            if key == "model.max_memory":
                return ["--max-memory", ",".join(f"{device}={size}" for device, size in value.items())]
            if key == "training.gradient_checkpointing":
                return ["--checkpointing"]
        if isinstance(value, dict):
            value = "{" + ", ".join(f"{name}: {size}" for name, size in value.items()) + "}"
        elif isinstance(value, list):
            value = ",".join(map(str, value))
        name = aliases[key] if key in aliases and self.chance.random() < 0.4 else key
        return [f"{name}={str(value).lower() if value is True else value}"]


def nested(settings):
    """{"a.b": 1} → {"a": {"b": 1}}"""
    tree = {}
    for key, value in settings.items():
        section, name = key.rsplit(".", 1)
        tree.setdefault(section, {})[name] = value
    return tree
