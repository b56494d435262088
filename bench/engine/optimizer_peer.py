#!/usr/bin/env python3
"""A step of AdamW on the CPU beside torch's and bitsandbytes', in one run, and the ratio (above 1: ours is faster).

    python3 bench/engine/optimizer_peer.py [--program …/optimizer_bench] [--threads 2] [--elements N]

Needs torch and bitsandbytes. One parameter of N elements, by default 16 Mi, and the same rule; programs take turns
three times, and the fastest step of each counts.
"""

import argparse
import json
import pathlib
import subprocess
import time

import bitsandbytes
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULE = dict(lr=1e-3, weight_decay=0.01)
PEERS = {
    "adamw": ("torch.optim.AdamW, fused", lambda trained: torch.optim.AdamW(trained, fused=True, **RULE)),
    "adamw_8bit": ("bitsandbytes AdamW8bit", lambda trained: bitsandbytes.optim.AdamW8bit(trained, **RULE)),
}
ROUNDS, STEPS = 3, 8


def fastest_step(make, elements):
    torch.manual_seed(1)
    trained = torch.nn.Parameter(torch.randn(elements))
    trained.grad = 0.1 * torch.randn(elements)
    optimizer = make([trained])
    now = time.process_time if torch.get_num_threads() == 1 else time.perf_counter  # as optimizer_bench measures
    best = float("inf")
    for _ in range(STEPS):
        before = now()
        optimizer.step()
        best = min(best, now() - before)
    return best


def own(program, threads, elements):
    done = subprocess.run([program, str(threads), str(elements)], stdout=subprocess.PIPE, text=True, check=True)
    return {row["what"]: row for row in map(json.loads, done.stdout.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/engine/bench/engine/optimizer_bench"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--elements", type=int, default=1 << 24)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows, theirs = {}, {}
    for _ in range(ROUNDS):
        for what, row in own(options.program, options.threads, options.elements).items():
            if what not in rows or row["seconds"] < rows[what]["seconds"]:
                rows[what] = row
        for what, (_, make) in PEERS.items():
            theirs[what] = min(theirs.get(what, float("inf")), fastest_step(make, options.elements))
    for what, row in rows.items():
        print(json.dumps(row | {"peer": PEERS[what][0], "peer_seconds": round(theirs[what], 6),
                                "ratio": round(theirs[what] / row["seconds"], 2)}))


if __name__ == "__main__":
    main()
