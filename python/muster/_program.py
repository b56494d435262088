"""The program muster: where it is, and how it is run below this process."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, Optional

# What launchers tell a rank. The program starts ranks of its own, and tells them itself.
_OF_A_LAUNCHER = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_NAME",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMP_NUM_THREADS",
)
_PR_SET_PDEATHSIG = 1


def find_program() -> str:
    """MUSTER_PROGRAM, else beside the interpreter, else in the PATH."""
    chosen = os.environ.get("MUSTER_PROGRAM")
    if chosen:
        if os.access(chosen, os.X_OK) and Path(chosen).is_file():
            return chosen
        raise ValueError(f"MUSTER_PROGRAM={chosen} is not a program that can be run\n  try: the path of muster")
    beside = Path(sys.executable).parent / "muster"
    if os.access(beside, os.X_OK) and beside.is_file():
        return str(beside)
    found = shutil.which("muster")
    if found is None:
        raise RuntimeError(
            "the program muster is not in the PATH, and trains\n"
            "  try: MUSTER_PROGRAM=/path/to/a/checkout/muster, or put the checkout into PATH"
        )
    return found


def run_program(words: list[str], launched: bool) -> tuple[int, str]:
    """Exit code and standard output; standard error is shown as it comes.

    Ctrl-C and SIGTERM reach the program, which saves what it has and ends; then KeyboardInterrupt is raised here. It
    does not outlive this process.
    """
    environment = {name: value for name, value in os.environ.items() if name != "MUSTER_PROGRAM"}
    if launched:
        environment = {
            name: value
            for name, value in environment.items()
            if name not in _OF_A_LAUNCHER and not name.startswith("TORCHELASTIC_")
        }
    with _Relay() as relay:
        errors = _own_errors()
        child = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors is None else errors,
            text=True,
            start_new_session=True,  # signals of the terminal come once, from here
            preexec_fn=_end_with_parent,
        )
        relay.send_to(child)
        output: list[str] = []
        readers = [threading.Thread(target=lambda: output.append(child.stdout.read()), daemon=True)]
        if errors is None:
            readers.append(threading.Thread(target=_show, args=(child.stderr,), daemon=True))
        for reader in readers:
            reader.start()
        child.wait()
        for reader in readers:
            reader.join()
    if relay.interrupted:
        raise KeyboardInterrupt
    return child.returncode, "".join(output)


class _Relay:
    """Passes Ctrl-C and SIGTERM on to the program, also those that come while it is being started.

    Without it such an early one would end this process alone, and the program would not be waited for. Signals that are
    ignored stay so; in another thread than the main one, handlers cannot be set, and signals do not come there.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._child: Optional["subprocess.Popen[str]"] = None
        self._early: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_Relay":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def send_to(self, child: "subprocess.Popen[str]") -> None:
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def _take(self, number: int, _: object) -> None:
        self.interrupted |= number == signal.SIGINT
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)


def _own_errors() -> Optional[IO[str]]:
    """Where sys.stderr is a file of the system; None: a notebook's, say, to which lines are written by hand."""
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    sys.stderr.flush()
    return sys.stderr


def _show(lines: IO[str]) -> None:
    for line in lines:
        sys.stderr.write(line)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
