"""A trial: notes who and where it is, tells steps where it is asked to, and prints (x - 1)² as its loss.

trial.py [--x=…] [--sleep=seconds] [--steps=count] [--fail=true] [--forever=true] [--stop=true] [--result=true] [--pass=true]"""

import json
import os
import signal
import sys
import time

given = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
names = ("MUSTER_TRIAL", "MUSTER_PHASE", "CUDA_VISIBLE_DEVICES", "MUSTER_LEASE", "MASTER_PORT")
note = {name: os.environ.get(name) for name in names} | {"pid": os.getpid(), "begin": time.time()}


def write_note(**more):
    with open(os.environ["MUSTER_TRIAL_FOLDER"] + "/notes.jsonl", "a") as file:
        file.write(json.dumps(note | more) + "\n")


write_note()
loss = (float(given.get("x", 1)) - 1) ** 2
for step in range(1, int(given.get("steps", 0)) + 1):
    with open(os.environ["MUSTER_REPORT"], "a") as file:
        file.write(json.dumps({"step": step, "score": loss + 1 / step}) + "\n")
    time.sleep(0.15)
time.sleep(float(given.get("sleep", 0)))
if given.get("stop"):
    print("I stop", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
while given.get("forever"):
    time.sleep(1)
if given.get("fail"):
    print("I was told to fail")
    sys.exit(7)
write_note(end=time.time())
if given.get("result"):
    with open(os.environ["MUSTER_TRIAL_FOLDER"] + "/result.json", "w") as file:
        json.dump({"loss": loss, "other": 3}, file)
elif not given.get("pass"):
    print(json.dumps({"loss": loss}))
