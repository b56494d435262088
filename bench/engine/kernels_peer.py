#!/usr/bin/env python3
"""The kernels beside torch's, in one run: how fast, and the ratio (above 1: ours is faster).

    python3 bench/engine/kernels_peer.py [--program build/engine/bench/engine/kernels_bench] [--threads 2]

Needs torch. Each line of kernels_bench is repeated with torch's time for the same work.
"""

import argparse
import json
import pathlib
import signal
import subprocess
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def best_seconds(work):
    """As kernels_bench measures: with one thread the processor's time, otherwise the clock's."""
    now = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    work()
    best, start, runs = 1e9, now(), 0
    while runs < 500 and (runs < 5 or now() - start < 0.3):
        before = now()
        work()
        best = min(best, now() - before)
        runs += 1
    return best


def linear(row):
    dtype = torch.bfloat16 if row["what"].endswith("bfloat16") else torch.float32
    weight = torch.rand(row["outputs"], row["inputs"], dtype=dtype) - 0.5
    value = torch.rand(row["rows"], row["inputs"], dtype=dtype) - 0.5
    return lambda: torch.nn.functional.linear(value, weight)


def linear_input_gradient(row):
    weight = torch.rand(row["outputs"], row["inputs"]) - 0.5
    gradient = torch.rand(row["rows"], row["outputs"]) - 0.5
    return lambda: gradient @ weight


def linear_weight_gradient(row):
    value = torch.rand(row["rows"], row["inputs"]) - 0.5
    gradient = torch.rand(row["rows"], row["outputs"]) - 0.5
    return lambda: gradient.t() @ value


def attention_tensors(row):
    def tensor(heads, rows):
        return torch.rand(1, rows, heads, row["head_size"]).transpose(1, 2) - 0.5

    return tensor(row["heads"], row["rows"]), tensor(row["kv_heads"], row["keys"]), tensor(row["kv_heads"], row["keys"])


def attention(row):
    query, key, value = attention_tensors(row)
    causal = row["rows"] == row["keys"]
    return lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=True)


def attention_gradient(row):
    query, key, value = (tensor.requires_grad_() for tensor in attention_tensors(row))
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    gradient = torch.rand_like(output)
    return lambda: torch.autograd.grad(output, (query, key, value), gradient, retain_graph=True)


PEERS = {"linear": linear, "linear_bfloat16": linear, "linear_input_gradient": linear_input_gradient,
         "linear_weight_gradient": linear_weight_gradient, "attention": attention, "attention_gradient": attention_gradient}


def beside_torch(row, ours):
    if row["what"] not in PEERS:
        return row
    torch.manual_seed(0)
    ours.send_signal(signal.SIGSTOP)  # it would measure its next line meanwhile
    row["torch_seconds"] = best_seconds(PEERS[row["what"]](row))
    ours.send_signal(signal.SIGCONT)
    return row | {"ratio": round(row["torch_seconds"] / row["seconds"], 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "engine" / "bench" / "engine" / "kernels_bench"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="words of kernels_bench: only measurements whose name begins so")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with subprocess.Popen([options.program, str(options.threads), options.only], stdout=subprocess.PIPE, text=True) as ours:
        try:
            for line in ours.stdout:
                print(json.dumps(beside_torch(json.loads(line), ours)), flush=True)
        except BaseException:
            ours.kill()  # it may be stopped
            raise
    return ours.returncode


if __name__ == "__main__":
    raise SystemExit(main())
