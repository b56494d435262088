"""The two launchers that are compared: torchrun, and muster launch in its place.

Importing torch takes seconds, so one process imports it and every torchrun is forked from there: the same main(), warm. That the warm
one does what the command does is a test of its own.
"""

import dataclasses
import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SCRIPTS = HERE / "scripts"
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))
DEADLINE = 120  # seconds; nothing here takes a tenth of that on a quiet machine

SET_BY_A_LAUNCHER = {
    "LOCAL_RANK", "RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "CUDA_VISIBLE_DEVICES", "PYTHON_EXEC", "LOGLEVEL", "TMPDIR",
}  # fmt: skip
PREFIXES = ("MUSTER_", "TORCHELASTIC_", "TORCH_ELASTIC_", "PET_", "SLURM_", "ACCELERATE_", "HF_")


def clean_environment() -> dict[str, str]:
    """The caller's environment without anything that means something to a launcher; `python` is the one of the tests."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in SET_BY_A_LAUNCHER and not name.startswith(PREFIXES)
    }
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment.get('PATH', '/usr/bin:/bin')}"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


@dataclasses.dataclass
class Outcome:
    """What one launcher left behind. The text of its own folder is <folder> everywhere, so that two outcomes can be equal."""

    code: int
    output: str
    errors: str
    folder: pathlib.Path

    def plain(self, text: str) -> str:
        return text.replace(str(self.folder), "<folder>")

    def facts(self) -> dict[str, dict]:
        """What report_facts.py saw, by `<restart>-<rank>`."""
        files = sorted((self.folder / "facts").glob("*.json"))
        return {file.stem: json.loads(self.plain(file.read_text())) for file in files}

    def run_folder(self) -> pathlib.Path:
        """The one folder below --log-dir logs."""
        (folder,) = (self.folder / "logs").iterdir()
        return folder

    def log_tree(self) -> dict[str, bytes]:
        """Content of every file below the run folder, by its path from there; None for a folder."""
        root = self.run_folder()
        return {
            str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))
        }


@dataclasses.dataclass(frozen=True)
class Streams:
    """What a launcher has for its standard streams: a file to read and its folder's `output` and `errors`, or a terminal."""

    read: str = "/dev/null"
    terminal: str | None = None
    one_more: bool = False  # a fourth open descriptor, as a shell or a build tool may leave

    def open(self, folder: pathlib.Path) -> list[int]:
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        named = [os.open(folder / name, write, 0o644) for name in ("output", "errors")]
        if self.terminal is None:
            return [os.open(self.read, os.O_RDONLY), *named]
        for descriptor in named:
            os.close(descriptor)
        return [os.open(self.terminal, os.O_RDWR | os.O_NOCTTY) for _ in range(3)]


class Running:
    """A launcher at work in a folder of its own."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def outcome(self) -> Outcome:
        code = self.wait()
        texts = [(self.folder / name).read_bytes().decode(errors="surrogateescape") for name in ("output", "errors")]
        return Outcome(code, *texts, self.folder)

    def wait_for_file(self, name: str) -> None:
        """Returns when a rank has made the file; a launcher that ends before is a failure."""
        deadline = time.monotonic() + DEADLINE
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, f"{name} did not appear: {self.outcome().errors}"
            assert self.is_running(), f"ended before {name} appeared: {self.outcome().errors}"
            time.sleep(0.02)


class RunningProgram(Running):
    def __init__(self, folder, command, environment, streams):
        super().__init__(folder)
        opened = streams.open(folder)
        further = [os.open("/dev/null", os.O_RDONLY)] if streams.one_more else []
        self.process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=opened[0], stdout=opened[1], stderr=opened[2], pass_fds=further
        )
        for descriptor in (*opened, *further):
            os.close(descriptor)

    def is_running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        try:
            return self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            raise


def become_torchrun(folder, arguments, environment, streams):
    """In a process forked from one that has torch: what the command torchrun does."""
    for number, descriptor in enumerate(streams.open(folder)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if streams.one_more:
        os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
    os.chdir(folder)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    tempfile.tempdir = None  # what is imported already may have asked for it, in another environment
    sys.argv = ["torchrun", *arguments]
    from torch.distributed.run import main

    main()


class RunningTorchrun(Running):
    def __init__(self, folder, process):
        super().__init__(folder)
        self.process = process

    def is_running(self) -> bool:
        return self.process.is_alive()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        self.process.join(DEADLINE)
        if self.process.exitcode is None:
            self.process.terminate()
            raise TimeoutError(f"torchrun did not end: {(self.folder / 'errors').read_text()}")
        return self.process.exitcode


class Launchers:
    """Starts either launcher, each run in a new folder below `root`."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.count = 0
        self.started: list[Running] = []
        self.forks = multiprocessing.get_context("forkserver")
        self.forks.set_forkserver_preload(["torch.distributed.run"])

    def folder(self) -> pathlib.Path:
        self.count += 1
        folder = self.root / f"run-{self.count:03}"
        (folder / "facts").mkdir(parents=True)
        (folder / "temporary").mkdir()
        return folder

    def environment(self, folder: pathlib.Path, variables: dict[str, str] | None) -> dict[str, str]:
        """{folder} in a value is the run's folder; to muster the machine has no GPU unless MUSTER_GPUS is among the variables."""
        (folder / "gpus.yaml").write_text("gpus: []\n")
        own = {"TMPDIR": f"{folder}/temporary", "MUSTER_LEASE_DIR": f"{folder}/leases", "MUSTER_GPUS": f"{folder}/gpus.yaml"}
        given = {name: value.replace("{folder}", str(folder)) for name, value in (variables or {}).items()}
        return {**clean_environment(), **own, **given}

    def muster(self, arguments, variables=None, streams=Streams()) -> Running:
        folder = self.folder()
        command = [str(PROGRAM), "launch", *map(str, arguments)]
        return self.keep(RunningProgram(folder, command, self.environment(folder, variables), streams))

    def torchrun(self, arguments, variables=None, streams=Streams()) -> Running:
        folder = self.folder()
        process = self.forks.Process(
            target=become_torchrun,
            args=(folder, list(map(str, arguments)), self.environment(folder, variables), streams),
        )
        process.start()
        return self.keep(RunningTorchrun(folder, process))

    def cold_torchrun(self, arguments) -> Running:
        folder = self.folder()
        command = [sys.executable, "-m", "torch.distributed.run", *map(str, arguments)]
        return self.keep(RunningProgram(folder, command, self.environment(folder, None), Streams()))

    def keep(self, running: Running) -> Running:
        self.started.append(running)
        return running

    def end(self) -> None:
        """Ends what a failed test left running."""
        for running in self.started:
            if running.is_running():
                running.signal(signal.SIGTERM)
                running.wait()


@dataclasses.dataclass
class Pair:
    """The same scenario under both."""

    torchrun: Outcome
    muster: Outcome


OWN_LINE = re.compile(r"muster: |[IWEF]\d{4} \d\d:\d\d:\d\d\.")


def lines_of_ranks(text: str) -> list[str]:
    """Sorted lines of a console without what the launchers say themselves."""
    return sorted(line for line in text.split("\n") if not OWN_LINE.match(line))


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)
