"""reward_driver, kept open: a JSON line in, a JSON line out."""

import json
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[3] / "build/engine/tests/reward_driver"


class RewardDriver:
    def __init__(self):
        self.program = subprocess.Popen([str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, order):
        self.program.stdin.write(json.dumps(order) + "\n")
        self.program.stdin.flush()
        return json.loads(self.program.stdout.readline())

    def verdict(self, right, given):
        return self.ask({"right": right, "given": given})["verdict"]

    def verdict_of_text(self, right, completion):
        return self.ask({"right": right, "completion": completion})["verdict"]

    def parts(self, function, answers, **options):
        """What one function gives each of [(completion, tokens, room)]."""
        rows = [{"prompt": "p", "answer": None, "completion": text, "tokens": tokens, "room": room} for text, tokens, room in answers]
        told = self.ask({"options": {"functions": [function], **options}, "answers": rows})
        return [parts[0] for parts in told["parts"]]

    def close(self):
        self.program.stdin.close()
        self.program.wait()
