"""muster train as a user runs it, in a folder of its own: started, killed, resumed, and looked at."""

import contextlib
import csv
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))
COMPARED = ("step", "loss", "learning_rate", "gradient_norm", "eval_loss", "exact_match")
RESULTS = ("status", "steps", "final_loss", "eval_loss", "exact_match")
LEFTOVERS = (".partial", ".part-", ".removed", ".next")

# Two-digit sums on the built-in model: 20 ms a step.
JOB = {"training.max_steps": 40, "training.batch_size": 12, "training.save_steps": 5, "training.save_total_limit": 2,
       "training.warmup_steps": 5, "data.held_out": 0, "distributed.device": "cpu", "distributed.ranks": 2}

# A short one that evaluates, also after its last step: one-digit sums, some of them held out.
EVALUATED = {"training.max_steps": 12, "training.save_steps": 4, "training.eval_steps": 4, "data.digits": 1, "data.held_out": 0.15}

# Learning from rewards, with a checkpoint in the middle of every round.
REWARDED = EVALUATED | {"training.algorithm": "grpo", "model.path": "builtin:llama-0.6m-halfway", "data.path": "builtin:arithmetic",
                        "training.num_rollouts_per_iteration": 48,
                        "training.batch_size": 24, "grpo.num_generations": 8, "grpo.num_iterations": 2, "training.save_steps": 3}

# The same with two models, the second of which learns values.
WITH_CRITIC = {"training.algorithm": "ppo", "ppo.critic": REWARDED["model.path"], "ppo.critic_learning_rate": 1e-3, "ppo.num_ppo_epochs": 2}


def await_(condition, what: str, patience: float = 600):
    """What condition() gives when it gives something."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.005)
    raise AssertionError(f"{what}: not within {patience} s")


class Run:
    """A run's folder."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def rows(self) -> list[tuple[str, ...]]:
        """The numbers of every step, as they are written."""
        with open(self.folder / "metrics.csv", newline="") as file:
            return [tuple(row[name] for name in COMPARED) for row in csv.DictReader(file)]

    def step(self) -> int:
        """The last one that was written down."""
        try:
            lines = (self.folder / "metrics.csv").read_bytes().split(b"\n")
            return int(lines[-2].split(b",")[0])
        except (OSError, ValueError, IndexError):
            return 0

    def record(self) -> dict:
        return json.loads((self.folder / "run.json").read_text())

    def result(self) -> dict:
        return json.loads((self.folder / "result.json").read_text())

    def events(self, *names: str) -> list[dict]:
        found = [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]
        return [event for event in found if not names or event["event"] in names]

    def checkpoints(self) -> list[int]:
        names = [entry.name for entry in (self.folder / "checkpoints").glob("step-*")]
        return sorted(int(name.removeprefix("step-")) for name in names if "." not in name)

    def checkpoint(self, step: int) -> pathlib.Path:
        return self.folder / f"checkpoints/step-{step}"

    def weights(self) -> bytes:
        """Of the model, and of its critic where it has one of its own."""
        return b"".join(path.read_bytes() for path in (self.folder / name / "model.safetensors" for name in ("model", "critic")) if path.exists())

    def rollouts(self) -> dict[str, str]:
        """The answers of each round, where any were sampled."""
        return {path.name: path.read_text() for path in (self.folder / "rollouts").glob("*.jsonl")}

    def leftovers(self) -> list[str]:
        return [str(path) for path in self.folder.rglob("*") if any(part in path.name for part in LEFTOVERS)]

    def assert_equal(self, whole: "Run"):
        """Curve, evaluations, weights and result, bit for bit, each step once; nothing half-made."""
        assert self.rows() == whole.rows()
        assert self.weights() == whole.weights()
        assert self.rollouts() == whole.rollouts()
        mine, others = self.result(), whole.result()
        assert mine["status"] == "done" and {key: mine[key] for key in RESULTS} == {key: others[key] for key in RESULTS}
        assert self.leftovers() == [], self.leftovers()
        assert (self.folder / "loss.svg").exists(), sorted(path.name for path in self.folder.iterdir())


