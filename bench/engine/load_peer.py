"""Loading a checkpoint of 1 GB, every byte touched, beside safetensors.torch.load_file, in turn, on the same threads.

Twice: where the tensors lie, with a sum over each; and copied into memory of one's own (the peer: clone() of each).
Usage: load_peer.py LOAD_BENCH [--rounds N] [--megabytes M] [--threads T] [--file FILE]. One JSON line a way with the
medians and their ratio (below 1: muster is faster).
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PEER = """
import sys, time
import torch
from safetensors.torch import load_file
torch.set_num_threads(int(sys.argv[2]))
torch.ones(1 << 20).sum()
start = time.perf_counter()
tensors = load_file(sys.argv[1])
if sys.argv[3] == "view":
    for tensor in tensors.values():
        tensor.sum()
else:
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
print(time.perf_counter() - start)
"""


def make_file(path: pathlib.Path, megabytes: int):
    """A model's usual sizes: an embedding, then blocks of seven matrices."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    tensors, left = {"embed": torch.randn(32000, 1024).to(torch.bfloat16)}, megabytes * 10**6 - 32000 * 1024 * 2
    number = 0
    while left > 0:
        for name, size in [("q", (1024, 1024)), ("up", (4096, 1024)), ("gate", (4096, 1024)), ("down", (1024, 4096)), ("norm", (1024,))]:
            tensors[f"{number}.{name}"] = torch.randn(size).to(torch.bfloat16)
            left -= tensors[f"{number}.{name}"].numel() * 2
        number += 1
    save_file(tensors, path)


def compare(load_bench: str, file: pathlib.Path, way: str, rounds: int, threads: int) -> dict:
    ours, theirs, resident = [], [], []
    for _ in range(rounds):
        line = subprocess.run(
            [load_bench, file, "--threads", str(threads), "--way", way], check=True, capture_output=True, text=True
        ).stdout
        ours.append(json.loads(line)["seconds"])
        resident.append(json.loads(line)["resident_over_model"])
        peer = subprocess.run(
            [sys.executable, "-c", PEER, file, str(threads), way], check=True, capture_output=True, text=True
        ).stdout
        theirs.append(float(peer))
    return {
        "bench": "load_peer",
        "way": way,
        "bytes": file.stat().st_size,
        "threads": threads,
        "rounds": rounds,
        "muster_seconds": round(statistics.median(ours), 4),
        "safetensors_seconds": round(statistics.median(theirs), 4),
        "ratio": round(statistics.median(ours) / statistics.median(theirs), 3),
        "ratio_of_best": round(min(ours) / min(theirs), 3),
        "resident_over_model": max(resident),
    }


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("load_bench")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--megabytes", type=int, default=1000)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--file", type=pathlib.Path)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = given.file or pathlib.Path(folder) / "model.safetensors"
        if not file.exists():
            make_file(file, given.megabytes)
        for way in ("view", "read"):
            print(json.dumps(compare(given.load_bench, file, way, given.rounds, given.threads)))


if __name__ == "__main__":
    main()
