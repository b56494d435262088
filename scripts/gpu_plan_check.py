"""On a host with a GPU: the micro-batch that `muster plan` calls the largest that fits trains, under a limit, without running out.

    python3 scripts/gpu_plan_check.py build/control/apps/cli/muster
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "memory"))

import torch
from measure import run_cell, train
from shapes import shapes
from transformers import AutoConfig

program = sys.argv[1]
limit = 24 << 30
total = torch.cuda.mem_get_info()[1]
failed = 0


def plan(folder, *options):
    command = [program, "plan", str(folder), "--json", "--max-memory", f"0={limit}", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


for name, sequence, options, dtype, checkpointing in (
        ("qwen2-0.5b", 1024, ["--dtype", "bf16"], "bfloat16", False),
        ("llama-3.2-1b", 2048, ["--dtype", "bf16", "--checkpointing"], "bfloat16", True),
        ("gpt2", 512, [], "autocast", False)):
    with tempfile.TemporaryDirectory() as folder:
        AutoConfig.for_model(**shapes[name]).save_pretrained(folder)
        made = plan(folder, "--train", "--seq-len", str(sequence), *options)
        # A process's own share of the limit: the plan counts its context, torch's fraction does not.
        rank = made["ranks"][0]
        share = (limit - rank["components"]["cuda_context"]) / total
        torch.cuda.set_per_process_memory_fraction(share)
        result = run_cell(train(name, dtype, "adamw", checkpointing, made["micro_batch"], sequence))
        measured = result.get("peak", 0)
        verdict = "trains" if measured else "RUNS OUT OF MEMORY"
        failed += not measured
        error = 100 * (rank["peak_bytes"] / measured - 1) if measured else float("nan")
        print(f"{name}, {sequence} tokens, {limit >> 30} GiB: micro-batch {made['micro_batch']} {verdict}; "
              f"planned {rank['peak_bytes'] / 1e9:.2f} GB, measured {measured / 1e9:.2f} GB ({error:+.1f} %)")
        torch.cuda.set_per_process_memory_fraction(1.0)
sys.exit(1 if failed else 0)
