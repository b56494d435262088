"""Rounds of a queue, and of sweeps, in which things run short and processes are killed: is anything lost, run twice, run on a
GPU that another job has, or failed although it never began? One JSON line with what was seen; exit status 1 where any of that was.

    sudo python bench/queue/queue_chaos.py [--rounds 300] [--seed 1] [--program build/engine/apps/cli/muster] [--only queue|sweep]

Each round is a new state folder on a small tmpfs of its own, worked on by a user of its own. Meanwhile, at random: the disk is
filled; the conductor's limits of processes and open files are lowered; another user holds the gate of the lease table, or the lock
of a GPU; conductors, keepers, jobs, trials and the commands themselves are killed. It has to be run by root, for tmpfs, limits and
the second user.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

USER = 54321  # nobody else's: the limit of processes counts those of a user
LIMIT = 240  # seconds until a round counts as stuck

# A job leaves its evidence outside of the small disk. What is killed in the middle of it fails.
JOB = """exec 2>/dev/null; set -e; now=$(date +%s%N); echo begin $now $MUSTER_ATTEMPT ${CUDA_VISIBLE_DEVICES:--} >> EVIDENCE/$MUSTER_JOB
sleep 0.0$((MUSTER_JOB % 4)); now=$(date +%s%N); echo end $now $MUSTER_ATTEMPT >> EVIDENCE/$MUSTER_JOB"""
TRIAL = """exec 2>/dev/null; set -e; now=$(date +%s%N); echo begin $now - ${CUDA_VISIBLE_DEVICES:--} >> EVIDENCE/$MUSTER_TRIAL
sleep 0.02; now=$(date +%s%N); echo end $now - >> EVIDENCE/$MUSTER_TRIAL; echo '{"loss": 1}' > $MUSTER_TRIAL_FOLDER/result.json"""


class World:
    """One round: its folders, its user's environment, and what may be done to it."""

    def __init__(self, program: str, chance: random.Random):
        self.program, self.chance = program, chance
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-chaos-"))
        self.disk, self.evidence, self.leases = (self.folder / name for name in ("disk", "evidence", "leases"))
        for folder in (self.disk, self.evidence):
            folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=4m,uid={USER},gid={USER},mode=700", "none", str(self.disk)], check=True)
        for folder in (self.folder, self.evidence):
            os.chown(folder, USER, USER)
        (self.folder / "gpus.yaml").write_text("gpus:\n  - {count: 4, memory_total: 80GiB}\n")
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "MUSTER_STATE": str(self.disk / "state"),
                            "MUSTER_LEASE_DIR": str(self.leases), "MUSTER_GPUS": str(self.folder / "gpus.yaml"),
                            "MUSTER_QUEUE_IDLE": "300ms", "MUSTER_QUEUE_GRACE": "300ms", "MUSTER_QUEUE_KEPT": "20"}
        self.ended = threading.Event()
        self.count = collections.Counter()

    def close(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while self.processes():
            time.sleep(0.01)
        subprocess.run(["umount", "-l", str(self.disk)], check=True)
        shutil.rmtree(self.folder)

    def start(self, *words, **options) -> subprocess.Popen:
        return subprocess.Popen([self.program, *map(str, words)], env=self.environment, cwd=self.disk, user=USER, group=USER,
                                extra_groups=[], stdin=options.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **options)

    def processes(self) -> list[int]:
        """Of the round's user, none of whom is left over from another round."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if entry.stat().st_uid == USER and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                        found.append(int(entry.name))
        return found

    def named(self, *names: str) -> list[int]:
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() in names:
                    found.append(pid)
        return found

    # ---- shortages: each begins one, waits, and ends it ----

    def pause(self, least: float, most: float):
        self.ended.wait(self.chance.uniform(least, most))

    def fill_disk(self):
        filler = self.disk / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        self.pause(0.1, 1.5)
        filler.unlink()

    def lower(self, limit: int, value: int):
        victims = self.named("muster-queue") or self.named("muster")
        before = {}
        for pid in victims:
            with contextlib.suppress(OSError):
                before[pid] = resource.prlimit(pid, limit, (value, resource.prlimit(pid, limit)[1]))
        self.pause(0.1, 1.0)
        for pid, was in before.items():
            with contextlib.suppress(OSError):
                resource.prlimit(pid, limit, was)

    def too_few_processes(self):
        self.lower(resource.RLIMIT_NPROC, max(1, len(self.processes()) - self.chance.choice([0, 0, 2])))

    def too_few_files(self):
        self.lower(resource.RLIMIT_NOFILE, self.chance.choice([8, 10, 12, 14, 20]))

    def hold_file(self, file: pathlib.Path):
        if file.exists():
            holder = subprocess.Popen(["flock", "-s", str(file), "sleep", "60"], start_new_session=True)
            self.pause(0.2, 2.0)
            os.killpg(holder.pid, signal.SIGKILL)
            holder.wait()

    def hold_gate(self):
        self.hold_file(self.leases / "gate/lock")

    def hold_gpu(self):
        locks = sorted(path for path in self.leases.rglob("GPU-*") if path.is_file()) if self.leases.exists() else []
        if locks:
            self.hold_file(self.chance.choice(locks))

    # ---- kills ----

    def kill(self, pids: list[int], kind: str):
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.chance.choice(pids), signal.SIGKILL)
                self.count[kind] += 1

    def kill_conductor(self):
        self.kill(self.named("muster-queue"), "conductors killed")

    def kill_keeper(self):
        self.kill(self.named("muster-job", "muster-trial"), "keepers killed")

    def kill_job(self):
        self.kill(self.named("sh", "sleep", "date"), "jobs killed")

    def disturb(self, what: list):
        while not self.ended.wait(self.chance.uniform(0.0, 0.15)):
            one = self.chance.choice(what)
            if not one.__name__.startswith("kill"):
                self.count[one.__name__] += 1
            one()


SHORTAGES = ["fill_disk", "too_few_processes", "too_few_files", "hold_gate", "hold_gpu"]
KILLS = ["kill_conductor", "kill_keeper", "kill_job"]


@contextlib.contextmanager
def disturbed(world: World, names: list[str]):
    threads = [threading.Thread(target=world.disturb, args=([getattr(world, name)],)) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        world.ended.set()
        for thread in threads:
            thread.join()


def spans_of(world: World) -> dict[str, list[dict]]:
    """By job or trial: each attempt that began, with its GPUs."""
    found = {}
    for file in world.evidence.iterdir():
        attempts = found[file.name] = []
        for line in file.read_text().splitlines():
            word, moment, attempt, *gpus = line.split()
            if word == "begin":
                attempts.append({"begin": int(moment), "end": int(moment), "attempt": attempt, "gpus": gpus[0].split(",")})
            else:
                attempts[-1]["end"] = int(moment)
    return found


def overlaps(spans: dict[str, list[dict]]) -> list[str]:
    by_gpu = collections.defaultdict(list)
    for name, attempts in spans.items():
        for one in attempts:
            for gpu in one["gpus"]:
                if gpu != "-":
                    by_gpu[gpu].append((one["begin"], one["end"], name))
    wrong = []
    for gpu, of_gpu in by_gpu.items():
        of_gpu.sort()
        wrong += [f"overlapped: {one[2]} and {other[2]} on GPU {gpu}" for one, other in zip(of_gpu, of_gpu[1:]) if one[1] > other[0]]
    return wrong


def submit(world: World, words: list, line: str, jobs: int, names: list[str]) -> list[str]:
    """Hands a batch in, again and again until it is accepted. A submit that failed or was killed may not have left a part of it."""
    for _ in range(500):
        done = world.start("submit", *words, stdin=subprocess.PIPE)
        killed = "kill_job" in names and world.chance.random() < 0.1
        if killed:
            threading.Timer(world.chance.uniform(0, 0.03), done.kill).start()
        with contextlib.suppress(BrokenPipeError):
            done.stdin.write((line.replace("\n", "; ") + "\n") * jobs)
            done.stdin.close()
        output = done.stdout.read()
        errors = done.stderr.read()
        status = done.wait()
        if killed:
            world.count["submits killed"] += 1
        if status == 0:
            assert len(output.split()) == jobs, output
            return output.split()
        assert killed or not output, f"a submit that failed ({status}) printed ids: {output} {errors}"
        world.count["submits refused"] += 0 if killed else 1
        time.sleep(0.05)
    raise AssertionError(f"nothing can be submitted: {errors}")


def queue_round(world: World, chance: random.Random) -> list[str]:
    names = chance.sample(SHORTAGES, chance.randint(1, 3)) + chance.sample(KILLS, chance.choice([0, 0, 1, 2, 3]))
    kills = [name for name in names if name in KILLS]
    line = JOB.replace("EVIDENCE", str(world.evidence))
    wanted, batches = {}, []
    with disturbed(world, names):
        for _ in range(chance.randint(2, 4)):
            jobs = chance.randint(2, 8)
            words = ["-n", chance.choice([0, 1, 1, 2]), "--no-grid", "--retries", chance.choice([0, 0, 1000])]
            if batches and chance.random() < 0.4:
                words += [chance.choice(["--after", "--after-ok"]), chance.choice(batches)[0]]
            ids = submit(world, words, line, jobs, names)
            batches.append(ids)
            wanted |= dict.fromkeys(ids, words)
        world.pause(0.3, 1.5)
    return check_queue(world, wanted, kills)


def listed(world: World) -> dict[str, dict]:
    done = world.start("queue", "--all", "--json")
    output, errors = done.communicate(timeout=LIMIT)
    assert done.returncode == 0, errors
    return {job["id"]: job for job in json.loads(output)["jobs"]}


def check_queue(world: World, wanted: dict, kills: list[str]) -> list[str]:
    done = world.start("wait")
    try:
        _, errors = done.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        done.kill()
        log = (world.disk / "state/queue/conductor.log").read_text()
        return [f"stuck: {json.dumps([job for job in listed(world).values() if job['state'] in ('ready', 'running', 'submitted')])} {log[-2000:]}"]
    jobs, spans, wrong = listed(world), spans_of(world), []
    if "cannot be" in errors or "internal" in errors:
        wrong.append(f"wait said: {errors}")
    for job, words in wanted.items():
        if job not in jobs:
            wrong.append(f"lost: {job}")
            continue
        state, attempts = jobs[job]["state"], [one["attempt"] for one in spans.get(job, [])]
        began = bool(attempts) or any("begun" in file.read_text() for file in (world.disk / "state/queue/jobs" / job).glob("attempt-*"))
        if state not in ("succeeded", "failed", "skipped"):
            wrong.append(f"lost: {job} is {state}")
        if state == "failed" and (not began or "could not be started" in jobs[job]["reason"]):
            wrong.append(f"failed without having begun: {jobs[job]}")
        if state == "failed" and "1000" in map(str, words):
            wrong.append(f"failed with retries left: {jobs[job]}")
        if state == "succeeded" and not attempts:
            wrong.append(f"lost: {job} succeeded and never ran")
        if state == "skipped" and "--after-ok" not in words:
            wrong.append(f"skipped: {jobs[job]}")
        if state == "failed" and not kills:
            world.count["jobs that began and failed without a kill"] += 1
        if len(set(attempts)) != len(attempts):
            wrong.append(f"doubled: {job} ran attempts {attempts}")
        if len(attempts) > jobs[job]["attempts"]:
            wrong.append(f"doubled: {job} ran {attempts}, and {jobs[job]['attempts']} are known")
        world.count[f"jobs {state}"] += 1
    # Killed submits may have been accepted, as a whole.
    world.count["jobs of killed submits"] += len(jobs.keys() - wanted.keys())
    return wrong + overlaps(spans)


def sweep_round(world: World, chance: random.Random) -> list[str]:
    trials = chance.randint(4, 10)
    script = world.folder / "trial.sh"
    script.write_text(TRIAL.replace("EVIDENCE", str(world.evidence)))
    spec = world.folder / "sweep.yaml"
    spec.write_text(json.dumps({"metric": "loss", "goal": "minimize", "method": "random", "seed": 1,
                                "parameters": {"x": {"distribution": "uniform", "min": 0, "max": 1}},
                                "limits": {"trials": trials, "consecutive_failures": 1000},
                                "command": ["sh", str(script)]}))
    names = chance.sample(["fill_disk", "too_few_processes", "too_few_files", "hold_gate"], chance.randint(1, 3))
    names += chance.sample(["kill_keeper", "kill_job"], chance.choice([0, 0, 1, 2]))
    kills = [name for name in names if name in KILLS]
    end = time.monotonic() + LIMIT
    with disturbed(world, names):
        threading.Timer(3, world.ended.set).start()
        while True:
            done = world.start("sweep", spec, "--num-gpus", 2, "--output", "sweeps", "--wait", "1m")
            if chance.random() < 0.3:  # a sweep that is killed goes on when it is begun again; three times at most for each trial
                with contextlib.suppress(subprocess.TimeoutExpired):
                    done.communicate(timeout=chance.uniform(0.1, 0.6))
                if done.poll() is None:
                    done.kill()
                    world.count["sweeps killed"] += 1
            output, errors = done.communicate(timeout=LIMIT)
            if len({one["trial"] for one in observations_of(world)}) >= trials or time.monotonic() > end:
                break
            time.sleep(0.1)
    return check_sweep(world, trials, kills, output + errors)


def observations_of(world: World) -> list[dict]:
    file = world.disk / "sweeps/sweep/observations.jsonl"
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]] if file.exists() else []


def check_sweep(world: World, trials: int, kills: list[str], said: str) -> list[str]:
    observations = observations_of(world)
    spans, wrong = spans_of(world), []
    names = [one["trial"] for one in observations]
    if len(set(names)) != trials:
        wrong.append(f"lost: {sorted(set(names))} of {trials} trials: {said}")
    for one in observations:
        failed = one.get("score") is None
        world.count["trials failed" if failed else "trials succeeded"] += 1
        # Not even its first word may have come through where it was short of files itself: then its exit status says that it began.
        if failed and one["trial"] not in spans and "cannot" in one["reason"]:
            wrong.append(f"failed without having begun: {one}")
        if failed and not kills:
            world.count["trials that began and failed without a kill"] += 1
    return wrong + overlaps(spans)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default="build/engine/apps/cli/muster")
    parser.add_argument("--only", choices=["queue", "sweep"])
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("it has to be run by root: for tmpfs, limits and a second user")
    program = str(pathlib.Path(options.program).resolve())
    total, wrong = collections.Counter(), []
    began = time.monotonic()
    for number in range(options.rounds):
        chance = random.Random(f"{options.seed} {number}")
        kind = options.only or ("sweep" if number % 5 == 4 else "queue")
        world = World(program, chance)
        try:
            found = (sweep_round if kind == "sweep" else queue_round)(world, chance)
        except AssertionError as error:
            found = [str(error)]
        finally:
            total += world.count
            world.close()
        total[f"{kind} rounds"] += 1
        wrong += [f"round {number}: {what}" for what in found]
        for what in found:
            print(f"round {number}: {what}", file=sys.stderr, flush=True)
    print(json.dumps({"bench": "queue chaos", "seed": options.seed, "rounds": options.rounds, "wrong": len(wrong), "examples": wrong[:5],
                      "seconds": round(time.monotonic() - began), **dict(sorted(total.items()))}), flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
