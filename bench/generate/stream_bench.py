"""A file of a million prompts: the memory of the controlling process, and how many prompts a second it can move.

python bench/generate/stream_bench.py [--prompts 1000000] [--ranks 2]
The workers are scripts that answer at once, so that everything that is left is reading, handing out, ordering, writing.
One JSON line.
"""

import argparse
import json
import pathlib
import tempfile
import time

from runs import WORDS, cores, scripted


def peak_resident(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        generate = scripted(folder, given.prompts, wants=512)
        begun = time.monotonic()
        process = generate.start(*WORDS, "--ranks", str(given.ranks), stdout=None, stderr=None)
        peak = 0
        while process.poll() is None:
            peak = max(peak, peak_resident(process.pid))
            time.sleep(0.05)
        seconds = time.monotonic() - begun
        with open(generate.folder / "out.jsonl") as file:
            lines = sum(1 for _ in file)
    print(
        json.dumps(
            {
                "bench": "generate/stream", "prompts": given.prompts, "ranks": given.ranks, "cores": cores(),
                "exit_code": process.returncode, "rows": lines, "peak_mib": round(peak / 2**20, 1),
                "seconds": round(seconds, 1), "prompts_per_second": round(given.prompts / seconds),
            }  # fmt: skip
        )
    )


if __name__ == "__main__":
    main()
