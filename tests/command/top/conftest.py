"""muster top in a real terminal: tmux, on a server of its own for every test, beside a queue of its own."""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from muster_commands import Commands
from waiting import until

GPUS = "gpus:\n  - {count: %d, name: GPU of a test, memory_total: 80GiB, memory_used: 20GiB, utilization: 37, temperature: 51, power: 300, power_limit: 700}\n"
OPEN = ("submitted", "waiting", "ready", "running", "stopping")

numbers = itertools.count(1)


class Desk(Commands):
    """A user at a terminal: a folder, GPUs, a queue, and muster top."""

    until = staticmethod(until)

    def __init__(self, folder: pathlib.Path):
        super().__init__(
            folder,
            "TMUX",
            MUSTER_STATE=str(folder / "state"),
            MUSTER_LEASE_DIR=str(folder / "leases"),
            MUSTER_QUEUE_IDLE="300ms",
            MUSTER_QUEUE_GRACE="500ms",
            LC_ALL="C.UTF-8",
            HOME=str(folder),
        )
        self.server = ""
        self.environment.pop("NO_COLOR", None)
        self.gpus(8)

    def gpus(self, count: int):
        (self.folder / "gpus.yaml").write_text(GPUS % count if count else "gpus: []\n")
        self.environment["MUSTER_GPUS"] = str(self.folder / "gpus.yaml")

    def states(self) -> dict[str, str]:
        return {job["id"]: job["state"] for job in json.loads(self.run("queue", "--json").stdout)["jobs"]}

    # The terminal.

    def tmux(self, *words) -> str:
        return subprocess.run(["tmux", "-L", self.server, "-f", "/dev/null", *map(str, words)], env=self.environment, cwd=self.folder,
                              check=True, capture_output=True, text=True, timeout=60).stdout

    def open_terminal(self, width: int = 80, height: int = 24):
        self.close_terminal()
        self.server = f"muster-top-{os.getpid()}-{next(numbers)}"  # a server that ends and one that begins would meet
        self.tmux("new-session", "-d", "-x", width, "-y", height, "env", "PS1=ready$ ", "sh")
        until(lambda: "ready$" in self.screen())

    def close_terminal(self):
        if self.server:
            subprocess.run(["tmux", "-L", self.server, "kill-server"], capture_output=True, env=self.environment)

    def open(self, *options, width: int = 80, height: int = 24, interval: str = "100ms"):
        """A shell in which muster top is typed, and runs. What was open before is closed."""
        self.open_terminal(width, height)
        self.before = self.terminal_settings()
        self.keys("echo before; " + " ".join([str(self.program), "top", "--interval", interval, *options]) + "; echo ended with $?", "Enter")
        until(lambda: "q quit" in self.screen())

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def lines(self) -> list[str]:
        return self.screen().splitlines()

    def shows(self, *texts) -> str:
        def seen():
            screen = self.screen()
            return screen if all(text in screen for text in texts) else None
        try:
            return until(seen)
        except AssertionError:
            raise AssertionError(f"{texts} not all on\n{self.screen()}") from None

    def selected(self) -> str:
        """The id of the job that is marked."""
        marked = [line for line in self.lines() if line.startswith("▸ ")]
        return marked[0][2:].split()[0] if marked else ""

    def resize(self, width: int, height: int):
        self.tmux("resize-window", "-x", width, "-y", height)

    def terminal_settings(self) -> str:
        device = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        return subprocess.run(["stty", "-F", device, "-g"], check=True, capture_output=True, text=True).stdout

    def top_pid(self) -> int:
        """The muster top of the pane."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        children = until(lambda: pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split())
        return int(children[0])

    def is_restored(self):
        """The shell is back, with what was on the screen before, a cursor, and the terminal as it was."""
        screen = until(lambda: re.search(r"^ended with \d+$", self.screen(), re.MULTILINE) and self.screen())
        assert "\nbefore\n" in screen
        assert "q quit" not in screen and "MEMORY" not in screen
        assert self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}").split() == ["0", "1", "1"]
        until(lambda: self.terminal_settings() == self.before)
        return screen

    def close(self):
        self.close_terminal()
        left = [id for id, state in self.states().items() if state in OPEN]
        if left:
            self.run("stop", *left, status=None)
            self.run("wait", *left, status=None)
        lock = self.folder / "state/queue/conductor.lock"
        if lock.exists():
            until(lambda: subprocess.run(["flock", "-n", str(lock), "true"]).returncode == 0)


@pytest.fixture
def desk(tmp_path: pathlib.Path):
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed (Debian: apt-get install tmux); scripts/setup.sh tests brings it")
    made = Desk(tmp_path)
    yield made
    made.close()
