#!/usr/bin/env python3
"""Two programs, the same work, in turn on one machine: how long each takes, and the ratio.

    bench/side_by_side.py PROGRAM OTHER_PROGRAM [--rounds N] [--only NAME…]

For a change that should cost no speed, against the commit before it: what the first takes divided by what the second takes, medians
over the rounds; above 1 the second is faster. Each round runs every case with both programs, the order turned from round to
round. About ten seconds a case and round on two cores. The model that answers is smollm2 (`muster model get smollm2`).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


EIGHT = pathlib.Path(__file__).resolve().parents[1] / "examples/eight_gpus.yaml"


class Program:
    def __init__(self, path: str, folder: pathlib.Path):
        self.path = str(pathlib.Path(path).resolve())
        self.folder = folder
        folder.mkdir()
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("MUSTER_") or name == "MUSTER_MODELS"}  # fmt: skip
        self.environment |= {"MUSTER_CACHE": str(folder / "cache"), "MUSTER_STATE": str(folder / "state"),
                             "MUSTER_LEASE_DIR": str(folder / "leases"), "MUSTER_QUEUE_IDLE": "1s"}  # fmt: skip

    def __call__(self, *words: str, given: str | None = None) -> float:
        began = time.perf_counter()
        done = subprocess.run([self.path, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, input=given)
        if done.returncode != 0:
            raise SystemExit(f"{self.path} {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return time.perf_counter() - began


def train(program: Program, number: int) -> float:
    """One of the fastest tenth of the steps, by the rank's own clock: what else the machine does is not in it."""
    output = program.folder / f"train-{number}"
    program("train", "--device", "cpu", "--output", str(output), "training.max_steps=150", "training.eval_steps=1000")
    events = next(output.glob("**/events.jsonl")).read_text().splitlines()
    steps = [event["seconds"] for event in map(json.loads, events) if event["event"] == "step"]
    return statistics.quantiles(steps[20:], n=10)[0]


def prompts(program: Program, count: int, rows) -> str:
    file = program.folder / "prompts.jsonl"
    file.write_text("".join(json.dumps(rows(i)) + "\n" for i in range(count)))
    return str(file)


def generate(program: Program, number: int) -> float:
    file = prompts(program, 24, lambda i: {"prompt": f"Write a word that begins like number {i}:"})
    return program("generate", "-m", "smollm2", "--device", "cpu", "-p", file, "-o", f"answers-{number}.jsonl", "--max-new-tokens", "24",
                   "--temperature", "0")  # fmt: skip


def score(program: Program, number: int) -> float:
    file = prompts(program, 24, lambda i: {"prompt": f"Number {i}. " + "The river runs under the stone bridge. " * 8, "completion": " It is quiet."})
    return program("generate", "-m", "smollm2", "--device", "cpu", "--score", "-p", file, "-o", f"scores-{number}.jsonl")


def repeated(count: int, *words: str):
    return lambda program, number: sum(program(*words) for _ in range(count)) / count


def queue(program: Program, number: int) -> float:
    began = time.perf_counter()
    program("submit", "-n", "0", given="true\n" * 100)
    program("wait")
    return time.perf_counter() - began


CASES = {
    "train, a step": train,
    "generate": generate,
    "score": score,
    "plan": repeated(20, "plan", "--params", "70B", "--gpus-from", str(EIGHT)),
    "launch, 4 ranks": repeated(10, "launch", "--nproc-per-node", "4", "--device", "cpu", "--", "true"),
    "queue, 100 jobs": queue,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=[*CASES])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = [Program(path, pathlib.Path(folder) / str(i)) for i, path in enumerate(given.programs)]
        for name in given.only or CASES:
            taken = ([], [])
            for number in range(given.rounds):
                for i in (0, 1) if number % 2 == 0 else (1, 0):
                    taken[i].append(CASES[name](programs[i], number))
            first, second = map(statistics.median, taken)
            print(f"{name:18} {first * 1000:10.1f} ms {second * 1000:10.1f} ms   ratio {first / second:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
