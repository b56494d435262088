"""Rewards of an answer's length and repetitions, against TRL's."""

import random

import pytest
from trl.rewards import get_repetition_penalty_reward, get_soft_overlong_punishment


@pytest.mark.parametrize(("room", "margin"), [(100, 20), (7, 7), (50, 1)])
def test_lengths_are_punished_alike(driver, room, margin):
    lengths = range(1, room + 3)
    theirs = get_soft_overlong_punishment(room, margin)([[0] * length for length in lengths])
    ours = driver.parts("length", [("x", length, room) for length in lengths], length_margin=margin)
    assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("words", [1, 2, 3])
def test_repetitions_are_punished_alike(driver, words):
    rng = random.Random(words)
    texts = [[rng.randrange(4) for _ in range(rng.randrange(12))] for _ in range(60)]
    theirs = get_repetition_penalty_reward(ngram_size=words)(texts)
    ours = driver.parts("repetition", [(" ".join(f"w{word}" for word in text), 1, 10) for text in texts], repetition_words=words)
    assert ours == pytest.approx(theirs, abs=1e-12)
