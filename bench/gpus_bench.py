#!/usr/bin/env python3
"""How fast the GPUs of a machine are listed: muster beside nvidia-smi and torch, in one run.

    python3 bench/gpus_bench.py [--program build/engine/apps/cli/muster] [--repeats 30]

Prints one JSON line per way and a table; ratios are against `nvidia-smi -L` where there is one.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def wall_milliseconds(command, environment):
    """Wall time from fork to reaped child, output to a file that nobody reads."""
    with open(os.devnull, "w") as nowhere:
        start = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=nowhere, stderr=nowhere)
        process.wait()
        taken = 1000 * (time.perf_counter() - start)
    return taken if process.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/engine/apps/cli/muster"))
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}

    with tempfile.TemporaryDirectory() as folder:
        environment["MUSTER_LEASE_DIR"] = folder
        inventory = pathlib.Path(folder) / "eight.yaml"
        inventory.write_text("gpus: [{count: 8, name: NVIDIA A100-SXM4-40GB, memory_total: 40536MiB}]\n")
        ways = {
            "muster gpus --json, 8 GPUs from a file": ([arguments.program, "gpus", "--json", "--gpus-from", str(inventory)], arguments.repeats),
            "/bin/true": (["/bin/true"], arguments.repeats),
        }
        if shutil.which("nvidia-smi"):
            ways["muster gpus --json, real driver"] = ([arguments.program, "gpus", "--json"], arguments.repeats)
            ways["muster gpus -L, real driver"] = ([arguments.program, "gpus", "-L"], arguments.repeats)
            facts = "index,uuid,name,pci.bus_id,compute_cap,memory.total,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw,power.limit,clocks.sm,ecc.errors.uncorrected.volatile.total"
            ways["nvidia-smi, the facts of --json"] = (["nvidia-smi", "--query-gpu=" + facts, "--format=csv"], arguments.repeats)
            ways["nvidia-smi -L"] = (["nvidia-smi", "-L"], arguments.repeats)
        ways["python: torch.cuda.device_count()"] = ([sys.executable, "-c", "import torch; torch.cuda.device_count()"], 3)
        results = {}
        times_of = {name: [] for name in ways}
        for round_number in range(max(repeats for _, repeats in ways.values()) + 1):  # in turn, so that noise hits all alike
            for name, (command, repeats) in ways.items():
                if round_number > repeats:
                    continue
                time_taken = wall_milliseconds(command, environment)
                if time_taken is not None and round_number > 0:  # the first round warms the page cache
                    times_of[name].append(time_taken)
        for name, times in times_of.items():
            if not times:
                print(f"{name}: did not run", file=sys.stderr)
                continue
            repeats = len(times)
            results[name] = statistics.median(times)
            print(json.dumps({"bench": "gpus", "way": name, "median_ms": round(results[name], 2), "lowest_ms": round(min(times), 2), "repeats": repeats}))
    peer = results.get("nvidia-smi -L")
    print()
    for name, median in results.items():
        print(f"{median:10.2f} ms  {name}" + (f"  ({median / peer:.2f} of nvidia-smi -L)" if peer else ""))


if __name__ == "__main__":
    main()
