"""What a stranger can try at the port of a run: stranger.py ADDRESS PORT ATTEMPT...

Each attempt is a connection of its own. Writes a JSON line for each: whether the port could be reached, and what came
back until the other side closed the connection.
"""

import encodings.idna  # noqa: F401 - while files can still be read
import json
import os
import socket
import struct
import sys
import time

MAGIC = struct.pack("<BI", 0, 0x3C85F7CE)  # torch's VALIDATE


def join(**fields: object) -> bytes:
    usual = {
        "message": "join",
        "protocol": 1,
        "run_id": "none",
        "host": "\x1b]0;owned\x07stranger",
        "pid": 1,
        "role": "default",
        "local_world_size": 1,
        "leads": False,
    }
    return json.dumps(usual | fields).encode() + b"\n"


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


ATTEMPTS = {
    "many-ranks": join(local_world_size=16384),
    "place-of-another": join(node_rank=1),
    "failed": join(node_rank=1) + b'{"message":"failed","round":0,"age_ms":0,"failure":"{}"}\n',
    "hello": b'{"message":"hello","protocol":2,"nonce":"' + b"0" * 64 + b'"}\n',
    "guess": b'{"message":"hello","protocol":2,"nonce":"' + b"0" * 64 + b'"}\n' + b"0" * 64 + b' {"message":"proof"}\n',
    "overwrite": MAGIC + b"\x01" + text(b"key") + text(b"stolen"),
    "read": MAGIC + b"\x03" + text(b"key"),
}


ANSWERED = ("hello", "read")  # and then waited for, while the others are to be closed
PATIENCE = 60


def attempt(address: str, port: int, name: str) -> dict[str, object]:
    try:
        with socket.create_connection((address, port), PATIENCE) as connection:
            connection.sendall(ATTEMPTS[name])
            heard = b""
            try:
                while part := connection.recv(4096):
                    heard += part
                    if name in ANSWERED:
                        connection.settimeout(1)  # is it closed now?
                return {"reached": True, "closed": True, "heard": heard.decode("latin1")}
            except TimeoutError:
                return {"reached": True, "closed": False, "heard": heard.decode("latin1")}
            except ConnectionResetError:
                return {"reached": True, "closed": True, "heard": heard.decode("latin1")}
    except OSError as reason:
        return {"reached": False, "closed": True, "heard": str(reason)}


def leave_unfinished(address: str, port: int) -> dict[str, object]:
    """Eight requests that are nearly 64 MiB long and never end: how many were not listened to until there."""
    begin = MAGIC + b"\x0b" + struct.pack("<Q", 8)  # MULTI_SET of eight keys
    pair = text(b"key") + text(b"x" * (7 << 20))
    connections = [socket.create_connection((address, port), PATIENCE) for _ in range(8)]
    dropped = set()
    for part in [begin, *[pair] * 7, text(b"key") + struct.pack("<Q", 8 << 20) + b"x" * (7 << 20)]:
        for connection in connections:
            try:
                connection.sendall(part)
            except OSError:
                dropped.add(connection)
    deadline = time.monotonic() + PATIENCE
    while len(dropped) < 3 and time.monotonic() < deadline:  # what was sent may not be read yet
        for connection in set(connections) - dropped:
            try:
                connection.settimeout(0.2)
                connection.recv(1)
                dropped.add(connection)
            except TimeoutError:
                pass
            except OSError:
                dropped.add(connection)
    return {"dropped": len(dropped)}


if __name__ == "__main__":
    if user := os.environ.get("STRANGER_USER"):
        os.setgid(int(user))
        os.setuid(int(user))
    if sys.argv[3:] == ["unfinished"]:
        print(json.dumps(leave_unfinished(sys.argv[1], int(sys.argv[2]))))
        sys.exit()
    for name in sys.argv[3:]:
        print(json.dumps(attempt(sys.argv[1], int(sys.argv[2]), name)), flush=True)
