"""How high memory rises when muster trains, beside what its plan says: shape × batch × sequence × recomputation × strategy.

    python bench/train/memory_grid.py [--muster build/engine/apps/cli/muster] [--device cuda] [--shapes qwen2.5-0.5b] [--ranks 1 2]
        [--batches 1 8] [--lengths 512 2048] [--recompute none selective full] [--strategies ddp full_shard] [--dtype bfloat16]
        [--settings ...]

Prints one JSON line for each cell: the plan's peak and the highest of any rank's, in bytes, and how far apart they are. On a GPU the
measured one is the allocator's; ranks beyond the first share the GPU over Gloo. On CPU ranks it is the process's, less that of a rank that trains a
model of next to nothing; the plan then counts no context and no library's workspace.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import train_peer

STRATEGIES = {
    "ddp": ["--strategy", "ddp"],
    "full_shard": ["--strategy", "fsdp"],
    "shard_grad_op": ["--strategy", "fsdp", "distributed.fsdp_sharding_strategy=shard_grad_op"],
    "offload": ["--strategy", "fsdp", "distributed.fsdp_cpu_offload=true"],
}
SMALLEST = dict(model_type="llama", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
                num_key_value_heads=1, vocab_size=259, tie_word_embeddings=True, rms_norm_eps=1e-5, max_position_embeddings=256)


def run(arguments, shape: str, ranks: int, batch: int, length: int, words: list[str]) -> tuple[int, int] | str:
    """The plan's peak of a rank, and the highest measured one; or why it did not run."""
    steps = 13 if arguments.device == "cuda" else 3  # the GPU's attention settles in the first ones
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, data = train_peer.write_inputs(folder, shape, batch * ranks * (steps + 1), length)
        command = [arguments.muster, "train", "-m", str(model), "model.init=random", f"data.path={data}", "--output", str(folder / "runs"),
                   f"training.max_steps={steps}", "training.save_at_end=nothing", f"training.batch_size={batch * ranks}",
                   f"training.micro_batch_size={batch}",
                   f"training.sequence_length={length + 1}", f"--dtype={arguments.dtype}", "--device", arguments.device,
                   "--ranks", str(ranks), *words, *arguments.settings]
        if arguments.device == "cuda":
            command += ["--num-gpus", "1"]
        threads = {"OMP_NUM_THREADS": "1"} if arguments.device == "cpu" else {}
        done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr.strip().splitlines()[0]
        (kept,) = (folder / "runs").iterdir()
        planned = max(rank["peak_bytes"] for rank in json.loads((kept / "plan.json").read_text())["ranks"])
        events = map(json.loads, (kept / "events.jsonl").read_text().splitlines())
        return planned, max(event["peak"] for event in events if event["event"] == "memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--muster", default="build/engine/apps/cli/muster")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--shapes", nargs="+", default=["qwen2.5-0.5b"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 2048])
    parser.add_argument("--recompute", nargs="+", default=["none", "selective", "full"])
    parser.add_argument("--strategies", nargs="+", default=["ddp", "full_shard"], choices=STRATEGIES)
    parser.add_argument("--settings", nargs="*", default=[])
    arguments = parser.parse_args()
    train_peer.SHAPES["smallest"] = SMALLEST
    nothing = {}
    for shape, ranks, batch, length, recompute in itertools.product(arguments.shapes, arguments.ranks, arguments.batches,
                                                                    arguments.lengths, arguments.recompute):
        alone = ["offload"] if arguments.strategies == ["offload"] else ["single"]  # one rank has nothing else to choose from
        for strategy in arguments.strategies if ranks > 1 else alone:
            if arguments.device == "cpu" and ranks not in nothing:
                nothing[ranks] = run(arguments, "smallest", ranks, 1, 16, STRATEGIES["ddp"] if ranks > 1 else [])[1]
            words = [*STRATEGIES.get(strategy, []), f"training.gradient_checkpointing={recompute}"]
            found = run(arguments, shape, ranks, batch, length, words)
            row = {"question": "memory of muster train", "shape": shape, "ranks": ranks, "strategy": strategy, "batch": batch,
                   "length": length, "recompute": recompute, "device": arguments.device, "dtype": arguments.dtype}
            if isinstance(found, str):
                row["refused"] = found
            else:
                planned, measured = found[0], found[1] - nothing.get(ranks, 0)
                row |= {"planned": planned, "measured": measured, "off": round(measured / planned - 1, 4)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
