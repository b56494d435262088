"""A program on a pseudo-terminal, typed at and read from as a person would."""

import os
import pty
import select
import subprocess
import time


class Terminal:
    def __init__(self, words: list[str], environment: dict[str, str], folder: os.PathLike):
        self.controller, own = pty.openpty()
        self.process = subprocess.Popen(
            words, env={**environment, "TERM": "xterm"}, cwd=folder, stdin=own, stdout=own, stderr=own, start_new_session=True,
            preexec_fn=self.take_terminal,
        )  # fmt: skip
        os.close(own)
        self.shown = ""  # and not yet waited for

    @staticmethod
    def take_terminal() -> None:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def type(self, text: str) -> None:
        os.write(self.controller, text.encode())

    def until(self, text: str, limit: float = 60) -> str:
        """Everything that was shown up to the end of text."""
        deadline = time.monotonic() + limit
        while text not in self.shown:
            assert time.monotonic() < deadline, f"no {text!r} in {self.shown!r}"
            ready, _, _ = select.select([self.controller], [], [], 0.1)
            if not ready:
                continue
            try:
                part = os.read(self.controller, 65536)
            except OSError:
                part = b""
            assert part, f"no {text!r} in {self.shown!r}; exit code {self.process.wait()}"
            self.shown += part.decode().replace("\r\n", "\n")
        end = self.shown.index(text) + len(text)
        seen, self.shown = self.shown[:end], self.shown[end:]
        return seen

    def end(self) -> int:
        """The exit code."""
        code = self.process.wait(timeout=60)
        os.close(self.controller)
        return code
