"""A run by preferences that is killed, before its first step too, is resumed as if nothing had happened."""

import csv
import pathlib
import random

import pytest
from training_runs import EVALUATED, Chaos, Training

SEED = 24


def measured(run) -> list[dict]:
    """What the objective measures, in steps and evaluations."""
    with open(run.folder / "metrics.csv", newline="") as file:
        return [{name: number for name, number in row.items() if "/" in name or name == "kl"} for row in csv.DictReader(file)]


@pytest.mark.parametrize("algorithm", ["dpo", "kto"])
def test_kills_leave_curve_metrics_and_weights_as_they_were(tmp_path: pathlib.Path, tmp_path_factory, algorithm: str):
    print(f"seed {SEED}")
    job = EVALUATED | {"training.algorithm": algorithm, "training.learning_rate": 2e-3, "distributed.max_restarts": 100}
    undisturbed = Training(tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("cache"))
    undisturbed.job |= job
    ended = undisturbed()
    assert ended.returncode == 0, ended.stderr
    whole = undisturbed.run()
    assert len(measured(whole)) == 12 and measured(whole)[3]["eval_rewards/margins"]
    training = Training(tmp_path, tmp_path / "cache")  # of its own: the reference's scores are not there
    training.job |= job
    chaos = Chaos(training, whole, random.Random(SEED))
    chaos.carry_out(kills=6)
    assert chaos.finished >= 1
    assert measured(training.runs()[0]) == measured(whole)
