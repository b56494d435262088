"""Servers and clients of stores, ours and torch's, each in a process of its own."""

import json
import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests"))
TORCH_DRIVER = Path(__file__).resolve().parent / "torch_store_driver.py"
LONG = 120  # seconds, for what must happen


class StoreError(Exception):
    """What a client said of an order it could not carry out."""


class Driver:
    """A client in a process of its own that takes orders. begin() does not wait for the answer; end() does."""

    def __init__(self, command: list):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @classmethod
    def muster(cls) -> "Driver":
        return cls([PROGRAMS / "store_driver"])

    @classmethod
    def torch(cls) -> "Driver":
        return cls([sys.executable, TORCH_DRIVER])

    def begin(self, operation: str, **arguments: Any) -> None:
        self.process.stdin.write(json.dumps({"operation": operation, **arguments}) + "\n")
        self.process.stdin.flush()

    def has_answered(self) -> bool:
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def end(self) -> Any:
        assert select.select([self.process.stdout], [], [], LONG)[0], "no answer"
        line = self.process.stdout.readline()
        assert line, "the client is gone"
        answer = json.loads(line)
        if "error" in answer:
            raise StoreError(answer["error"])
        return answer["result"]

    def __call__(self, operation: str, **arguments: Any) -> Any:
        self.begin(operation, **arguments)
        return self.end()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class MusterServer:
    def __init__(self):
        self.process = subprocess.Popen(
            [str(PROGRAMS / "store_server")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline())

    def begin_round(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "empty\n"

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(LONG) == 0
        self.process.stdout.close()


class TorchServer:
    def __init__(self, driver: Driver):
        self.driver = driver
        self.port = driver("serve")

    def close(self) -> None:
        self.driver("stop_serving")


# ---- the protocol, written down once more, without looking at ours ----

SET, COMPARE_SET, GET, ADD, CHECK, WAIT, GETNUMKEYS, DELETE_KEY, APPEND, MULTI_GET, MULTI_SET, CANCEL_WAIT, PING = range(
    1, 14
)
QUEUE_PUSH, QUEUE_POP, QUEUE_LEN, LIST_KEYS, BARRIER = range(14, 19)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def texts(values: list) -> bytes:
    return struct.pack("<Q", len(values)) + b"".join(text(value) for value in values)


class RawClient:
    """Sends requests as bytes and returns whatever has come back by the time a ping is answered."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), LONG)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(struct.pack("<BI", 0, 0x3C85F7CE))
        self.nonce = 0

    def tell(self, request: bytes = b"") -> bytes:
        """Raises ConnectionError when the server has closed the connection."""
        self.nonce += 1
        mark = struct.pack("<I", 0xA5C30000 + self.nonce)
        self.socket.sendall(request + struct.pack("<B", PING) + mark)
        heard = b""
        while not heard.endswith(mark):
            part = self.socket.recv(1 << 16)
            if not part:
                raise ConnectionError("closed")
            heard += part
        return heard[: -len(mark)]

    def close(self) -> None:
        self.socket.close()
