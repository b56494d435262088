"""On a host with a GPU: muster generate in deterministic mode gives the same bytes on one rank, on two that share the GPU, split by
layers over two, in other batches and in another order; and takes the memory that its plan says.

    python scripts/gpu_generate_check.py --program build/engine/apps/cli/muster
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench/generate"))
from first_token_peer import make_model  # noqa: E402


def generate(program, model, prompts, output, *options):
    command = [program, "generate", *model, "-p", str(prompts), "-o", str(output), "--json", "--device", "cuda",
               "--max-new-tokens", "48", "--samples", "2", "--temperature", "0.8", "--top-p", "0.95", *options]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        print(f"FAILED {' '.join(options)}: {done.stderr[-600:]}")
        return None
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model").mkdir()
        model = make_model(folder / "model")
        prompts = folder / "prompts.txt"
        prompts.write_text("".join(f"the quick brown fox {'jumps ' * (i % 9)}{i}\n" for i in range(24)))
        same = ["system.deterministic=true"]
        first = None
        for options in (["--batch-size", "16"], ["--batch-size", "5"], ["--ranks", "2", "--batch-size", "8"],
                        ["--ranks", "2", "--device-map", "balanced", "--batch-size", "8"],
                        ["--ranks", "4", "--device-map", "balanced", "--batch-size", "8"]):
            summary = generate(program, model, prompts, folder / "out.jsonl", *same, *options)
            text = (folder / "out.jsonl").read_bytes() if summary else None
            first = first or text
            print("same bytes" if text and text == first else "OTHER BYTES", *options, flush=True)
            failures += not text or text != first
        for options in (["--batch-size", "64"], ["--ranks", "2", "--device-map", "balanced"]):
            planned = subprocess.run([program, "generate", *model, "-p", str(prompts), "--device", "cuda", "--dry-run",
                                      "--json", *options], text=True, capture_output=True)
            summary = generate(program, model, prompts, folder / "out.jsonl", *options)
            components = [rank["components"] for rank in json.loads(planned.stdout)["ranks"]]
            most = max(sum(parts.values()) - parts["allocator_slack"] - parts["cuda_context"] for parts in components)
            error = summary["peak_memory_bytes"] / most - 1 if summary else 1.0
            print(f"memory {100 * error:+.2f} % of the plan's {most} bytes", *options, flush=True)
            failures += abs(error) > 0.03
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
