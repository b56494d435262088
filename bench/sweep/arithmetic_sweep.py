"""Does a sweep of the built-in arithmetic job beat random search at equal trials: arithmetic_sweep.py [--seeds N] [--trials N] [--steps N].

Real trials of `muster sweep`, each a real `muster train` of a few seconds on the CPU. The seed is the sweep's; the training's own is the same
in all trials. Prints JSON lines: for each seed and method the held-out losses in the order of the trials, and at the end the medians
over seeds of the least loss after so many trials. MUSTER_TEST_PROGRAM and MUSTER_WORKER name programs that are built elsewhere.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("MUSTER_TEST_PROGRAM", str(ROOT / "build/engine/apps/cli/muster"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "MUSTER_TEST_PROGRAM"}

# The middle of each range is no good place, so that beginning there is worth nothing.
SWEEP = """
metric: eval_loss
goal: minimize
parameters:
  training.learning_rate: {distribution: log_uniform, min: 1.0e-6, max: 1.0e-1}
  training.warmup_steps: {distribution: int_uniform, min: 0, max: %(steps)d}
  training.weight_decay: {distribution: log_uniform, min: 1.0e-3, max: 3.0}
  training.max_grad_norm: {distribution: log_uniform, min: 1.0e-3, max: 10}
  training.max_steps: %(steps)d
  training.batch_size: 16
  training.save_steps: %(steps)d
  training.eval_steps: %(steps)d
  distributed.ranks: 1
"""


def losses(folder: str, method: str, seed: int, trials: int) -> list[float]:
    name = f"{method}{seed}"
    subprocess.run([PROGRAM, "sweep", "spec.yaml", "--name", name, "--device", "cpu", "--runs", "1", f"method={method}", f"seed={seed}",
                    f"limits.trials={trials}", "bayes.cost_weight=0"], cwd=folder, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    lines = (pathlib.Path(folder) / "sweeps" / name / "observations.jsonl").read_text().splitlines()
    return [score if (score := json.loads(line)["score"]) is not None else float("inf") for line in lines]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=14)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    best: dict[str, list[float]] = {"random": [], "bayes": []}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "spec.yaml").write_text(SWEEP % {"steps": arguments.steps})
        for seed in range(1, arguments.seeds + 1):
            for method in best:
                found = losses(folder, method, seed, arguments.trials)
                best[method].append(min(found))
                print(json.dumps({"seed": seed, "method": method, "steps": arguments.steps, "best": min(found), "losses": found}), flush=True)
    median = {method: statistics.median(found) for method, found in best.items()}
    wins = sum(bayes < random for bayes, random in zip(best["bayes"], best["random"]))
    print(json.dumps({"seeds": arguments.seeds, "trials": arguments.trials, "steps": arguments.steps, "median_best": median, "bayes_better_on": wins}))


if __name__ == "__main__":
    main()
