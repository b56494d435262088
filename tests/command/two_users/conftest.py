"""Two users of one machine, each with a home of its own, and the built program."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from private_words import SECRET

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))


class User:
    """Runs commands as a user that need not have an account."""

    def __init__(self, uid: int, machine: pathlib.Path):
        self.uid = uid
        self.home = machine / f"home-{uid}"
        self.home.mkdir(mode=0o755)  # open: what is private is so by muster, not by the home
        os.chown(self.home, uid, uid)
        self.program = machine / "muster"
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "MUSTER_GPUS": str(machine / "gpus.yaml"),
            "MUSTER_LEASE_DIR": str(machine / "leases"),
            "MUSTER_QUEUE_IDLE": "500ms",
            "MUSTER_QUEUE_GRACE": "500ms",
            "A_TOKEN": SECRET,
        }

    def start(self, *command, umask: int = 0o022, **variables) -> subprocess.Popen:
        return subprocess.Popen(
            list(map(str, command)), env={**self.environment, **variables}, cwd=self.home, user=self.uid, group=self.uid,
            extra_groups=[], umask=umask, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )

    def run(self, *command, umask: int = 0o022, **variables) -> subprocess.CompletedProcess:
        process = self.start(*command, umask=umask, **variables)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def muster(self, *words, **options) -> subprocess.CompletedProcess:
        return self.run(self.program, *words, **options)


@pytest.fixture
def users():
    """alice and bob, by their numbers. One machine of four GPUs, one lease folder that nobody has made yet."""
    if os.geteuid() != 0:
        pytest.skip("only root can run commands as two users")
    machine = pathlib.Path(tempfile.mkdtemp(prefix="muster-users-", dir="/tmp"))
    machine.chmod(0o1777)  # as /run/lock is
    shutil.copy(PROGRAM, machine / "muster")
    (machine / "muster").chmod(0o755)
    (machine / "gpus.yaml").write_text("gpus: [{count: 4, memory_total: 40GiB}]\n")
    (machine / "gpus.yaml").chmod(0o644)
    alice, bob = User(61001, machine), User(61002, machine)
    if alice.run("true").returncode != 0:
        pytest.skip("this machine does not let root become another user")
    yield alice, bob
    shutil.rmtree(machine, ignore_errors=True)
