"""A model split by layers over CPU ranks gives the bytes of one process."""

import pathlib

import pytest
from split_models import FAMILIES, Generate, make_model, written

PROMPTS = ["The capital of France", "Grüße", "def f(x): return {'a': x}[0] and then some more of it", "1", "世界 don't you're 12345",
           *(f"{i} bottles of beer on the wall" for i in range(9))]
SAMPLED = ("--max-new-tokens", "20", "--temperature", "0.8", "--top-p", "0.95", "--samples", "2", "--seed", "3", "--logprobs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("split")
    for name, config in FAMILIES.items():
        make_model(folder, name, config)
    Generate(folder).prompts("p.txt", *PROMPTS)
    return folder


@pytest.fixture
def generate(folder: pathlib.Path) -> Generate:
    return Generate(folder)


def answers(generate: Generate, model: str, *arguments: str) -> bytes:
    result = generate("-m", model, "--device", "cpu", "-p", "p.txt", "-o", "out.jsonl", *SAMPLED, *arguments)
    return written(result, generate)


@pytest.mark.parametrize("model", FAMILIES)
def test_answers_and_log_probabilities_of_a_split_model_are_those_of_one_process(generate: Generate, model: str):
    alone = answers(generate, model)
    for ranks in ("2", "4"):
        assert answers(generate, model, "--ranks", ranks, "--device-map", "balanced") == alone
