"""The batch of the built-in job, on numbers of ranks that do not divide it."""

import json

import pytest


@pytest.fixture
def plan(muster, tmp_path):
    def dry_run(*words: str):
        return muster("train", "--dry-run", "distributed.device=cpu", *words, XDG_CACHE_HOME=str(tmp_path))

    return dry_run


@pytest.mark.parametrize("ranks, batch", [(3, 129), (5, 130), (7, 126), (200, 200)])
def test_a_batch_that_was_not_asked_for_is_rounded_with_a_note(plan, ranks: int, batch: int):
    ended = plan(f"distributed.ranks={ranks}", "--json")
    assert ended.returncode == 0, ended.stderr
    assert f"the batch has {batch} sequences instead of 128, so that {ranks} ranks can share it evenly" in ended.stderr
    planned = json.loads(ended.stdout)
    assert planned["micro_batch"] * planned["accumulation"] * ranks == batch


def test_a_batch_that_fits_is_left_alone(plan):
    ended = plan("distributed.ranks=4")
    assert ended.returncode == 0 and "instead of" not in ended.stderr


def test_a_batch_that_was_asked_for_is_refused_with_the_nearest(plan):
    ended = plan("distributed.ranks=7", "training.batch_size=128")
    assert ended.returncode == 2 and "a batch of 128 sequences cannot be shared evenly by 7 ranks" in ended.stderr
    assert "training.batch_size=126, or 133" in ended.stderr
