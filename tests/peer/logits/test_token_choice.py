"""The choice of tokens against transformers' processors, and against chance."""

import json
import os
import subprocess

import model_cases
import numpy
import pytest
import torch
import transformers

WORDS = 200

RULES = [
    {"temperature": 0.7},
    {"temperature": 1.8},
    {"top_k": 7},
    {"top_k": 1},
    {"top_p": 0.6},
    {"top_p": 0.98, "temperature": 1.5},
    {"min_p": 0.1},
    {"min_p": 0.02, "temperature": 0.5},
    {"repetition_penalty": 1.4},
    {"repetition_penalty": 0.8, "temperature": 0.9},
    {"top_k": 40, "top_p": 0.8},
    {"top_k": 30, "top_p": 0.95, "min_p": 0.05, "temperature": 1.2, "repetition_penalty": 1.2},
]


@pytest.fixture(scope="module")
def choose():
    words = [str(model_cases.PROGRAMS / "choice_driver")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # several would mostly wait for each other
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(**request):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


def their_probabilities(logits, seen, rules):
    """In the order of transformers' own generate()."""
    scores = torch.tensor([logits], dtype=torch.float32)
    ids = torch.tensor([seen])
    make = {
        "repetition_penalty": transformers.RepetitionPenaltyLogitsProcessor,
        "temperature": transformers.TemperatureLogitsWarper,
        "top_k": transformers.TopKLogitsWarper,
        "top_p": transformers.TopPLogitsWarper,
        "min_p": transformers.MinPLogitsWarper,
    }
    for name, processor in make.items():
        if name in rules:
            scores = processor(rules[name])(ids, scores)
    return scores[0].double().softmax(-1).numpy()


def our_probabilities(choose, logits, seen, rules):
    """What chance chooses grows through the vocabulary: where each token begins is found by halving."""
    low, high = numpy.zeros(WORDS), numpy.ones(WORDS)
    for _ in range(40):
        middle = (low + high) / 2
        tokens = numpy.array(choose(logits=logits, seen=seen, rules=rules, uniforms=middle.tolist())["tokens"])
        before = tokens < numpy.arange(WORDS)
        low, high = numpy.where(before, middle, low), numpy.where(before, high, middle)
    return numpy.diff(numpy.append(high, 1.0))


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(f"{name}-{value}" for name, value in rules.items()))
def test_the_distribution_that_is_drawn_from_is_that_of_transformers(choose, rules):
    for width in (0.5, 3.0, 10.0):
        generator = torch.Generator().manual_seed(int(width * 10))
        logits = (torch.randn(WORDS, generator=generator) * width).tolist()
        seen = torch.randint(0, WORDS, (30,), generator=generator).tolist()
        theirs = their_probabilities(logits, seen, rules)
        ours = our_probabilities(choose, logits, seen, rules)
        assert numpy.abs(ours - theirs).max() <= 1e-6
        assert (ours[theirs == 0] <= 4e-12).all()  # what halving cannot tell from nothing
        assert (ours[theirs >= 1e-10] > 4e-12).all()


def test_a_hundred_thousand_draws_are_spread_as_they_should(choose):
    generator = torch.Generator().manual_seed(4)
    logits = (torch.randn(WORDS, generator=generator) * 1.5).tolist()
    for rules in ({"temperature": 0.8}, {"top_k": 20, "temperature": 1.3}, {"top_p": 0.9}):
        counts = numpy.array(choose(logits=logits, rules=rules, draws=100_000, seed=5, index=3)["counts"], dtype=float)
        expected = their_probabilities(logits, [0], rules) * 100_000
        assert counts[expected == 0].sum() == 0
        often = expected >= 5
        counts, expected = (numpy.append(each[often], each[~often].sum()) for each in (counts, expected))
        kept = expected > 0
        statistic = ((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum()
        freedom = kept.sum() - 1
        assert torch.special.gammaincc(torch.tensor(freedom / 2.0), torch.tensor(statistic / 2.0)) > 0.001
