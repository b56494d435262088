"""How close N ranks come to N times one: devices that take a fixed time for each prompt, in place of a model.

python bench/generate/data_parallel_bench.py [--ranks 8] [--milliseconds 20] [--prompts 200]
Each rank answers that many prompts on average; the clock runs from the first rank that is ready to the last result, so
that starting processes is no part of it. One JSON line: speed-up over one rank, and its share of the ideal.
"""

import argparse
import json
import subprocess
import tempfile

from runs import WORDS, cores, scripted


def seconds(ranks: int, prompts: int, milliseconds: float) -> float:
    """As the summary has it: from the moment the first rank was ready."""
    with tempfile.TemporaryDirectory() as folder:
        generate = scripted(folder, prompts, pause=milliseconds / 1000, wants=3)
        result = generate(*WORDS, "--ranks", str(ranks), "--batch-size", "1", "--json")
        if result.returncode != 0:
            raise subprocess.CalledProcessError(result.returncode, "muster generate", result.stdout, result.stderr)
        return json.loads(result.stdout)["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--milliseconds", type=float, default=20)
    parser.add_argument("--prompts", type=int, default=200, help="for each rank")
    given = parser.parse_args()
    one = seconds(1, given.prompts, given.milliseconds)
    many = seconds(given.ranks, given.ranks * given.prompts, given.milliseconds)
    speed_up = given.ranks * one / many
    print(
        json.dumps(
            {
                "bench": "generate/data_parallel", "ranks": given.ranks, "milliseconds_per_prompt": given.milliseconds,
                "prompts_per_rank": given.prompts, "cores": cores(), "seconds_one": one, "seconds_many": many,
                "speed_up": round(speed_up, 3), "of_ideal": round(speed_up / given.ranks, 4),
            }  # fmt: skip
        )
    )


if __name__ == "__main__":
    main()
