"""The agent of a host that is slow to go: slow_agent.py ADDRESS PORT NODE_RANK

It speaks to the coordinator as `muster launch` does, says that its rank has ended well as soon as a round begins,
writes "finished" once it is told how the run ended, and keeps its connection until its input ends.
"""

import json
import os
import socket
import sys

connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)


def say(**fields: object) -> None:
    connection.sendall(json.dumps(fields).encode() + b"\n")


say(
    message="join",
    protocol=1,
    run_id="none",
    host="slow",
    pid=os.getpid(),
    role="default",
    local_world_size=1,
    node_rank=int(sys.argv[3]),
    leads=False,
)
for line in connection.makefile():
    heard = json.loads(line)
    if heard["message"] == "start":
        say(message="succeeded", round=heard["round"])
    if heard["message"] == "alive":
        say(message="alive")
    if heard["message"] == "finish":
        break
print("finished", flush=True)
sys.stdin.read()
