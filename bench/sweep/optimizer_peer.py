"""How good is a sweep's search, beside random search and Optuna's TPE at equal trials: optimizer_peer.py [--seeds N] [--trials N].

Prints JSON lines: for each function the median over seeds of how far the best trial is above the least value there is (simple
regret), the ratios, and how long a suggestion takes at 250 observations. Also the toy's best loss within equal seconds of
(simulated) training, where cheap trials leave time for more of them.
"""

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/peer/search"))

from search_problems import BUDGET_PROBLEM, PROBLEMS, Sweep, flat, median_regrets, spec_of  # noqa: E402


def draw(rule, chance):
    low, high = rule["min"], rule["max"]
    if rule["distribution"] == "uniform_pow2":
        return 2 ** chance.randint(low.bit_length() - 1, high.bit_length() - 1)
    return chance.uniform(low, high)


def processor_seconds(process):
    """What the program has computed so far, whoever else used the machine meanwhile."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9


def suggestion_time(problem, count, repeats=15):
    """Medians over some suggestions by a program that has read count observations: by the clock and by the processor's time."""
    chance = random.Random(1)
    lines = []
    for number in range(count):
        parameters = {path: draw(rule, chance) for path, rule in flat(problem.parameters)}
        lines.append(json.dumps({"trial": f"t{number}", "parameters": parameters, "score": problem.loss(parameters),
                                 "cost_seconds": problem.seconds(parameters), "failed": False}))
    clock, processor = [], []
    with Sweep(spec_of(problem, "bayes", 1, count + repeats + 1), "\n".join(lines) + "\n") as sweep:
        for _ in range(repeats):
            begin, computed = time.perf_counter(), processor_seconds(sweep.process)
            sweep.ask(ask=True)
            clock.append(time.perf_counter() - begin)
            processor.append(processor_seconds(sweep.process) - computed)
    return {"clock_ms": round(1e3 * statistics.median(clock), 1), "processor_ms": round(1e3 * statistics.median(processor), 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=50)
    arguments = parser.parse_args()
    for problem, budget in [*((p, None) for p in PROBLEMS), (BUDGET_PROBLEM, 400.0)]:
        trials = arguments.trials if budget is None else 200
        regrets = median_regrets(problem, arguments.seeds, trials, budget)
        print(json.dumps({"problem": problem.name, "seeds": arguments.seeds, "trials": trials, "seconds": budget, "median_regret": regrets,
                          "of_random": regrets["bayes"] / regrets["random"], "of_tpe": regrets["bayes"] / regrets["tpe"]}), flush=True)
    for problem in PROBLEMS:
        print(json.dumps({"problem": problem.name, "observations": 250, "suggestion": suggestion_time(problem, 250)}), flush=True)


if __name__ == "__main__":
    main()
