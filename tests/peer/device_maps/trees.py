"""Models to lay over devices: random small trees with everything odd in them, and real architectures without weights."""

import random
from typing import Optional

import torch
import transformers
from torch import nn

CLASSES = {name: type(name, (nn.Module,), {}) for name in ("Block", "Cell", "Group", "Leaf")}
# Some contain others: the planners look for one name anywhere in another.
NAMES = ["0", "1", "10", "h", "head", "a", "ha", "layers", "norm", "x"]
PARAMETER_TYPES = [torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.float64, torch.float16, torch.int8]
BUFFER_TYPES = [torch.float32, torch.int64, torch.bool, torch.uint8, torch.int32, torch.bfloat16]


class RandomTree:
    def __init__(self, seed: int, with_bool: bool = True, ties: Optional[int] = None):
        self.random = random.Random(seed)
        self.with_bool = with_bool
        self.model = self.module(depth=0)
        count = self.random.choice([0, 0, 1, 1, 2, 4]) if ties is None else ties
        for _ in range(count):
            self.tie()

    def tensor(self, types: list) -> torch.Tensor:
        types = [kind for kind in types if self.with_bool or kind != torch.bool]
        dimensions = [self.random.randint(0 if self.random.random() < 0.05 else 1, 9) for _ in range(self.random.randint(0, 2))]
        return torch.empty(dimensions, dtype=self.random.choice(types), device="meta")

    def module(self, depth: int) -> nn.Module:
        names = self.random.sample(NAMES, len(NAMES))
        children = self.random.randint(1, 5) if depth == 0 else self.random.choice([0, 0, 1, 2, 3, 4]) if depth < 4 else 0
        kinds = ["Leaf"] if children == 0 else ["Block", "Cell", "Group"]
        module = CLASSES[self.random.choice(kinds)]()
        parameters = self.random.choice([0, 0, 1] if children else [0, 1, 1, 2])
        for _ in range(parameters):
            parameter = nn.Parameter(self.tensor(PARAMETER_TYPES), requires_grad=False)
            module.register_parameter(f"{names.pop()}w", parameter)
        for _ in range(self.random.choice([0, 0, 0, 1, 2])):
            persistent = self.random.random() < 0.5
            module.register_buffer(f"{names.pop()}b", self.tensor(BUFFER_TYPES), persistent=persistent)
        for _ in range(min(children, len(names))):
            module.add_module(names.pop(), self.module(depth + 1))
        return module

    def tie(self) -> None:
        """Gives one parameter another name somewhere."""
        modules = list(self.model.modules())
        parameters = list(self.model.parameters())
        if not parameters:
            return
        holder = self.random.choice(modules)
        name = f"tied{len(holder._parameters)}"
        if self.random.random() < 0.5:
            same = [n for n in holder._parameters]
            name = self.random.choice(same) if same else name
        holder._parameters[name] = self.random.choice(parameters)


def random_budgets(chance: random.Random, size: int, cpu: Optional[bool] = None) -> dict:
    """For a model of so many bytes: too little, just enough, more than enough, in every shape of machine."""
    count = chance.choice([0, 1, 1, 2, 2, 3, 4, 5])
    first = chance.choice([0, 0, 0, 0, 1, 2])
    ids = list(range(first, first + count))
    if count > 1 and chance.random() < 0.1:
        ids[-1] += 1
    scale = chance.choice([0.3, 0.7, 1.0, 1.2, 1.5, 3.0]) * max(size, 1) / max(count, 1)
    shape = chance.choice(["equal", "equal", "mixed", "24/80"])
    budgets = {}
    for i, number in enumerate(ids):
        share = {"equal": 1.0, "mixed": chance.uniform(0.0, 2.0), "24/80": 0.46 if i < count / 2 else 1.54}[shape]
        budgets[number] = 0 if chance.random() < 0.07 else int(share * scale)
        if chance.random() < 0.03:
            budgets[number] = 10**18
    if cpu if cpu is not None else chance.random() < 0.6:
        budgets["cpu"] = chance.choice([0, size // 3, size, 10 * size])
    if chance.random() < 0.05:
        budgets["disk"] = size
    if chance.random() < 0.2:
        chance.shuffle(items := list(budgets.items()))
        budgets = dict(items)
    return budgets


SMALL = dict(hidden_size=64, intermediate_size=160, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)


def configurations() -> dict:
    c = transformers
    return {
        "llama": c.LlamaConfig(**SMALL, num_hidden_layers=12, vocab_size=640),
        "llama, tied": c.LlamaConfig(**SMALL, num_hidden_layers=7, vocab_size=1000, tie_word_embeddings=True),
        "llama, 256k vocabulary": c.LlamaConfig(**SMALL, num_hidden_layers=6, vocab_size=256_000, tie_word_embeddings=True),
        "llama, 256k vocabulary, untied": c.LlamaConfig(**SMALL, num_hidden_layers=6, vocab_size=256_000),
        "qwen2, tied": c.Qwen2Config(**SMALL, num_hidden_layers=9, vocab_size=2000, tie_word_embeddings=True),
        "qwen3": c.Qwen3Config(**SMALL, head_dim=16, num_hidden_layers=10, vocab_size=1500, tie_word_embeddings=False),
        "mistral": c.MistralConfig(**SMALL, num_hidden_layers=11, vocab_size=900),
        "gpt2": c.GPT2Config(n_embd=64, n_layer=8, n_head=4, vocab_size=700, n_positions=128),
        "llama, 33 layers": c.LlamaConfig(**SMALL, num_hidden_layers=33, vocab_size=320),
    }


def without_weights(configuration, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(configuration, dtype=dtype)
    model.tie_weights()
    return model


def tied_to_a_leaf(before: int = 4) -> nn.Module:
    """A group that can be split, tied to a leaf that cannot; a few bytes each."""

    def leaf(**sizes: int) -> nn.Module:
        module = CLASSES["Leaf"]()
        for name, size in sizes.items():
            module.register_parameter(name, nn.Parameter(torch.empty(size, dtype=torch.int8, device="meta"), False))
        return module

    group = CLASSES["Group"]()
    group.add_module("x", leaf(w=7))
    group.add_module("y", leaf(w=5, v=2))
    group.register_parameter("own", nn.Parameter(torch.empty(3, dtype=torch.int8, device="meta"), False))
    model = CLASSES["Cell"]()
    model.add_module("before", leaf(w=before))
    model.add_module("group", group)
    model.add_module("between", leaf(w=6))
    model.add_module("after", leaf(bias=9))
    model.after.register_parameter("w", group.x.w)
    return model
