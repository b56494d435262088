"""What muster top costs while it watches 200 jobs and 8 GPUs: CPU seconds over wall seconds, of it and of the process that
looks at the GPUs. One JSON line.

usage: bench/top_bench.py [--program build/control/apps/cli/muster] [--seconds 30] [--driver] [--last]

192 jobs wait; 8 run, one on each GPU, and write ten lines of progress a second each. The screen is a terminal of 120 × 40 cells, of which
everything is read. Without --driver the GPUs are those of an inventory file, read anew at each look.
"""

import argparse
import fcntl
import json
import os
import pathlib
import pty
import select
import struct
import subprocess
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GPUS = "gpus:\n  - {count: 8, name: GPU of a bench, memory_total: 80GiB, memory_used: 20GiB, utilization: 37, temperature: 51, power: 300, power_limit: 700}\n"
STEPS = 'i=0; while true; do i=$((i+1)); echo "step $i/100000  loss 0.5  lr 1e-3  norm 1  5,210 tokens/s  58 s left"; sleep 0.1; done # {1..8}\n'


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def precise_cpu_seconds(pid: int) -> float:
    """From the scheduler's own clock, where it tells: ticks are as long as a whole look."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return cpu_seconds(pid)


def children(pid: int) -> list[int]:
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "build/control/apps/cli/muster"))
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--driver", action="store_true", help="the GPUs of this machine")
    parser.add_argument("--last", action="store_true", help="with the last waiting job selected, instead of the first that runs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "gpus.yaml").write_text(GPUS)
        environment = {**os.environ, "MUSTER_STATE": str(folder / "state"), "MUSTER_LEASE_DIR": str(folder / "leases"),
                       "MUSTER_GPUS": str(folder / "gpus.yaml"), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}

        def muster(*words, text=""):
            return subprocess.run([arguments.program, *words], env=environment, cwd=folder, input=text, text=True, check=True, capture_output=True).stdout

        jobs = muster("submit", "-n", "1", text=STEPS).split()
        jobs += muster("submit", "-n", "8", text="sleep 1000 # {1..192}\n").split()
        try:
            if arguments.driver:
                del environment["MUSTER_GPUS"]
            print(json.dumps(measure(arguments, environment, folder)))
        finally:
            muster("stop", *jobs)
            subprocess.run([arguments.program, "wait"], env=environment, cwd=folder, capture_output=True)


def measure(arguments, environment, folder) -> dict:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(arguments.program, [arguments.program, "top"], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    written = 0

    def read_for(seconds: float):
        nonlocal written
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                written += len(os.read(terminal, 65536))

    if arguments.last:
        os.write(terminal, b"\033[F")  # the end: a job that waits for all others
    read_for(3)
    watched = {"top": pid, "gpus": children(pid)[0]}
    before = {part: precise_cpu_seconds(of) for part, of in watched.items()}
    ticks, written, begin = sum(map(cpu_seconds, watched.values())), 0, time.monotonic()
    read_for(arguments.seconds)
    wall = time.monotonic() - begin
    used = {part: precise_cpu_seconds(of) - before[part] for part, of in watched.items()}
    ticks = sum(map(cpu_seconds, watched.values())) - ticks
    os.write(terminal, b"q")
    os.waitpid(pid, 0)
    return {"jobs": 200, "gpus": "driver" if arguments.driver else 8, "seconds": round(wall, 1),
            "percent_of_a_core": round(100 * sum(used.values()) / wall, 3),
            "percent_of_a_core_top": round(100 * used["top"] / wall, 3), "percent_of_a_core_gpus": round(100 * used["gpus"] / wall, 3),
            "percent_of_a_core_by_ticks": round(100 * ticks / wall, 3), "bytes_per_second_to_the_terminal": round(written / wall)}


main()
