"""On a host with a GPU: muster train gives the same bits when it is run again and when a batch is split otherwise (deterministic
mode), nearly the same losses on 2 and 4 ranks that share the GPU, over Gloo and over NCCL, and saving hardly holds a step up.

    python scripts/gpu_train_check.py --program build/engine/apps/cli/muster [--strategies | --memory | --large]

Prints one line for each question, `ok` or `FAILED` first. --strategies: the same bits in every mode of sharding, with offload and without.
--memory: a run whose GPU fills up while it trains ends with the same curve. --large: saving, with a model of 0.5 billion parameters.
"""

import argparse
import csv
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench/train"))
import train_peer  # noqa: E402

# How far the loss of a step may be from that of one rank: sums of bfloat16 products are cut where the batch is.
BOUND = 2e-3
failures = 0


def report(good: bool, *words) -> None:
    global failures
    failures += not good
    print("ok    " if good else "FAILED", *words, flush=True)


class Run:
    def __init__(self, program: str, output: pathlib.Path, *options: str):
        command = [program, "train", "--device", "cuda", "--output", str(output), *options]
        self.done = subprocess.run(command, capture_output=True, text=True)
        self.good = self.done.returncode == 0
        if not self.good:
            print(self.done.stderr[-1500:])
            return
        self.folder = max(output.iterdir(), key=lambda entry: entry.stat().st_mtime)
        with (self.folder / "metrics.csv").open() as table:
            self.rows = list(csv.DictReader(table))
        self.losses = [row["loss"] for row in self.rows]
        weights = sorted((self.folder / "model").glob("*.safetensors"))
        self.weights = hashlib.sha256(b"".join(file.read_bytes() for file in weights)).hexdigest()


def largest_difference(a: Run, b: Run) -> float:
    return max(abs(float(x) - float(y)) for x, y in zip(a.losses, b.losses, strict=True))


def check_bits(program: str, folder: pathlib.Path) -> None:
    for dtype in ("float32", "bfloat16"):
        usual = ["training.max_steps=30", "training.batch_size=128", f"--dtype={dtype}", "training.deterministic=true"]
        first = Run(program, folder, *usual)
        if not first.good:
            report(False, dtype, "does not train")
            continue
        for words in (["again"], ["split in two", "training.micro_batch_size=64"], ["split in eight", "training.micro_batch_size=16"],
                      ["recomputed", "training.gradient_checkpointing=full"]):
            other = Run(program, folder, *usual, *words[1:])
            same = other.good and other.losses == first.losses and other.weights == first.weights
            report(same, f"deterministic {dtype}:", words[0], "same bits" if same else "OTHER BITS")
        for ranks in (2, 4):
            for backend in ("gloo", "nccl"):
                other = Run(program, folder, *usual, "--ranks", str(ranks), f"distributed.backend={backend}")
                apart = largest_difference(first, other) if other.good else float("inf")
                report(apart <= BOUND, f"deterministic {dtype}: {ranks} ranks over {backend}, losses apart by at most {apart:.2e}",
                       "same weights" if other.good and other.weights == first.weights else "other weights")


def check_plain(program: str, folder: pathlib.Path) -> None:
    first = Run(program, folder, "training.max_steps=30")
    for ranks, backend in ((2, "gloo"), (2, "nccl")):
        other = Run(program, folder, "training.max_steps=30", "--ranks", str(ranks), f"distributed.backend={backend}")
        apart = largest_difference(first, other) if first.good and other.good else float("inf")
        report(apart <= BOUND, f"as usual: {ranks} ranks over {backend}, losses apart by at most {apart:.2e}")


SHARDED = ["--strategy", "fsdp"]
MODES = {
    "ddp": ["--strategy", "ddp"],
    "full_shard": SHARDED,
    "shard_grad_op": [*SHARDED, "distributed.fsdp_sharding_strategy=shard_grad_op"],
    "hybrid_shard": [*SHARDED, "distributed.fsdp_sharding_strategy=hybrid_shard", "distributed.fsdp_group_size=2"],
    "full_shard with offload": [*SHARDED, "distributed.fsdp_cpu_offload=true"],
}


def check_strategies(program: str, folder: pathlib.Path) -> None:
    usual = ["training.max_steps=20", "training.batch_size=128", "--dtype=bfloat16", "training.deterministic=true", "data.held_out=0.01"]
    first = Run(program, folder, *usual)
    if not first.good:
        return report(False, "does not train")
    layouts = [(mode, ranks, backend) for ranks in (2, 4) for backend in ("gloo", "nccl") for mode in MODES]
    for mode, ranks, backend in [*layouts, ("full_shard with offload", 1, "auto")]:
        other = Run(program, folder, *usual, *MODES[mode], "--ranks", str(ranks), f"distributed.backend={backend}", "--num-gpus", "1")
        apart = largest_difference(first, other) if other.good else float("inf")
        same = other.good and other.losses == first.losses and other.weights == first.weights
        report(apart <= BOUND, f"{mode}, {ranks} ranks over {backend}: losses apart by at most {apart:.2e},",
               "same bits" if same else "other bits")


# On request: takes what is free on the GPU but for so many bytes, again and again.
HOG = """
import sys, time, torch
left, held = int(sys.argv[1]), []
torch.zeros(1, device="cuda")
sys.stdin.readline()
while True:
    free = torch.cuda.mem_get_info()[0]
    try:
        if free > left + (64 << 20):
            held.append(torch.empty(free - left, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    time.sleep(0.002)
"""


