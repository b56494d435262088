"""Meets the other rank in the store at MASTER_ADDR:MASTER_PORT, in the store's own words, and writes who was met to met-<rank>.

Without torch, so that many runs can begin at one moment on a small machine. The argument is a word that all ranks of the run share.
"""

import os
import socket
import struct
import sys

VALIDATE, SET, GET, ADD, WAIT = 0, 1, 3, 4, 6
rank, size, word = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1]
connection = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=60)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def receive(count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        assert part, "the store is gone"
        received += part
    return received


connection.sendall(struct.pack("<BI", VALIDATE, 0x3C85F7CE))
connection.sendall(bytes([SET]) + text(f"/member/{rank}") + text(word))
connection.sendall(bytes([ADD]) + text("/members") + struct.pack("<q", 1))
(members,) = struct.unpack("<q", receive(8))
assert members <= size, "a rank of another run is here"
keys = [f"/member/{other}" for other in range(size)]
connection.sendall(bytes([WAIT]) + struct.pack("<Q", size) + b"".join(map(text, keys)))
assert receive(1) == b"\0"
met = []
for key in keys:
    connection.sendall(bytes([GET]) + text(key))
    (length,) = struct.unpack("<Q", receive(8))
    met.append(receive(length).decode())
with open(f"met-{rank}", "w") as file:
    file.write(" ".join(met))
