"""A rank that tells the test where it stands, then does as it is told.

Over the socket named by LAUNCH_HOSTS_ROLL it says one line of JSON, and hears orders, one a line:
  exit CODE     end with that code
  die           end by SIGKILL
  catch NAMES   from now on say "caught NAME" when one of these signals comes, and live on; the answer is "catching"
"""

import json
import os
import signal
import socket
import struct
import sys

VALIDATE, ADD, PING = 0, 4, 13
MAGIC = 0x3C85F7CE


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise OSError("the store closed the connection")
        data += more
    return data


def ask_store() -> dict:
    """Whether the store answers, and how many ranks have asked it, this one included."""
    nonce = os.getpid()
    key = b"/launch_hosts"
    try:
        with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 20) as store:
            store.sendall(struct.pack("<BI", VALIDATE, MAGIC) + struct.pack("<BI", PING, nonce))
            answers = struct.unpack("<I", receive(store, 4))[0] == nonce
            store.sendall(struct.pack("<BQ", ADD, len(key)) + key + struct.pack("<q", 1))
            return {"answers": answers, "position": struct.unpack("<q", receive(store, 8))[0]}
    except OSError as problem:
        return {"answers": False, "problem": str(problem)}


def main() -> None:
    roll = socket.socket(socket.AF_UNIX)
    roll.connect(os.environ["LAUNCH_HOSTS_ROLL"])

    def say(text: str) -> None:
        roll.sendall(text.encode() + b"\n")

    say(json.dumps({"pid": os.getpid(), "environment": dict(os.environ), "store": ask_store()}))
    for order in roll.makefile():
        word, _, rest = order.strip().partition(" ")
        if word == "exit":
            sys.exit(int(rest))
        if word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "catch":
            for name in rest.split():
                signal.signal(getattr(signal, name), lambda number, frame: say("caught " + signal.Signals(number).name))
            say("catching")


main()