# Few parameters, so that Gloo has little to carry, and much to keep of long batches.
THIN = dict(model_type="llama", hidden_size=256, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=4,
            num_key_value_heads=4, vocab_size=259, tie_word_embeddings=True, rms_norm_eps=1e-5, max_position_embeddings=1024)


def events_of(folder: pathlib.Path, word: str) -> list[dict]:
    events = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    return [event for event in events if event["event"] == word]


def report_tight(why: str, wanted: Run, errors: str, output: pathlib.Path, ranks: set[int] | None = None) -> None:
    """Whether a run that was short of memory ran out of it, on these ranks and no other, and has the same curve."""
    folders = list(output.iterdir()) if output.exists() else []
    if not folders or not (folders[0] / "result.json").exists():
        return report(False, f"{why}:", errors[-1500:])
    shrunk = [(event["rank"], event["step"], event["micro_batch"], event["recompute"]) for event in events_of(folders[0], "shrunk")]
    with (folders[0] / "metrics.csv").open() as table:
        losses = [row["loss"] for row in csv.DictReader(table)]
    report(bool(shrunk) and ranks in (None, {rank for rank, *_ in shrunk}), f"{why}: memory ran out on (rank, step, new micro-batch, recomputed):",
           *shrunk)
    report(losses == wanted.losses, "and the curve is the same, to the last bit" if losses == wanted.losses else "and the curve is ANOTHER")


def check_memory(program: str, folder: pathlib.Path) -> None:
    """Memory runs out while two ranks train: on the GPU that they share, and for one of them alone."""
    batch, length, steps = 64, 1024, 12
    train_peer.SHAPES["thin"] = THIN
    model, data = train_peer.write_inputs(folder, "thin", batch * (steps + 1), length)
    usual = ["-m", str(model), "model.init=random", f"data.path={data}", f"training.max_steps={steps}", f"training.batch_size={batch}",
             f"training.sequence_length={length + 1}", "--dtype=bfloat16", "training.deterministic=true", "--strategy", "fsdp", "--ranks", "2",
             "--num-gpus", "1", "distributed.backend=gloo", "training.micro_batch_size=32", "system.clear_cache_interval=1"]
    started = time.monotonic()
    first = Run(program, folder / "roomy", *usual)
    if not first.good:
        return report(False, "does not train")
    print(f"      {steps} steps with room took {time.monotonic() - started:.0f} s", flush=True)

    # Another process takes what is free, but for 1.5 GiB, once the first steps are done; ranks give back what they do not hold.
    hog = subprocess.Popen([sys.executable, "-c", HOG, str(3 << 29)], stdin=subprocess.PIPE, text=True)
    output = folder / "tight"
    command = [program, "train", "--device", "cuda", *usual, "--output"]
    other = subprocess.Popen([*command, str(output)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while other.poll() is None and not any(entry.stat().st_size > 200 for entry in output.glob("*/metrics.csv")):
        time.sleep(0.05)
    hog.stdin.write("now\n")
    hog.stdin.flush()
    errors = other.communicate()[1]
    hog.kill()
    hog.wait()
    time.sleep(1)  # the driver gives its memory back
    report_tight("the GPU fills up", first, errors, output)

    # The second rank may take two thirds of what it needs. What the first run of this shape learnt would be used: another cache.
    peak = max(event["peak"] for event in events_of(first.folder, "memory"))
    total = max(event["total"] for event in events_of(first.folder, "memory"))
    worker = pathlib.Path(program).resolve().parents[1] / "worker/muster-worker"
    capped = folder / "capped-worker"
    capped.write_text(f'#!/bin/sh\n[ "$RANK" = 1 ] && export PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:{peak / total * 2 / 3:.6f}\n'
                      f'exec {worker} "$@"\n')
    capped.chmod(0o755)
    output = folder / "capped"
    environment = {**os.environ, "MUSTER_WORKER": str(capped), "MUSTER_CACHE": str(folder / "cache")}
    done = subprocess.run([*command, str(output)], capture_output=True, text=True, env=environment)
    report_tight("one rank may have less", first, done.stderr, output, {1})


def check_saving(program: str, folder: pathlib.Path) -> None:
    batch, length, steps = 8, 2048, 100
    model, data = train_peer.write_inputs(folder, "qwen2.5-0.5b", batch * (steps + 1), length)
    run = Run(program, folder / "runs", "-m", str(model), "model.init=random", f"data.path={data}", f"training.max_steps={steps}",
              f"training.batch_size={batch}", f"training.sequence_length={length + 1}", "--dtype=bfloat16", "training.save_steps=45",
              "training.save_total_limit=1")
    if not run.good:
        return report(False, "saving: does not train")
    seconds = {int(row["step"]): float(row["seconds"]) for row in run.rows}
    median = statistics.median(seconds.values())
    near = {step: seconds[step] for saved in (45, 90) for step in range(saved, saved + 10)}
    worst = max(near, key=near.get)
    report(near[worst] <= 1.05 * median, f"saving: median step {1000 * median:.1f} ms, slowest near a save {1000 * near[worst]:.1f} ms",
           f"(step {worst}, {near[worst] / median:.3f} times)", json.dumps({s: round(1000 * t, 1) for s, t in near.items()}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--strategies", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if arguments.large:
            check_saving(arguments.program, folder)
        elif arguments.strategies:
            check_strategies(arguments.program, folder / "runs")
        elif arguments.memory:
            check_memory(arguments.program, folder)
        else:
            check_bits(arguments.program, folder / "runs")
            check_plain(arguments.program, folder / "runs")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
