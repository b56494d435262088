"""A step of DPO beside an eager PyTorch loop with transformers' model: the same shape, pairs and lengths, in one run.

    python bench/train/preference_peer.py [--muster build/engine/apps/cli/muster] [--shapes qwen2.5-0.5b qwen2.5-1.5b] [--device cuda]
        [--pairs 8] [--length 1024] [--steps 12] [--state bfloat16|float32]

The peer computes both answers of all pairs in one pass of the policy, and one of a frozen copy of it, as DPO's trainers do; muster scores
its reference once, before the first step, which is not in a step's time and is told apart. Prints one JSON line for each shape: pairs
and tokens a second (medians of steps), the peak memory of both, muster's plan, and the ratio.
"""

import argparse
import csv
import json
import pathlib
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time

from random_model import write_model
from train_peer import SHAPES


def texts(count, length):
    letters = random.Random(1)
    return ["".join(letters.choices(string.ascii_letters, k=length)) for _ in range(count)]


def of_muster(given, shape, folder):
    model, data, output = write_model(folder / "model", SHAPES[shape]), folder / "pairs.jsonl", folder / "runs"
    prompt = given.length // 4
    sides = texts(2 * given.pairs * (given.steps + 1), given.length - prompt - 1)  # the end-of-sequence token is added
    with data.open("w") as lines:
        for chosen, rejected, words in zip(sides[::2], sides[1::2], texts(len(sides) // 2, prompt)):
            lines.write(json.dumps({"prompt": words, "chosen": chosen, "rejected": rejected}) + "\n")
    words = [given.muster, "train", "-m", str(model), "model.init=random", f"data.path={data}", "training.algorithm=dpo",
             f"training.max_steps={given.steps}", f"training.batch_size={given.pairs}", f"training.sequence_length={given.length}",
             "training.save_at_end=nothing", "--dtype", "bfloat16", "--device", given.device]
    if given.state == "bfloat16":
        words.append("training.mixed_precision=no")
    planned = subprocess.run([*words, "--dry-run", "--json"], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    parts = json.loads(planned.stdout)["ranks"][0]["components"]
    expected = sum(parts.values()) - parts.get("allocator_slack", 0) - parts.get("cuda_context", 0)
    start = time.perf_counter()
    subprocess.run([*words, "--output", str(output)], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
    whole = time.perf_counter() - start
    (run,) = output.iterdir()
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[given.steps // 3:]
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return {"seconds": statistics.median(float(row["seconds"]) for row in rows), "first_loss": float(rows[0]["loss"]), "whole_seconds": whole,
            "peak": max((event["peak"] for event in events if "peak" in event), default=0), "planned": expected}


def be_peer(shape, pairs, length, steps, device, state):
    import copy

    import torch
    import transformers

    settings = dict(SHAPES[shape])
    config = transformers.AutoConfig.for_model(settings.pop("model_type"), **settings)
    with torch.device(device):
        policy = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, state)).train()
    policy.config.use_cache = False
    reference = copy.deepcopy(policy).eval().to(torch.bfloat16)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6, fused=device != "cpu")
    ids = torch.randint(0, 256, (2 * pairs, length), device=device)
    answer = length - length // 4

    def sums(model):
        logits = model(ids[:, :-1]).logits[:, -answer:]
        chosen = torch.gather(logits.float().log_softmax(-1), 2, ids[:, -answer:, None]).squeeze(2)
        return chosen.sum(1)

    times = []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cuda" if device != "cpu" else "cpu", dtype=torch.bfloat16, enabled=state == "float32"):
            with torch.no_grad():
                before = sums(reference)
            ratios = sums(policy) - before
        loss = -torch.nn.functional.logsigmoid(0.1 * (ratios[:pairs] - ratios[pairs:])).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if device != "cpu" else 0
    print(json.dumps({"seconds": statistics.median(times[steps // 3:]), "peak": peak}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", default="build/engine/apps/cli/muster")
    parser.add_argument("--shapes", nargs="+", default=["qwen2.5-0.5b", "qwen2.5-1.5b"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--state", default="bfloat16", choices=["float32", "bfloat16"])
    for name, usual in (("pairs", 8), ("length", 1024), ("steps", 12)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    for shape in given.shapes:
        with tempfile.TemporaryDirectory() as folder:
            ours = of_muster(given, shape, pathlib.Path(folder))
        words = [sys.executable, __file__, "--peer", shape, str(given.pairs), str(given.length), str(given.steps), given.device, given.state]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
        row = {"question": "preferences", "shape": shape, "device": given.device, "state": given.state, "pairs": given.pairs,
               "length": given.length, "muster_seconds": ours["seconds"], "muster_pairs": given.pairs / ours["seconds"],
               "muster_tokens": 2 * given.pairs * given.length / ours["seconds"], "muster_peak": ours["peak"], "planned": ours["planned"],
               "muster_whole_seconds": ours["whole_seconds"], "first_loss": ours["first_loss"]}
        if done.returncode == 0:
            peer = json.loads(done.stdout.splitlines()[-1])
            row |= {"pytorch_pairs": given.pairs / peer["seconds"], "pytorch_peak": peer["peak"], "ratio": peer["seconds"] / ours["seconds"]}
        else:
            row["pytorch_failed"] = done.stderr[-300:]
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        be_peer(sys.argv[2], *map(int, sys.argv[3:6]), *sys.argv[6:8])
    else:
        main()
