"""Stands where muster-worker would: speaks its protocol, and answers by a script instead of a model.

SCRIPT is a JSON object: "answer" (reverse, fail, leave), "at" (the index it does that at), "order" (as-given, backwards),
"dropped", "pause" (seconds for each answer), "record" (a file that gets the assignment and every request), "refuse" (by these
ranks), "wants", "die" ({rank: number of answers after which it is killed}), "deadly" (an index that kills whoever takes it,
once out.jsonl has the rows before it), "late" ({rank: number of requests that were taken before it is ready}), "together" (number of
requests that are taken before anybody answers), "stuck" (indices without an end), "memory" (peak bytes to tell), "errors" ({index: why
it has no answer}), "holds" (a file without which no word follows the first).
"""

import json
import os
import select
import signal
import socket
import sys
import time

script = json.loads(os.environ.get("SCRIPT", "{}"))
rank = int(os.environ["RANK"])
channel = socket.socket(socket.AF_UNIX)
channel.connect(os.environ["MUSTER_CONTROL"])
received = b""
put_back = []  # orders that came while an answer was written


def next_order(waits: bool = True) -> dict | None:
    global received
    while b"\n" not in received:
        if not waits and not select.select([channel], [], [], 0)[0]:
            return None
        part = channel.recv(1 << 16)
        if not part:
            sys.exit(1)
        received += part
    line, received = received.split(b"\n", 1)
    return json.loads(line)


def is_cancelled(index: int) -> bool:
    """Whether the answer is no longer wanted."""
    while order := next_order(waits=False):
        if order["order"] == "cancel":
            record(order)
            return order["index"] == index
        put_back.append(order)
    return False


def tell(event: str, **fields) -> None:
    line = json.dumps({"time": time.time(), "event": event, "rank": rank, **fields})
    channel.sendall(line.encode() + b"\n")


def record(what: object) -> None:
    if script.get("record"):
        with open(script["record"], "a") as file:
            file.write(json.dumps(what) + "\n")


def wait_until(condition) -> None:
    while not condition():
        time.sleep(0.01)


def lines_with(file: str, what: str) -> int:
    with open(file) as lines:
        return sum(what in line for line in lines)


def wait_until_taken(count: int) -> None:
    """So many requests, by all ranks together."""
    if count:
        wait_until(lambda: lines_with(script["record"], '"order": "request"') >= count)


def fail(kind: str, what: str, code: int) -> None:
    tell("failed", kind=kind, what=what, remedy="another model", consequence=False)
    sys.exit(code)


tell("hello", version=1, pid=os.getpid(), program="scripted-worker", processor_limit=None)
assignment = next_order()
task = assignment["task"]
record(assignment)
print("the script begins", file=sys.stderr)
if rank in script.get("refuse", []):
    fail("bad_input", "no such attention on this device", 2)
tell("progress", what="loading", done=1, total=2)
wait_until_taken(script.get("late", {}).get(str(rank), 0))
tell("ready", device="cpu")
if "memory" in script:
    tell("progress", what="memory", done=script["memory"], total=2 * script["memory"])
answered = 0


def reply(request: dict) -> None:
    global answered
    if answered == script.get("die", {}).get(str(rank)):
        os.kill(os.getpid(), signal.SIGKILL)
    answered += 1
    row = json.loads(request["row"])
    text = row["prompt"] if "prompt" in row else row["messages"][-1]["content"]
    if script.get("answer") == "fail" and request["index"] == script.get("at", 0):
        fail("failed", "the device is on fire", 1)
    if script.get("answer") == "leave" and request["index"] == script.get("at", 0):
        print("out of words", file=sys.stderr)
        os._exit(9)
    wait_until_taken(script.get("together", 0))
    wait_until(lambda: request["index"] not in script.get("stuck", []))
    time.sleep(script.get("pause", 0))
    dropped = script.get("dropped", {}).get(str(request["index"]), 0)
    common = {"prompt_tokens": len(text), "dropped_tokens": dropped}
    if task["score"]:
        scores = [-float(len(word)) for word in row["completion"].split()]
        error = script.get("errors", {}).get(str(request["index"]))
        result = {"logprob": 0 if error else sum(scores), "token_count": len(scores), "logprobs": [] if error else scores, "error": error, **common}
    else:
        answers = []
        for sample in range(task["samples"]):
            answer = text[::-1] if sample == 0 else f"{text[::-1]} {sample}"
            finish = script.get("finish", "stop")
            error = script.get("errors", {}).get(str(request["index"]))
            if task["stream"]:
                words, answer = answer.split(" "), ""
                for word in words:
                    piece = " " + word if answer else word
                    tell("token", index=request["index"], sample=sample, text=piece)
                    answer += piece
                    time.sleep(script.get("pause", 0))
                    wait_until(lambda: "holds" not in script or os.path.exists(script["holds"]))
                    if is_cancelled(request["index"]):
                        finish = "cancelled"
                        break
            if error:
                answer, finish = "", "error"
            tokens = [ord(letter) for letter in answer]
            answers.append({"text": answer, "tokens": tokens, "finish": finish, "logprobs": [-0.5] * len(tokens), "error": error})
        result = {"samples": answers, **common}
    tell("result", index=request["index"], row=json.dumps(result))


wanted = script.get("wants", 2 if task["stream"] else task["batch_size"])  # one more than is answered, as the real one
ended = False
coming = 0  # asked for, and not there
while not ended:
    if coming < wanted:
        tell("want", count=wanted - coming)
        coming = wanted
    taken = []
    while len(taken) < (1 if task["stream"] else wanted):
        order = put_back.pop(0) if put_back else next_order()
        if order["order"] == "end-of-requests":
            ended = True
            break
        if order["order"] == "pause":  # begin with what there is
            if taken:
                break
            continue
        if order["order"] == "cancel":  # of an answer that is given
            continue
        record({**order, "rank": rank})
        coming -= 1
        taken.append(order)
        if order["index"] == script.get("deadly"):
            wait_until(lambda: os.path.exists("out.jsonl") and lines_with("out.jsonl", "\n") >= order["index"])
            os.kill(os.getpid(), signal.SIGKILL)
        if script.get("order", "as-given") == "as-given":
            reply(taken[-1])
    if script.get("order") == "backwards":
        for request in reversed(taken):
            reply(request)
tell("done")
