#!/usr/bin/env python3
"""How long a plan takes: `muster plan` as a whole command beside accelerate's planner, in one run.

    python3 bench/plan_bench.py [--program build/engine/apps/cli/muster] [--python PYTHON] [--repeats 30]

PYTHON is one that has transformers and accelerate; without it muster's times stand alone. Both start from config.json and
give a device map for the same GPUs; accelerate's time is told without and with its imports.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "spec" / "fixtures" / "models"
CASES = (("Llama-3.1-8B", 2, 24), ("Llama-3.1-70B", 4, 40), ("Llama-3.1-405B", 16, 80), ("Llama-3.1-405B", 8, 80))

PEER = """
import json, sys, time
start = time.perf_counter()
import torch
from accelerate import infer_auto_device_map
from accelerate.utils import get_balanced_memory
from transformers import AutoConfig, AutoModelForCausalLM
imported = time.perf_counter()
folder, gpus, gibibytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.bfloat16)
model.tie_weights()
limits = {number: gibibytes << 30 for number in range(gpus)} | {"cpu": 2048 << 30}
balanced = get_balanced_memory(model, limits, no_split_module_classes=model._no_split_modules)
infer_auto_device_map(model, balanced, no_split_module_classes=model._no_split_modules)
done = time.perf_counter()
print(json.dumps({"imports": imported - start, "planning": done - imported}))
"""


def milliseconds(command):
    start = time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    taken = 1000 * (time.perf_counter() - start)
    assert done.returncode in (0, 3), done.stderr.decode()
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/engine/apps/cli/muster"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    for name, gpus, gibibytes in CASES:
        with tempfile.TemporaryDirectory() as folder:
            inventory = pathlib.Path(folder) / "gpus.yaml"
            inventory.write_text(f"gpus: [{{memory_total: {gibibytes}GiB, count: {gpus}}}]\n")
            row = {"model": name, "gpus": f"{gpus} × {gibibytes} GiB"}
            for work in ("--infer", "--train"):
                command = [arguments.program, "plan", str(MODELS / name), work, "--json", "--gpus-from", str(inventory)]
                times = sorted(milliseconds(command) for _ in range(arguments.repeats))
                row[f"muster {work[2:]} ms"] = round(times[0], 2)
                row[f"muster {work[2:]} median ms"] = round(statistics.median(times), 2)
            peer = subprocess.run([arguments.python, "-c", PEER, str(MODELS / name), str(gpus), str(gibibytes)],
                                  capture_output=True, text=True)
            if peer.returncode == 0:
                seconds = json.loads(peer.stdout.splitlines()[-1])
                row["accelerate ms"] = round(1000 * seconds["planning"])
                row["accelerate with imports ms"] = round(1000 * sum(seconds.values()))
                row["times faster"] = round(1000 * seconds["planning"] / row["muster infer ms"])
            print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