class Training:
    """Runs `muster train` in a folder, on CPU ranks."""

    def __init__(self, folder: pathlib.Path, cache: pathlib.Path, **job: object):
        self.folder = folder
        self.job = JOB | {key.replace("__", "."): value for key, value in job.items()}
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("MUSTER_", "CUDA_", "HF_"))}
        self.environment |= {"MUSTER_LEASE_DIR": str(folder / "leases"), "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}

    def words(self, *arguments: str) -> list[str]:
        given = {word.split("=")[0] for word in arguments if "=" in word}
        return [str(PROGRAM), "train", *(f"{key}={value}" for key, value in self.job.items() if key not in given), *arguments]

    def start(self, *arguments: str) -> subprocess.Popen:
        return subprocess.Popen(self.words(*arguments), env=self.environment, cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess:
        return finish(self.start(*arguments))

    def runs(self) -> list[Run]:
        """Oldest first."""
        found = [path for path in (self.folder / "runs").glob("[!.]*") if (path / "run.json").exists()]
        return [Run(path) for path in sorted(found, key=lambda path: (json.loads((path / "run.json").read_text())["created"], path.name))]

    def run(self) -> Run:
        assert len(self.runs()) == 1, [run.folder.name for run in self.runs()]
        return self.runs()[0]

    def listed(self) -> dict:
        """The one run as `muster runs` has it."""
        listed = subprocess.run([str(PROGRAM), "runs", "--json"], env=self.environment, cwd=self.folder, capture_output=True, timeout=60)
        (found,) = json.loads(listed.stdout)["runs"]
        return found

    def at_step(self, step: int) -> Run:
        """When this step of the newest run is written down."""
        return await_(lambda: next((run for run in self.runs()[-1:] if run.step() >= step), None), f"step {step}")

    def hold_at(self, step: int, *arguments: str) -> tuple[subprocess.Popen, Run]:
        """Starts a run; when this step is written down, its ranks stand still until release().

        Whoever looks on a busy machine may see that too late: a run that is in its last quarter then is begun anew."""
        job = self.job | dict(word.split("=", 1) for word in arguments if "=" in word)
        while True:
            process = self.start(*arguments)
            run = self.at_step(step)
            self.send_to_ranks(signal.SIGSTOP)
            before = None
            while before != run.step():  # muster writes down what it has heard
                before = run.step()
                time.sleep(0.05)
            if len(self.ranks()) == int(job["distributed.ranks"]) and run.step() <= int(job["training.max_steps"]) * 3 // 4:
                return process, run
            self.release()
            finish(process)
            shutil.rmtree(run.folder)

    def release(self):
        self.send_to_ranks(signal.SIGCONT)

    def send_to_ranks(self, number: signal.Signals):
        for rank in self.ranks().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, number)

    def processes(self) -> dict[int, str]:
        """Whatever lives in the folder: the process's number and name."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "cwd") == str(self.folder.resolve()) and (process / "stat").read_text().split(")")[1].split()[0] != "Z":
                    found[int(process.name)] = (process / "comm").read_text().strip()
            except (OSError, IndexError):
                continue  # it has ended meanwhile
        return found

    def ranks(self) -> dict[int, int]:
        """By rank, the process numbers of the workers."""
        found = {}
        for number, name in self.processes().items():
            if name != "muster-worker":
                continue
            try:
                environment = pathlib.Path(f"/proc/{number}/environ").read_text().split("\0")
                found[next(int(entry[5:]) for entry in environment if entry.startswith("RANK="))] = number
            except (OSError, StopIteration):
                continue
        return found

    def rank(self, number: int) -> int:
        return await_(lambda: self.ranks().get(number), f"rank {number}")

    def assert_nothing_lives(self):
        await_(lambda: not self.processes(), "the end of every process")


def finish(process: subprocess.Popen, patience: float = 600) -> subprocess.CompletedProcess:
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class Chaos:
    """Kills ranks and launchers at random moments, resumes, and checks every run that comes to its end.

    endings: the share of kills that wait for the last step, to fall into the last evaluation, the last checkpoint, the export
    or what muster writes after them. ranks: each start has one of these numbers of them; empty: as the training has it."""

    def __init__(self, training: Training, whole: Run, chance: random.Random, endings: float = 0, ranks: Sequence[int] = ()):
        self.training, self.whole, self.chance, self.endings, self.numbers_of_ranks = training, whole, chance, endings, ranks
        self.kills = {"rank": 0, "launcher": 0}
        self.after_last_step = 0  # of these kills
        self.finished = 0
        self.resumed = set()  # attempts that began from a checkpoint
        self.last_step = int(whole.rows()[-1][0])
        times = [datetime.datetime.fromisoformat(event["time"]) for event in whole.events()]
        last = next(event for event in whole.events("step") if event["step"] == self.last_step)
        self.ending_seconds = (times[-1] - datetime.datetime.fromisoformat(last["time"])).total_seconds()

    def carry_out(self, kills: int):
        process = self.start()
        while sum(self.kills.values()) < kills:
            if not self.lives_until_its_moment(process):
                process = self.next_run(process)
                continue
            self.after_last_step += self.newest_step() == self.last_step
            # By turns, in an order of chance.
            ahead = self.kills["launcher"] - self.kills["rank"]
            if ahead < 0 or (ahead == 0 and self.chance.random() < 0.5):
                process.kill()
                finish(process)
                self.kills["launcher"] += 1
                process = self.start(*self.ways_on())
            elif ranks := self.training.ranks():
                os.kill(self.chance.choice(sorted(ranks.values())), signal.SIGKILL)
                self.kills["rank"] += 1
        self.check(finish(process))

    def lives_until_its_moment(self, process: subprocess.Popen) -> bool:
        """Some time from now, whatever is done then, or so many steps further, however long they take, or after the last one."""
        wanted, longest = None, 1.5
        if self.chance.random() < self.endings:
            wanted, longest = self.last_step, 1.5 * self.ending_seconds
        elif self.chance.random() < 0.5:
            wanted, longest = self.newest_step() + self.chance.randint(1, 12), 0.02
        pause = self.chance.uniform(0, longest)
        while wanted and self.newest_step() < wanted:
            if process.poll() is not None:
                return False
            time.sleep(0.002)
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            return True
        return False

    def ways_on(self) -> list[str]:
        """A run that was killed before it had its identity is not found by --resume: another one begins."""
        newest = self.training.runs()[-1:]
        return [] if newest and not (newest[0].folder / "identity").exists() else ["--resume", "auto"]

    def newest_step(self) -> int:
        return max((run.step() for run in self.training.runs()[-1:]), default=0)

    def next_run(self, process: subprocess.Popen) -> subprocess.Popen:
        self.check(finish(process))
        return self.start()

    def start(self, *words: str) -> subprocess.Popen:
        if self.numbers_of_ranks:
            words += (f"distributed.ranks={self.chance.choice(self.numbers_of_ranks)}",)
        return self.training.start(*words)

    def check(self, ended: subprocess.CompletedProcess):
        assert ended.returncode == 0, ended.stderr
        self.training.assert_nothing_lives()
        run = self.training.runs()[-1]
        run.assert_equal(self.whole)
        self.finished += 1
        self.resumed |= {(run.folder.name, event["time"]) for event in run.events("attempt") if event["after_step"] > 0}
