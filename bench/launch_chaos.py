#!/usr/bin/env python3
"""Random kills of launchers, ranks and what ranks started: does anything survive, and is the right one blamed?

    python3 bench/launch_chaos.py [--program build/engine/apps/cli/muster] [--rounds 1000] [--seed 1] [--patience 2]

Each round starts a launch on leased GPUs of an inventory file, with ranks that have children and a daemon, and then kills, stops
or interrupts something. Afterwards: no process of the round is left after --patience seconds, no GPU is leased, and the cause that
muster names is the one that was killed first. Prints one JSON line, and one for each violation.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARK = "MUSTER_CHAOS_ROUND"

# A rank: a child that it waits for, a daemon in a session of its own, and a child that ignores SIGTERM. It ends as its
# first child does.
RANK = """
sleep 300 & child=$!
(setsid sleep 300 > /dev/null 2>&1 &)
sh -c 'trap "" TERM; while :; do sleep 300; done' > /dev/null 2>&1 &
echo "$RANK $$ $child" > "$1/rank-$RANK.part"; mv "$1/rank-$RANK.part" "$1/rank-$RANK"
wait $child; exit $?
"""


@dataclasses.dataclass
class Rank:
    rank: int
    pid: int
    child: int


class Round:
    """One launch with its own folder, leases and mark."""

    def __init__(self, program: str, folder: pathlib.Path, name: str, ranks: int, grace: int):
        self.folder = folder
        self.mark = name
        (folder / "state").mkdir()
        (folder / "gpus.yaml").write_text(f"gpus: [{{count: {ranks}, memory_total: 40GiB, memory_used: 0}}]\n")
        (folder / "rank.sh").write_text(RANK)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "CUDA_"))}
        self.environment.update(
            {MARK: name, "MUSTER_GPUS": str(folder / "gpus.yaml"), "MUSTER_LEASE_DIR": str(folder / "leases")}
        )
        self.program = program
        self.errors = open(folder / "errors", "w+")
        command = [program, "launch", "--num-gpus", str(ranks), "--log-dir", str(folder / "logs"), "--shutdown-timeout", str(grace)]
        command += ["--no-python", "/bin/sh", str(folder / "rank.sh"), str(folder / "state")]
        self.launcher = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors, start_new_session=True
        )
        self.count = ranks

    def ranks(self) -> list[Rank]:
        """All ranks, once each has said who it is."""
        deadline = time.monotonic() + 60
        found: dict[int, Rank] = {}
        while len(found) < self.count:
            for rank in range(self.count):
                file = self.folder / "state" / f"rank-{rank}"
                if rank not in found and file.exists():
                    found[rank] = Rank(*map(int, file.read_text().split()))
            if time.monotonic() > deadline or self.launcher.poll() is not None:
                raise RuntimeError(f"the ranks did not start: {(self.folder / 'errors').read_text()}")
            time.sleep(0.002)
        return [found[rank] for rank in range(self.count)]

    def survivors(self) -> list[int]:
        wanted = f"{MARK}={self.mark}".encode()
        alive = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if wanted not in file.read().split(b"\0"):
                        continue
                with open(f"/proc/{entry}/stat") as file:
                    if file.read().rpartition(")")[2].split()[0] not in "ZX":
                        alive.append(int(entry))
            except OSError:
                continue
        return alive

    def leases(self) -> list[int]:
        answer = subprocess.run([self.program, "gpus", "--json"], env=self.environment, capture_output=True, text=True, check=True)
        return [gpu["index"] for gpu in json.loads(answer.stdout)["gpus"] if gpu["lease"]]

    def named_cause(self):
        files = list((self.folder / "logs").glob("*/failure.json"))
        return json.loads(files[0].read_text())["root_cause"] if files else None


def wait_until_dead(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([handle], [], [], 30)
    os.close(handle)


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_rank(run, ranks, chance):
    """kill -9 of a rank; sometimes of a second one right after the first is dead."""
    first = chance.choice(ranks)
    send(first.pid, signal.SIGKILL)
    if chance.random() < 0.5:
        wait_until_dead(first.pid)
        for other in ranks:
            if other is not first:
                send(other.pid, signal.SIGKILL)
    return {"rank": first.rank, "signal": int(signal.SIGKILL)}


def interrupt_rank(run, ranks, chance):
    victim = chance.choice(ranks)
    send(victim.pid, signal.SIGINT)
    # A shell that waits leaves it to its child whether it ends: make sure.
    time.sleep(0.01)
    send(victim.child, signal.SIGINT)
    return {"rank": victim.rank}


def kill_grandchild(run, ranks, chance):
    victim = chance.choice(ranks)
    send(victim.child, signal.SIGKILL)
    return {"rank": victim.rank, "exit_code": 137}


def stop_rank_then_kill_another(run, ranks, chance):
    stopped, killed = chance.sample(ranks, 2)
    send(stopped.pid, signal.SIGSTOP)
    time.sleep(chance.random() * 0.02)
    send(killed.pid, signal.SIGKILL)
    return {"rank": killed.rank, "signal": int(signal.SIGKILL)}


def kill_launcher(run, ranks, chance):
    send(run.launcher.pid, signal.SIGKILL)
    return None


def stop_then_kill_launcher(run, ranks, chance):
    send(run.launcher.pid, signal.SIGSTOP)
    time.sleep(chance.random() * 0.05)
    if chance.random() < 0.5:
        send(chance.choice(ranks).pid, signal.SIGKILL)
    send(run.launcher.pid, signal.SIGKILL)
    return None


def stop_launcher_kill_rank_and_continue(run, ranks, chance):
    send(run.launcher.pid, signal.SIGSTOP)
    victim = chance.choice(ranks)
    send(victim.pid, signal.SIGKILL)
    time.sleep(chance.random() * 0.05)
    send(run.launcher.pid, signal.SIGCONT)
    return {"rank": victim.rank, "signal": int(signal.SIGKILL)}


def interrupt_launcher(run, ranks, chance):
    send(run.launcher.pid, chance.choice([signal.SIGINT, signal.SIGTERM]))
    return None


def kill_rank_then_interrupt_launcher(run, ranks, chance):
    victim = chance.choice(ranks)
    send(victim.pid, signal.SIGKILL)
    wait_until_dead(victim.pid)
    send(run.launcher.pid, signal.SIGINT)
    return {"rank": victim.rank, "signal": int(signal.SIGKILL)}


def kill_group_of_launcher(run, ranks, chance):
    try:
        os.killpg(run.launcher.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return None


EVENTS = [
    kill_rank,
    interrupt_rank,
    kill_grandchild,
    stop_rank_then_kill_another,
    kill_launcher,
    stop_then_kill_launcher,
    stop_launcher_kill_rank_and_continue,
    interrupt_launcher,
    kill_rank_then_interrupt_launcher,
    kill_group_of_launcher,
]


def violations_of(run: Round, event, chance: random.Random, patience: float) -> list[str]:
    expected = event(run, run.ranks(), chance)
    try:
        code = run.launcher.wait(timeout=30 + patience)
    except subprocess.TimeoutExpired:
        return ["the launcher does not end"]
    found = []
    deadline = time.monotonic() + patience
    survivors = run.survivors()
    while survivors and time.monotonic() < deadline:
        time.sleep(0.02)
        survivors = run.survivors()
    if survivors:
        found.append(f"processes left after {patience:g} s: {survivors}")
    if run.leases():
        found.append(f"GPUs still leased: {run.leases()}")
    if code == 0:
        found.append("the launcher says that all went well")
    if expected is not None:
        cause = run.named_cause()
        if cause is None:
            found.append(f"no cause was named, expected {expected}")
        elif any(cause.get(key) != value for key, value in expected.items()):
            found.append(f"blamed {({key: cause.get(key) for key in expected})}, expected {expected}")
    return found


def clean_up(run: Round) -> None:
    for pid in run.survivors():
        send(pid, signal.SIGKILL)
    run.launcher.kill()
    run.launcher.wait()
    run.errors.close()


def run_rounds(program: str, rounds: int, seed: int, patience: float = 2):
    """(how often each event came, violations)"""
    chance = random.Random(seed)
    counts = collections.Counter()
    violations = []
    for number in range(rounds):
        event = chance.choice(EVENTS)
        counts[event.__name__] += 1
        with tempfile.TemporaryDirectory(prefix="muster-chaos-") as folder:
            run = Round(program, pathlib.Path(folder), f"{os.getpid()}-{seed}-{number}", chance.randint(2, 4), chance.choice([0, 1]))
            try:
                found = violations_of(run, event, chance, patience)
                violations += [{"round": number, "event": event.__name__, "what": what, "said": (run.folder / "errors").read_text()[-2000:]} for what in found]
            finally:
                clean_up(run)
    return counts, violations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/engine/apps/cli/muster"))
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=2, help="seconds that what is left has to end")
    arguments = parser.parse_args()
    began = time.monotonic()
    counts, violations = run_rounds(arguments.program, arguments.rounds, arguments.seed, arguments.patience)
    for violation in violations:
        print(json.dumps(violation))
    summary = {"benchmark": "launch_chaos", "rounds": arguments.rounds, "seed": arguments.seed, "violations": len(violations)}
    print(json.dumps({**summary, "seconds": round(time.monotonic() - began), "events": dict(counts)}))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
