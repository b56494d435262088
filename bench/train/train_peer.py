"""Training beside PyTorch: the same shape, data, batch and threads, in turn, in one run.

    python bench/train/train_peer.py [--muster build/engine/apps/cli/muster] [--shapes arithmetic smollm2] [--ranks 1 2]
        [--device cpu] [--dtype float32] [--batch 8 --length 2048] [--steps 30] [--rounds 3] [--strategy ddp]
        [--peer-parameters float32] [--peer-compiled] [--alone]

The peer is transformers' model and the cross-entropy of its logits in eager mode, or compiled by torch.compile, clipping and
torch.optim.AdamW; with several ranks torchrun and DistributedDataParallel, or with --strategy fsdp fully_shard (FSDP 2) of every block
and the model. Prints one JSON line for each shape and number of ranks: tokens per second of both, from the
median step, and their ratio; on a GPU also the peak memory. Weights are random. The peer computes in bfloat16 by autocast over
float32 parameters; with --peer-parameters bfloat16 its parameters and moments are bfloat16, as muster's are with
--settings model.dtype=bfloat16 training.mixed_precision=no.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import statistics
import string
import subprocess
import sys
import tempfile

from random_model import write_model

SHAPES = {
    "arithmetic": dict(model_type="llama", hidden_size=128, intermediate_size=352, num_hidden_layers=3, num_attention_heads=4,
                       num_key_value_heads=4, vocab_size=259, tie_word_embeddings=True, rms_norm_eps=1e-5,
                       max_position_embeddings=256),
    "smollm2": dict(model_type="llama", hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                    num_key_value_heads=3, vocab_size=49152, tie_word_embeddings=True, rope_theta=100000.0, rms_norm_eps=1e-5,
                    max_position_embeddings=8192),
    "qwen2.5-0.5b": dict(model_type="qwen2", hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                         num_attention_heads=14, num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True,
                         rope_theta=1000000.0, rms_norm_eps=1e-6, max_position_embeddings=32768),
    "qwen2.5-1.5b": dict(model_type="qwen2", hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                         num_attention_heads=12, num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True,
                         rope_theta=1000000.0, rms_norm_eps=1e-6, max_position_embeddings=32768),
    "qwen2.5-7b": dict(model_type="qwen2", hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
                       num_attention_heads=28, num_key_value_heads=4, vocab_size=152064, tie_word_embeddings=False,
                       rope_theta=1000000.0, rms_norm_eps=1e-6, max_position_embeddings=32768),
}
USUAL = {"arithmetic": (128, 11), "smollm2": (2, 256)}  # sequences of a step, tokens of each


def write_inputs(folder: pathlib.Path, shape: str, rows: int, length: int) -> tuple[pathlib.Path, pathlib.Path]:
    """A folder with the shape and a tokenizer whose tokens are the bytes; a file of so many texts."""
    data = folder / "data.jsonl"
    model = write_model(folder / "model", SHAPES[shape])
    # An end token behind; a sequence of n tokens has n - 1 rows.
    letters = random.Random(0)
    with data.open("w") as lines:
        for _ in range(rows):
            lines.write(json.dumps({"text": "".join(letters.choices(string.ascii_letters, k=length))}) + "\n")
    return model, data


def measure_ours(arguments, shape: str, ranks: int, batch: int, length: int, folder: pathlib.Path) -> dict:
    model, data = write_inputs(folder, shape, batch * (arguments.steps + 1), length)
    output = folder / "runs"
    command = [arguments.muster, "train", "-m", str(model), "model.init=random", f"data.path={data}", "--output", str(output),
               f"training.max_steps={arguments.steps}", "training.save_at_end=nothing", f"training.batch_size={batch}",
               f"training.sequence_length={length + 1}",
               f"--dtype={arguments.dtype}", "--device", arguments.device.split(":")[0], *arguments.settings]
    if ranks > 1:
        command += ["--strategy", arguments.strategy]
    command += ["--ranks", str(ranks)] if arguments.device == "cpu" else ["--num-gpus", str(ranks)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads // ranks)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    run = max(output.iterdir(), key=lambda entry: entry.stat().st_mtime)
    with (run / "metrics.csv").open() as table:
        rows = list(csv.DictReader(table))[arguments.steps // 3:]
    memory = [json.loads(line)["peak"] for line in (run / "events.jsonl").read_text().splitlines() if '"memory"' in line]
    return {"tokens": statistics.median(float(row["tokens"]) / float(row["seconds"]) for row in rows), "peak": max(memory)}


PEER = '''
import json, os, statistics, sys, time
import torch, transformers
shape, batch, length, steps, threads, device, dtype, ranks, stored, strategy, compiled = json.loads(sys.argv[1])
torch.set_num_threads(max(threads // ranks, 1))
if ranks > 1:
    torch.distributed.init_process_group("gloo" if device == "cpu" else "nccl")
config = transformers.AutoConfig.for_model(shape.pop("model_type"), **shape)
with torch.device(device):
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, stored)).train()
model.config.use_cache = False
wrapped = model
if ranks > 1 and strategy == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = init_device_mesh("cpu" if device == "cpu" else "cuda", (ranks,))
    narrow = dtype == "bfloat16" and stored == "float32"
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if narrow else MixedPrecisionPolicy()
    for block in model.model.layers:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
elif ranks > 1:
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
def loss_of(tokens):
    logits = wrapped(tokens[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
if compiled:
    loss_of = torch.compile(loss_of)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device != "cpu")
ids = torch.randint(0, config.vocab_size, (batch // ranks, length + 1), device=device)
times = []
for step in range(steps):
    start = time.perf_counter()
    optimizer.zero_grad()
    with torch.autocast("cuda" if device != "cpu" else "cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16" and stored == "float32"):
        loss = loss_of(ids)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()
    times.append(time.perf_counter() - start)
peak = torch.cuda.max_memory_allocated() if device != "cpu" else 0
if int(os.environ.get("RANK", 0)) == 0:
    print(json.dumps({"tokens": batch * length / statistics.median(times[steps // 3:]), "peak": peak}))
'''


def measure_peer(arguments, shape: str, ranks: int, batch: int, length: int, folder: pathlib.Path) -> dict:
    script = folder / "peer.py"
    script.write_text(PEER)
    settings = json.dumps([SHAPES[shape], batch, length, arguments.steps, arguments.threads, arguments.device, arguments.dtype, ranks,
                           arguments.peer_parameters, arguments.strategy, arguments.peer_compiled])
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)] if ranks > 1 else [sys.executable]
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(arguments.threads // ranks, 1)), "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run([*start, str(script), settings], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--muster", default="build/engine/apps/cli/muster")
    parser.add_argument("--shapes", nargs="+", default=["arithmetic", "smollm2"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--length", type=int)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--strategy", default="ddp", choices=["ddp", "fsdp"], help="of several ranks")
    parser.add_argument("--peer-parameters", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--peer-compiled", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without the peer")
    parser.add_argument("--settings", nargs="*", default=[], help="further settings of muster train")
    arguments = parser.parse_args()
    for shape in arguments.shapes:
        for ranks in arguments.ranks:
            batch, length = (arguments.batch, arguments.length) if arguments.batch else USUAL[shape]
            ours, peers = [], []
            for _ in range(arguments.rounds):  # in turn, so that a busy minute hits both
                with tempfile.TemporaryDirectory() as folder:
                    ours.append(measure_ours(arguments, shape, ranks, batch, length, pathlib.Path(folder)))
                    if not arguments.alone:
                        peers.append(measure_peer(arguments, shape, ranks, batch, length, pathlib.Path(folder)))
            best = max(ours, key=lambda entry: entry["tokens"])
            row = {"question": "training", "shape": shape, "ranks": ranks, "batch": batch, "length": length,
                   "strategy": arguments.strategy if ranks > 1 else "single", "device": arguments.device,
                   "dtype": arguments.dtype, "threads": arguments.threads,
                   "settings": arguments.settings, "muster": round(best["tokens"], 1),
                   "muster_peak": best["peak"]}
            if peers:
                peer = max(peers, key=lambda entry: entry["tokens"])
                row |= {"pytorch": round(peer["tokens"], 1), "ratio": round(best["tokens"] / peer["tokens"], 3),
                        "pytorch_peak": peer["peak"], "peer_parameters": arguments.peer_parameters,
                        "peer_compiled": arguments.peer_compiled}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
