"""What programs of muster ask this process, in lines of JSON: they start a relay that connects to a socket here."""

import os
import socket
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Callable, Optional, TextIO


class RelayServer(ABC):
    """Answers for as long as it is open, from threads of its own."""

    def __init__(self) -> None:
        self.failure: Optional[BaseException] = None  # of what the caller gave: train() raises it
        self._folder = tempfile.TemporaryDirectory(prefix="muster-relay-")
        self._path = os.path.join(self._folder.name, "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What makes muster train ask this server."""

    @abstractmethod
    def _serve(self, lines: TextIO, answers: TextIO, hang_up: Callable[[], None]) -> None:
        """Answers lines until they end, or until it hangs up. What it raises ends the run."""

    def _command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("_relay.py")), self._path]

    def close(self) -> None:
        self._listener.close()
        self._folder.cleanup()

    def __enter__(self) -> "RelayServer":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        # Two streams: one for both would forget what it has read ahead whenever it writes.
        text = {"encoding": "utf-8", "newline": "\n"}
        with connection, connection.makefile("r", **text) as lines, connection.makefile("w", **text) as answers:
            try:
                if self.failure is None:
                    self._serve(lines, answers, lambda: connection.shutdown(socket.SHUT_RDWR))
            except (BrokenPipeError, ConnectionResetError):
                return  # the run has ended
            except Exception as failure:
                self.failure = self.failure or failure
