"""Maps by accelerate's rules are accelerate's own maps; what it fails at is refused with its own error's name."""

import random

import pytest

from map_maker import MapMaker, MapRefused, total_bytes
from originals import accelerate_plan
from trees import RandomTree, configurations, random_budgets, tied_to_a_leaf, without_weights

MODES = ["auto", "balanced", "balanced_low_0", "sequential"]


def assert_same(maker: MapMaker, name: str, model, budgets: dict, **request) -> str:
    """Ours equals the original's, or both fail. What the original did: "map" or its error's type."""
    told = f"{budgets} {request}"
    try:
        expected = accelerate_plan(model, budgets, **request)
    except (KeyError, IndexError, RuntimeError, AttributeError, ValueError) as failure:
        kind = type(failure).__name__
        with pytest.raises(MapRefused) as refused:
            maker.plan(name, budgets, rules="accelerate", **request)
        assert f"accelerate itself fails here with {kind}" in str(refused.value), told
        return kind
    ours = maker.plan(name, budgets, rules="accelerate", **request)
    assert ours["budgets"] == expected["budgets"], told
    assert ours["map"] == expected["map"], told
    return "map"


def random_request(chance: random.Random) -> dict:
    request = {
        "mode": chance.choice(MODES),
        "element_bytes": chance.choice([None, None, 2, 1, 0.5]),
        "whole_classes": chance.choice([None, [], ["Block"], ["Block", "Cell"], ["Cell", "Absent"], ["Leaf"]]),
        "clean": chance.random() < 0.8,
        "limits_given": chance.random() < 0.8,
    }
    if request["whole_classes"] is None:
        del request["whole_classes"]
    return request


@pytest.mark.parametrize("batch", range(12))
def test_maps_of_random_trees_are_accelerates(maker, batch):
    for seed in range(batch * 100, batch * 100 + 100):
        chance = random.Random(seed)
        model = RandomTree(seed).model
        maker.load("tree", model)
        request = random_request(chance)
        names = [name for name, _ in model.named_parameters()]
        if names and chance.random() < 0.2:
            request["special_elements"] = {chance.choice(names): chance.choice([2, 1, 0.5])}
        try:
            assert_same(maker, "tree", model, random_budgets(chance, total_bytes(model)), **request)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}\n{model}") from failure


@pytest.mark.parametrize("batch", range(4))
def test_maps_with_fallback_allocation_are_accelerates(maker, batch):
    """Without bool tensors: to accelerate a sum with one is a floating-point number even where it is whole."""
    for seed in range(10_000 + batch * 100, 10_000 + batch * 100 + 100):
        chance = random.Random(seed)
        model = RandomTree(seed, with_bool=False).model
        maker.load("tree", model)
        request = random_request(chance) | {"fallback_allocation": True, "limits_given": True}
        request["element_bytes"] = chance.choice([None, 2, 1])
        try:
            assert_same(maker, "tree", model, random_budgets(chance, total_bytes(model)), **request)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}\n{model}") from failure


@pytest.fixture(scope="module")
def architectures(maker):
    models = {name: without_weights(configuration) for name, configuration in configurations().items()}
    for name, model in models.items():
        maker.load(name, model)
    return models


def model_request(chance: random.Random, model) -> dict:
    return {
        "mode": chance.choice(MODES),
        "element_bytes": chance.choice([None, 2, 1]),
        "whole_classes": chance.choice([[], list(model._no_split_modules), list(model._no_split_modules)]),
        "limits_given": chance.random() < 0.8,
    }


def test_maps_of_architectures_are_accelerates_and_ours_are_never_worse(maker, architectures):
    outcomes, compared, better = {}, 0, 0
    for seed in range(720):
        chance = random.Random(seed)
        name = list(architectures)[seed % len(architectures)]
        model = architectures[name]
        request = model_request(chance, model)
        budgets = random_budgets(chance, total_bytes(model) // (2 if request["element_bytes"] == 1 else 1))
        try:
            outcome = assert_same(maker, name, model, budgets, **request)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}, {name}: {failure}") from failure
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if outcome != "map":
            continue
        answer = maker.plan(name, budgets, rules="accelerate", compare=True, **request)
        if "their_load" in answer and answer["their_load"] <= 1:
            compared += 1
            assert answer["our_load"] <= answer["their_load"], f"seed {seed}, {name}, {budgets}, {request}"
            better += answer["our_load"] < answer["their_load"]
    assert outcomes["map"] > 400 and compared > 100 and better > 30, (outcomes, compared, better)


def test_every_budget_to_the_byte_gives_accelerates_map(maker):
    model = tied_to_a_leaf()
    maker.load("tied to a leaf", model)
    maps = set()
    for first in range(60):
        for budgets in ({0: first}, {0: first, 1: 20}, {0: 14, 1: first}, {0: first, "cpu": 25}):
            assert_same(maker, "tied to a leaf", model, budgets, mode="sequential")
            answer = maker.plan("tied to a leaf", budgets, rules="accelerate", mode="sequential")
            maps.add(tuple(answer["map"].items()))
    assert len(maps) > 10


def test_budgets_between_two_bytes_give_accelerates_map(maker):
    """Without limits one GPU gets 90 %: of 49 bytes, 44.1."""
    for before in range(1, 11):
        model = tied_to_a_leaf(before)
        maker.load("tied to a leaf", model)
        for size in range(9, 70, 10):
            assert_same(maker, "tied to a leaf", model, {0: size}, mode="balanced", limits_given=False)
