"""Functions whose minimum is known, with costs, and sweeps over them: by muster (through sweep_driver) and by Optuna."""

import json
import math
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests"))
sys.path.append(str(ROOT / "tests"))

from json_lines import JsonLines  # noqa: E402


def branin(p):
    x, y = p["x"], p["y"]
    bend = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return bend * bend + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


HARTMANN_WEIGHTS = [1.0, 1.2, 3.0, 3.2]
HARTMANN_WIDTHS = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
HARTMANN_PLACES = [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991], [2348, 1451, 3522, 2883, 3047, 6650],
                   [4047, 8828, 8732, 5743, 1091, 381]]


def hartmann(p):
    total = 0.0
    for weight, widths, places in zip(HARTMANN_WEIGHTS, HARTMANN_WIDTHS, HARTMANN_PLACES):
        total += weight * math.exp(-sum(a * (p[f"x{i}"] - c / 10_000) ** 2 for i, (a, c) in enumerate(zip(widths, places))))
    return -total


def toy_seconds(p):
    """A training run: as long as its steps and the width of its model make it."""
    return p["training.steps"] * p["model.width"] / 4096


def toy_loss(p):
    """What is left of the loss: the best rate depends on the width, and more steps and more width help ever less."""
    off = math.log10(p["training.learning_rate"]) + 3 + 0.8 * math.log2(p["model.width"] / 64) / 2
    return 0.25 * off * off + 2.0 * (p["training.steps"] / 64) ** -0.7 + 0.6 * (p["model.width"] / 32) ** -1.0


def toy_weighted(p):
    return toy_loss(p) + 0.004 * toy_seconds(p)


@dataclass
class Problem:
    name: str
    parameters: dict  # as a sweep file has them
    loss: Callable
    least: float
    seconds: Callable = lambda p: 1.0


TOY = {
    "training": {"learning_rate": {"distribution": "log_uniform", "min": 1e-5, "max": 1e-1}, "steps": {"distribution": "uniform_pow2", "min": 64, "max": 4096}},
    "model.width": {"distribution": "uniform_pow2", "min": 32, "max": 256},
}


def least_toy(loss):
    """The best rate makes its own term nothing; the rest is a small table."""
    best = math.inf
    for steps in (2**k for k in range(6, 13)):
        for width in (2**k for k in range(5, 9)):
            rate = 10 ** (-3 - 0.8 * math.log2(width / 64) / 2)
            best = min(best, loss({"training.learning_rate": rate, "training.steps": steps, "model.width": width}))
    return best


def interval(low, high):
    return {"distribution": "uniform", "min": low, "max": high}


PROBLEMS = [
    Problem("branin", {"x": interval(-5, 10), "y": interval(0, 15)}, branin, 0.39788735772973816),
    Problem("hartmann6", {f"x{i}": interval(0, 1) for i in range(6)}, hartmann, -3.322368011391339),
    Problem("cost-weighted toy", TOY, toy_weighted, least_toy(toy_weighted), toy_seconds),
]
# The same without a price: what counts is how far a budget of seconds leads.
BUDGET_PROBLEM = Problem("toy at equal cost", TOY, toy_loss, least_toy(toy_loss), toy_seconds)


class Sweep(JsonLines):
    """A session with sweep_driver."""

    def __init__(self, spec: dict, observations: str | None = None):
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, "sweep.yaml")
        path.write_text(json.dumps(spec))
        command = [str(PROGRAMS / "sweep_driver"), str(path)]
        if observations is not None:
            file = Path(self.folder.name, "observations.jsonl")
            file.write_text(observations)
            command.append(str(file))
        super().__init__(command)

    def __exit__(self, *failure):
        super().__exit__(*failure)
        self.folder.cleanup()


def spec_of(problem, method, seed, trials, **more):
    return {"metric": "loss", "goal": "minimize", "method": method, "seed": seed, "parameters": problem.parameters, "limits": {"trials": trials, **more}}


def run_muster(problem, method, seed, trials, budget=None):
    """The best loss; of trials that end within the budget of seconds, where there is one."""
    best, spent = math.inf, 0.0
    more = {"seconds": budget} if budget else {}
    with Sweep(spec_of(problem, method, seed, trials, **more)) as sweep:
        while "trial" in (trial := sweep.ask(ask=True)):
            parameters = trial["parameters"]
            loss, seconds = problem.loss(parameters), problem.seconds(parameters)
            spent += seconds
            if budget and spent > budget:
                break
            best = min(best, loss)
            sweep.ask(tell=trial["trial"], score=loss, cost_seconds=seconds)
    return best


def flat(parameters, prefix=""):
    for key, value in parameters.items():
        if "distribution" in value:
            yield prefix + key, value
        else:
            yield from flat(value, prefix + key + ".")


def run_optuna(problem, seed, trials, budget=None):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), direction="minimize")
    best, spent = math.inf, 0.0
    for _ in range(trials):
        trial = study.ask()
        parameters = {}
        for path, rule in flat(problem.parameters):
            if rule["distribution"] == "uniform_pow2":
                low, high = int(math.log2(rule["min"])), int(math.log2(rule["max"]))
                parameters[path] = 2 ** trial.suggest_int(path, low, high)
            else:
                parameters[path] = trial.suggest_float(path, rule["min"], rule["max"], log=rule["distribution"] == "log_uniform")
        loss = problem.loss(parameters)
        spent += problem.seconds(parameters)
        if budget and spent > budget:
            break
        best = min(best, loss)
        study.tell(trial, loss)
    return best


def median_regrets(problem, seeds, trials, budget=None):
    """{"random", "tpe", "bayes"} → the median over seeds of how far the best loss is above the least."""
    ways = {
        "random": lambda seed: run_muster(problem, "random", seed, trials, budget),
        "tpe": lambda seed: run_optuna(problem, seed, trials, budget),
        "bayes": lambda seed: run_muster(problem, "bayes", seed, trials, budget),
    }
    return {way: statistics.median(run(seed) - problem.least for seed in range(seeds)) for way, run in ways.items()}
