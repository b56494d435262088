"""A run by rewards that is killed at random moments, and goes on with other numbers of ranks, is as if nothing had happened."""

import pathlib
import random

import pytest
from training_runs import REWARDED, Chaos, Training

SEED = 25
# From random weights, so that no other model is made first; letters and digits are rewarded.
JOB = REWARDED | {"model.path": "builtin:llama-0.6m", "model.init": "random", "reward.functions": "format", "reward.format": "a|b|c|d|e|f|1|2|3|4|5",
                  "reward.format_match": "search", "training.sequence_length": 16, "generation.max_new_tokens": 6, "training.learning_rate": 2e-3, "training.deterministic": "true",
                  "distributed.max_restarts": 100}


@pytest.mark.parametrize("off_by", [0, 1])
def test_kills_and_other_ranks_leave_answers_curve_and_weights_as_they_were(tmp_path: pathlib.Path, tmp_path_factory, off_by: int):
    print(f"seed {SEED}")
    undisturbed, training = (Training(folder, tmp_path_factory.mktemp("cache")) for folder in (tmp_path_factory.mktemp("whole"), tmp_path))
    for one in (undisturbed, training):
        one.job |= JOB | {"training.off_by": off_by}
    ended = undisturbed()
    assert ended.returncode == 0, ended.stderr
    whole = undisturbed.run()
    assert len(whole.rollouts()) == 3 + off_by and any(float(row[3]) > 0 for row in whole.rows())
    chaos = Chaos(training, whole, random.Random(SEED + off_by), ranks=(1, 2, 3, 4))
    chaos.carry_out(kills=10)
    assert chaos.finished >= 1
