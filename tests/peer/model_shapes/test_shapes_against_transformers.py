"""Shapes of models against transformers: every module, parameter, buffer and tie, in the same order."""

import json
import random

import pytest
import torch
from random_configs import ARCHITECTURES, FAMILIES, random_config
from shape_programs import FIXTURES, dump
from transformers_shape import describe

NAMES = sorted(folder.name for folder in FIXTURES.iterdir())


def assert_same(ours: dict, theirs: dict, what: object) -> None:
    assert "error" not in ours, (ours, what)
    for part in ("modules", "tensors"):
        for mine, his in zip(ours[part], theirs[part]):
            assert mine == his, (part, what)
    for part, value in theirs.items():
        assert ours[part] == value, (part, what)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_model_has_the_modules_and_tensors_of_transformers(name):
    path = FIXTURES / name / "config.json"
    assert_same(dump([path], "bfloat16")[0], describe(path, torch.bfloat16), name)


def test_there_are_public_models_of_every_family():
    families = {json.loads((FIXTURES / name / "config.json").read_text())["model_type"] for name in NAMES}
    assert families == set(FAMILIES) - {"arcee"}  # whose public file was not at hand


@pytest.mark.parametrize("family", FAMILIES)
def test_random_configurations_have_the_modules_and_tensors_of_transformers(family, tmp_path):
    chance = random.Random(f"shapes of {family}")
    dtype = chance.choice((torch.float32, torch.bfloat16, torch.float16))
    values = [random_config(chance, family) for _ in range(60)]
    paths = [tmp_path / f"{i}.json" for i in range(len(values))]
    for path, value in zip(paths, values):
        path.write_text(json.dumps(value))
    for ours, path, value in zip(dump(paths, str(dtype).removeprefix("torch.")), paths, values):
        assert_same(ours, describe(path, dtype), value)


@pytest.mark.parametrize("family", FAMILIES)
def test_classifiers_have_the_modules_and_tensors_of_transformers(family, tmp_path):
    chance = random.Random(f"classifiers of {family}")
    prefix = ARCHITECTURES[family].removesuffix("LMHeadModel").removesuffix("ForCausalLM")
    kinds = ["Sequence", "Token"]
    values = []
    for i in range(20):
        value = random_config(chance, family) | {"architectures": [f"{prefix}For{chance.choice(kinds)}Classification"]}
        labels = chance.choice((None, 1, 5))
        if labels:
            value["id2label"] = {str(label): f"LABEL_{label}" for label in range(labels)}
        values.append(value)
    paths = [tmp_path / f"{i}.json" for i in range(len(values))]
    for path, value in zip(paths, values):
        path.write_text(json.dumps(value))
    for ours, path, value in zip(dump(paths, "float32"), paths, values):
        assert_same(ours, describe(path, torch.float32), value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_configuration_of_the_family_s_name_alone_has_transformers_defaults(family, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": family}))
    assert_same(dump([path], "float16")[0], describe(path, torch.float16), family)


# What transformers' own configuration classes do not take.
REFUSED = [
    {"hidden_size": None},
    {"hidden_size": 64.0},
    {"num_hidden_layers": "two"},
    {"tie_word_embeddings": None},
    {"head_dim": 7},
    {"vocab_size": True},
    {"layer_types": ["full_attention"], "num_hidden_layers": 2},
]


@pytest.mark.parametrize("change", REFUSED, ids=lambda change: json.dumps(change))
def test_what_transformers_refuses_is_refused_by_its_key(change, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "qwen3"} | change))
    with pytest.raises(Exception):  # noqa: B017 - its kinds are transformers' own
        describe(path, torch.float32)
    assert next(iter(change)) in dump([path])[0]["error"]
