"""`muster plan` beside the measured peaks of bench/results: errors per model and type, as a Markdown table.

    python3 bench/memory/compare.py [--muster PROGRAM] [FILE.jsonl ...]

Without files: every memory_*.jsonl in bench/results. An error is (predicted - measured) / measured of the peak of
allocated bytes; worst is the one farthest from zero, with its cell. Cells of scoring (no new tokens) are left out: a plan
tells the batch of them that fits, not their peak; tests/unit/plan compares those too. Needs no GPU.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from shapes import shapes

BENCH = pathlib.Path(__file__).resolve().parent.parent
BUILT = BENCH.parent / "build/engine/apps/cli/muster"


def options_of(row):
    """The cell as `muster plan` is asked about it."""
    precision = row["dtype"]
    if row["work"] == "infer":
        # A cell's sequence is its prompt.
        return ["--infer", "--dtype", precision, "--batch", row["batch"], "--seq-len", row["sequence"] + row["new_tokens"],
                "--new-tokens", row["new_tokens"], "--strategy", "single"]
    options = ["--train", "--micro-batch", row["batch"], "--accumulation", row.get("accumulation", 1), "--seq-len",
               row["sequence"], "--optimizer", row["optimizer"], "--attention", row.get("attention", "sdpa"),
               "--strategy", "single"]
    options += ["--mixed-precision", "bf16"] if precision == "autocast" else ["--dtype", precision, "--mixed-precision", "no"]
    return options + (["--checkpointing"] if row["checkpointing"] else [])


def predicted_peak(program, folder, row):
    command = [program, "plan", folder / row["model"], *options_of(row), "--json"]
    answer = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            env={**os.environ, "MUSTER_GPUS": str(folder / "gpus.yaml")})
    if answer.returncode not in (0, 3):  # one that does not fit is told all the same
        sys.exit(f"{' '.join(map(str, command))}\n{answer.stderr}")
    return json.loads(answer.stdout)["ranks"][0]["peak_bytes"]


def described(row):
    words = [row["work"], f"{row['batch']}×{row['sequence']}"]
    words += [f"+{row['new_tokens']}"] if "new_tokens" in row else [row["optimizer"]]
    return " ".join(words + (["recomputed"] if row.get("checkpointing") else []))


def table(program, rows):
    errors = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "gpus.yaml").write_text("gpus: [{memory_total: 143155MiB, name: NVIDIA H200}]\n")
        for model, shape in shapes.items():
            (folder / model).mkdir()
            (folder / model / "config.json").write_text(json.dumps(shape))
        for row in rows:
            error = predicted_peak(program, folder, row) / row["peak"] - 1
            errors[row["model"], row["dtype"]].append((error, described(row)))
    lines = ["| model | type | cells | mean error | mean of magnitudes | worst | where |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for (model, dtype), found in [*sorted(errors.items()), (("all", ""), sum(errors.values(), []))]:
        worst = max(found, key=lambda pair: abs(pair[0]))
        mean = sum(error for error, _ in found) / len(found)
        magnitude = sum(abs(error) for error, _ in found) / len(found)
        lines.append(f"| {model} | {dtype} | {len(found)} | {mean:+.2%} | {magnitude:.2%} | {worst[0]:+.2%} | {worst[1]} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", type=pathlib.Path, default=BUILT)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    for file in arguments.files or sorted((BENCH / "results").glob("memory_*.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        rows = [row for row in rows if "peak" in row and row.get("new_tokens") != 0]
        print(f"### {file.name}\n\n{table(arguments.muster, rows)}\n")


if __name__ == "__main__":
    main()
