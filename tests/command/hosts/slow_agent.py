"""The agent of a host that is slow to go: slow_agent.py ADDRESS PORT NODE_RANK SECRET_FILE

It speaks to the coordinator as `muster launch` does, says that its rank has ended well as soon as a round begins,
writes "finished" once it is told how the run ended, and keeps its connection until its input ends.
"""

import hashlib
import hmac
import json
import os
import pathlib
import secrets
import socket
import sys
import time

connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
while not pathlib.Path(sys.argv[4]).exists():  # the leading host listens before it has made it
    time.sleep(0.02)
secret = pathlib.Path(sys.argv[4]).read_text().strip().encode()
lines = connection.makefile()
sealed = 0


def send(line: str) -> None:
    connection.sendall(line.encode() + b"\n")


def mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def say(**fields: object) -> None:
    global sealed
    text = json.dumps(fields)
    send(mac(outgoing, f"{sealed} {text}").hex() + " " + text)
    sealed += 1


nonce = secrets.token_hex(32)
send(json.dumps({"message": "hello", "protocol": 2, "nonce": nonce}))
theirs = json.loads(lines.readline())["nonce"]
outgoing = mac(secret, f"muster from the agent {nonce} {theirs}")
incoming = mac(secret, f"muster from the coordinator {nonce} {theirs}")
say(message="proof")
say(
    message="join",
    protocol=2,
    run_id="none",
    host="slow",
    pid=os.getpid(),
    role="default",
    local_world_size=1,
    node_rank=int(sys.argv[3]),
    leads=False,
)
for number, line in enumerate(lines):
    seal, text = line.rstrip("\n").split(" ", 1)
    assert seal == mac(incoming, f"{number} {text}").hex(), line
    heard = json.loads(text)
    if heard["message"] == "start":
        say(message="succeeded", round=heard["round"])
    if heard["message"] == "alive":
        say(message="alive")
    if heard["message"] == "finish":
        break
print("finished", flush=True)
sys.stdin.read()
