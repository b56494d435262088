"""Placements of well-known models on well-known machines, in GiB per place: accelerate's, key for key, and ours beside them."""

import pytest
import torch
import transformers
from torch import nn

from map_maker import MapRefused
from originals import accelerate_plan
from trees import without_weights

GIB = 2**30
LLAMA_70B = dict(
    hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8,
    vocab_size=128_256,
)
LLAMA_8B = dict(
    hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
    vocab_size=128_256,
)


class LayerWithBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8192, 8192, bias=False)
        self.b = nn.Linear(8192, 8192, bias=False)
        self.register_buffer("step", torch.zeros(()))


@pytest.fixture(scope="module")
def models(maker):
    models = {
        "llama 70B": without_weights(transformers.LlamaConfig(**LLAMA_70B)),
        "llama 8B": without_weights(transformers.LlamaConfig(**LLAMA_8B)),
        "gemma 2 2B": without_weights(transformers.Gemma2Config()),
    }
    with torch.device("meta"):
        models["layers with buffers"] = nn.Sequential(*[LayerWithBuffer() for _ in range(8)])
    for name, model in models.items():
        maker.load(name, model)
    return models


def placed(model: nn.Module, device_map: dict) -> dict:
    """GiB per place, of tensors that the map covers."""
    sizes = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        holders = [path for path in device_map if path == "" or name == path or name.startswith(path + ".")]
        if holders:
            place = device_map[max(holders, key=len)]
            sizes[place] = sizes.get(place, 0) + tensor.numel() * tensor.element_size()
    return {place: round(size / GIB, 2) for place, size in sizes.items()}


@pytest.mark.parametrize(
    "name, mode, gpus, expected",
    [
        ("llama 70B", "balanced", [40, 40, 40, 40], {0: 32.24, 1: 33.47, 2: 33.47, 3: 32.24}),
        ("llama 70B", "sequential", [40, 40, 40, 40], {0: 37.02, 1: 39.84, 2: 39.84, 3: 14.71}),
        ("llama 70B", "balanced_low_0", [40, 40, 40, 40], {0: 8.33, 1: 39.84, 2: 39.84, 3: 39.84, "cpu": 3.55}),
        ("llama 70B", "balanced", [24, 24, 80, 80], {0: 21.08, 1: 23.91, 2: 33.47, 3: 52.96}),
        ("llama 8B", "balanced", [24, 24], {0: 6.67, 1: 8.29}),
        ("llama 8B", "balanced_low_0", [24, 24], {1: 14.96}),
        ("gemma 2 2B", "balanced", [24] * 8, {7: 4.87}),
    ],
)
def test_accelerates_placements_are_reproduced(maker, models, name, mode, gpus, expected):
    budgets = {i: size * GIB for i, size in enumerate(gpus)} | {"cpu": 1000 * GIB}
    whole = list(models[name]._no_split_modules)
    ours = maker.plan(name, budgets, rules="accelerate", mode=mode, whole_classes=whole)
    assert ours["map"] == accelerate_plan(models[name], budgets, mode, whole_classes=whole)["map"]
    assert placed(models[name], ours["map"]) == expected


@pytest.mark.parametrize(
    "name, goal, gpus, expected, duplicated",
    [
        ("llama 70B", "balanced", [40, 40, 40, 40], {0: 32.24, 1: 33.47, 2: 33.47, 3: 32.24}, 0),
        ("llama 70B", "low_first", [40, 40, 40, 40], {0: 13.11, 1: 39.84, 2: 39.84, 3: 38.61}, 0),
        ("llama 70B", "balanced", [24, 24, 80, 80], {0: 14.71, 1: 14.34, 2: 51.0, 3: 51.36}, 0),
        ("llama 8B", "balanced", [24, 24], {0: 7.48, 1: 7.48}, 0),
        (
            "gemma 2 2B", "balanced", [24] * 8,
            {0: 1.1, 1: 0.73, 2: 0.73, 3: 0.73, 4: 0.73, 5: 0.73, 6: 0.15, 7: 1.1}, 1.1,
        ),
    ],
)
def test_our_placements_of_the_same(maker, models, name, goal, gpus, expected, duplicated):
    budgets = {i: size * GIB for i, size in enumerate(gpus)}
    whole = list(models[name]._no_split_modules)
    answer = maker.plan(name, budgets, mode="optimal", goal=goal, whole_classes=whole)
    assert {int(place): round(size / GIB, 2) for place, size in answer["used"].items()} == expected
    assert round(answer["duplicated"] / GIB, 2) == duplicated


def test_gpus_that_do_not_start_at_zero_are_refused_by_the_name_of_accelerates_error(maker, models):
    budgets = {1: 24 * GIB, 2: 24 * GIB}
    with pytest.raises(MapRefused, match=r"accelerate itself fails here with KeyError: 0: .* the GPUs are 1, 2"):
        maker.plan("llama 8B", budgets, rules="accelerate", mode="balanced_low_0")


def test_buffers_of_split_modules_get_no_place_unless_their_class_stays_whole(maker, models):
    model = models["layers with buffers"]
    budgets = {i: 2 * GIB for i in range(3)}

    def uncovered(**request) -> int:
        ours = maker.plan("layers with buffers", budgets, rules="accelerate", mode="balanced", **request)["map"]
        assert ours == accelerate_plan(model, budgets, "balanced", **request)["map"]
        names = [name for name, _ in model.named_buffers()]
        return sum(not any(name.startswith(path + ".") for path in ours) for name in names)

    assert uncovered() == 2
    assert uncovered(whole_classes=["LayerWithBuffer"]) == 0
