"""Maps by transformers' rules are those of from_pretrained(device_map=…)."""

import random

import pytest
import torch
from torch import nn

from map_maker import MapMaker, MapRefused, total_bytes
from originals import transformers_plan
from trees import RandomTree, configurations, random_budgets, without_weights

MODES = ["auto", "balanced", "balanced_low_0", "sequential"]


def assert_same(maker: MapMaker, name: str, model, budgets: dict, **request) -> str:
    told = f"{budgets} {request}"
    ours = dict(request, rules="transformers", whole_classes=list(model._no_split_modules or []))
    try:
        expected = transformers_plan(model, budgets, **request)
    except (KeyError, IndexError, ValueError) as failure:
        kind = type(failure).__name__
        with pytest.raises(MapRefused) as refused:
            maker.plan(name, budgets, **ours)
        assert f"transformers itself fails here with {kind}" in str(refused.value), told
        return kind
    answer = maker.plan(name, budgets, **ours)
    assert answer["budgets"] == expected["budgets"], told
    assert answer["map"] == expected["map"], told
    return "map"


@pytest.fixture(scope="module")
def architectures(maker):
    models = {}
    for name, configuration in configurations().items():
        for dtype in (torch.bfloat16, torch.float32):
            models[f"{name}, {dtype}"] = without_weights(configuration, dtype)
    for name, model in models.items():
        maker.load(name, model)
    return models


def test_maps_of_architectures_are_transformers(maker, architectures):
    outcomes = {}
    for seed in range(540):
        chance = random.Random(seed)
        name = list(architectures)[seed % len(architectures)]
        model = architectures[name]
        budgets = random_budgets(chance, total_bytes(model))
        request = {"mode": chance.choice(MODES), "limits_given": chance.random() < 0.8}
        try:
            outcome = assert_same(maker, name, model, budgets, **request)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}, {name}: {failure}") from failure
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes["map"] > 400, outcomes


def packed_elements(model: nn.Module, size: float) -> dict[str, float]:
    """The weights that bitsandbytes would pack: linear layers, those of GPT-2 included, but the head."""
    return {
        f"{path}.weight": size
        for path, module in model.named_modules()
        if type(module).__name__ in ("Linear", "Conv1D") and module is not model.get_output_embeddings()
    }


def test_maps_of_packed_architectures_are_transformers(maker, architectures):
    outcomes = {}
    for seed in range(70_000, 70_300):
        chance = random.Random(seed)
        name = list(architectures)[seed % len(architectures)]
        model = architectures[name]
        size = chance.choice([1, 0.5])
        packed = packed_elements(model, size)
        smaller = sum(parameter.numel() * (parameter.element_size() - size)
                      for path, parameter in model.named_parameters() if path in packed)
        budgets = random_budgets(chance, int(total_bytes(model) - smaller))
        request = {"mode": chance.choice(MODES), "limits_given": chance.random() < 0.8, "special_elements": packed}
        try:
            outcome = assert_same(maker, name, model, budgets, **request)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}, {name}: {failure}") from failure
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes["map"] > 200, outcomes


def declare_ties(model: nn.Module) -> bool:
    """What transformers' models say of themselves, for any tree; whether it has at most one tied tensor.

    With several, the order in which transformers looks at them varies from run to run.
    """
    first, tied = {}, {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if id(parameter) in first:
            tied[name] = first[id(parameter)]
        first.setdefault(id(parameter), name)
    model.all_tied_weights_keys = tied
    return len(set(tied.values())) <= 1


@pytest.mark.parametrize("batch", range(8))
def test_maps_of_random_trees_are_transformers(maker, batch):
    for seed in range(50_000 + batch * 100, 50_000 + batch * 100 + 100):
        chance = random.Random(seed)
        model = RandomTree(seed).model
        if not declare_ties(model):
            continue
        model._no_split_modules = chance.choice([None, [], ["Block"], ["Block", "Cell"], ["Cell", "Absent"], ["Leaf"]])
        maker.load("tree", model)
        budgets = random_budgets(chance, total_bytes(model))
        request = {"mode": chance.choice(MODES), "limits_given": chance.random() < 0.8}
        try:
            assert_same(maker, "tree", model, budgets, **request)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}\n{model}") from failure
