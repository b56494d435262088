"""muster's commands in a folder of a test, one after the other."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))


class Commands:
    """Of a user who has a folder and an environment."""

    program = PROGRAM

    def __init__(self, folder: pathlib.Path, *others: str, **variables: str):
        """others: beginnings of further variables that the test's own environment is not to hand on."""
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "CUDA_", *others))}
        self.environment |= variables

    def run(self, *words, text: str = "", status: int | None = 0, **variables) -> subprocess.CompletedProcess:
        done = subprocess.run([str(PROGRAM), *map(str, words)], input=text, env={**self.environment, **variables}, cwd=self.folder,
                              capture_output=True, text=True, timeout=120)
        assert status is None or done.returncode == status, done.stdout + done.stderr
        return done

    def submit(self, *command, options=(), text: str = "") -> list[str]:
        """The ids of the jobs."""
        tail = ["--", *command] if command else []
        return self.run("submit", *options, *tail, text=text).stdout.split()
