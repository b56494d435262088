"""No-op commands through the real queue on an inventory file of eight GPUs, beside xargs -P 8 and, where it is installed,
simple_gpu_scheduler (PyPI): jobs per second, what a command costs in a queue with a long past, and how long a GPU stands idle
between two jobs. One JSON line each.

    python bench/queue/queue_bench.py [--jobs 10000] [--program build/engine/apps/cli/muster]
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def report(question: str, **values):
    print(json.dumps({"bench": "queue", "question": question, **values}), flush=True)


class Queue:
    def __init__(self, program: str, folder: pathlib.Path):
        self.program = program
        (folder / "gpus.yaml").write_text("gpus:\n  - {count: 8, memory_total: 80GiB}\n")
        self.environment = {**os.environ, "MUSTER_STATE": str(folder / "state"), "MUSTER_LEASE_DIR": str(folder / "leases"),
                            "MUSTER_GPUS": str(folder / "gpus.yaml"), "MUSTER_QUEUE_IDLE": "200ms"}
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)

    def run(self, *words: str, text: str = "") -> tuple[str, float]:
        """What a command wrote, and how many seconds it took."""
        began = time.monotonic()
        done = subprocess.run([self.program, *words], input=text, text=True, env=self.environment, check=True, stdout=subprocess.PIPE)
        return done.stdout, time.monotonic() - began

    def command_milliseconds(self) -> dict:
        """The median of ten submissions, and of ten listings."""
        submit = [self.run("submit", "-n", "0", "--", "true")[1] for _ in range(10)]
        self.run("wait")
        listing = [self.run("queue")[1] for _ in range(10)]
        return {"submit_ms": round(1000 * statistics.median(submit), 1), "list_ms": round(1000 * statistics.median(listing), 1)}


def measure_rate(queue: Queue, jobs: int):
    report("commands of a new queue", **queue.command_milliseconds())
    _, submit = queue.run("submit", "-n", "1", text="true\n" * jobs)
    _, wait = queue.run("wait")
    listed, listing = queue.run("queue", "--all", "--json")
    assert [job["state"] for job in json.loads(listed)["jobs"]] == ["succeeded"] * (jobs + 10)
    report("no-op jobs on 8 GPUs", jobs=jobs, jobs_per_second=round(jobs / (submit + wait), 1), submit_seconds=round(submit, 3),
           list_all_seconds=round(listing, 3))
    time.sleep(1)  # the journal is shortened
    report("commands of a queue with a past", jobs=jobs, **queue.command_milliseconds())


def measure_peer(question: str, command: list[str], jobs: int):
    began = time.monotonic()
    subprocess.run(command, input="true\n" * jobs, text=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    report(question, jobs=jobs, jobs_per_second=round(jobs / (time.monotonic() - began), 1))


def measure_gap(queue: Queue, folder: pathlib.Path, jobs: int):
    """From the last instruction of one job to the first of the next, all on every GPU."""
    times = folder / "times"
    queue.run("submit", "-n", "8", text=f"date +%s%N >> {times}; sleep 0.05; date +%s%N >> {times}\n" * jobs)
    queue.run("wait")
    moments = [int(text) for text in times.read_text().split()]
    gaps = [(begin - end) / 1e6 for end, begin in zip(moments[1:-1:2], moments[2::2])]
    report("idle time of 8 GPUs between two jobs", jobs=jobs, median_ms=round(statistics.median(gaps), 2), most_ms=round(max(gaps), 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10000)
    parser.add_argument("--program", default="build/engine/apps/cli/muster")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        measure_rate(Queue(program, pathlib.Path(scratch)), options.jobs)
        time.sleep(1)  # the conductor ends
    measure_peer("xargs -P 8, without GPUs, leases, logs or files", ["xargs", "-P", "8", "-I", "{}", "/bin/sh", "-c", "{}"], options.jobs)
    if importlib.util.find_spec("simple_gpu_scheduler"):
        measure_peer("simple_gpu_scheduler, without leases, logs or files",
                     [sys.executable, "-m", "simple_gpu_scheduler.scheduler", "--gpus", *"01234567"], options.jobs)
    with tempfile.TemporaryDirectory() as scratch:
        measure_gap(Queue(program, pathlib.Path(scratch)), pathlib.Path(scratch), 40)
        time.sleep(1)


if __name__ == "__main__":
    main()
