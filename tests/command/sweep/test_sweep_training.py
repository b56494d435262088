"""Sweeps whose trials are muster's own training, on CPU ranks."""

import csv
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SWEEP = """
metric: final_loss
goal: minimize
method: grid
parameters:
  training.learning_rate: [3.0e-3, 1.0e-6]
  training.max_steps: 30
  training.batch_size: 8
  training.warmup_steps: 0
  training.save_steps: 5
  data.held_out: 0
  distributed.ranks: 1
"""


@pytest.fixture
def training(sweeps):
    sweeps.inventory("gpus: []\n")
    (sweeps.folder / "s.yaml").write_text(SWEEP)
    return sweeps


def runs(sweeps, trial: str) -> list:
    return [entry for entry in (sweeps.folder / "sweeps/s" / trial).glob("run-*") if entry.is_dir()]


def steps(run) -> list[int]:
    with open(run / "metrics.csv", newline="") as file:
        return [int(row["step"]) for row in csv.DictReader(file)]


def test_trainings_that_learn_too_little_are_stopped_and_the_best_is_found(training):
    training.run("sweep", "s.yaml", "training.max_steps=80", "early_stop={min_steps: 10, max_steps: 80, eta: 2}")
    good, bad = training.observations()
    (run,) = runs(training, "s.r.0")
    result = json.loads((run / "result.json").read_text())
    assert good["score"] == result["final_loss"] and good["parameters"]["training.learning_rate"] == 0.003
    assert bad["stopped_early"] and bad["score"] > good["score"]
    (patch,) = json.loads(training.run("sweep", "best", "s", "--json").stdout)
    assert patch["trial"] == "s.r.0" and patch["command"].startswith(f"{training.program} train training.learning_rate=0.003 ")


def test_a_training_that_was_cut_off_goes_on_from_its_checkpoint(training):
    words = ["sweep", "s.yaml", "training.learning_rate=0.001", "training.max_steps=120"]
    sweep = training.start(*words)
    training.until(lambda: runs(training, "s.r.0") and list(runs(training, "s.r.0")[0].glob("checkpoints/step-*")))
    training.kill(sweep)
    training.until(training.nothing_runs)
    assert training.observations() == []
    training.run(*words)
    (one,) = training.observations()
    (run,) = runs(training, "s.r.0")
    assert steps(run) == list(range(1, 121)) and one["score"] == json.loads((run / "result.json").read_text())["final_loss"]


def test_trials_on_gpus_of_a_file_compute_on_the_cpu(training):
    training.inventory("gpus:\n  - {count: 2, name: GPU of a file, memory_total: 80GiB}\n")
    done = training.run("sweep", "s.yaml", "training.max_steps=3")
    assert "gpus.yaml are not in this machine: trials of muster train compute on the CPU" in done.stderr
    assert len(training.observations()) == 2
    for trial in ("s.r.0", "s.r.1"):
        (run,) = runs(training, trial)
        assert steps(run) == [1, 2, 3]


def test_the_example_is_a_sweep_of_the_builtin_job(training):
    shown = training.run("sweep", ROOT / "examples/sweep.yaml", "--name", "add", "--dry-run").stdout
    assert "eval_loss (minimize)" in shown and "command   muster train training.learning_rate=" in shown


def test_an_evaluation_gets_the_model_that_its_training_made(training):
    command = "test -f $MUSTER_RUN_FOLDER/model/config.json && echo accuracy=0.25"
    training.run("sweep", "s.yaml", "training.learning_rate=0.001", "training.max_steps=2", "metric=accuracy", "goal=maximize",
                 f"evaluate=[sh, -c, '{command}']")
    assert training.observations()[0]["score"] == 0.25
