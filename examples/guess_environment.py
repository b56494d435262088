"""A game as an environment: guess a number in four answers. For environment.type=program (docs/environments.md).

With muster's Python module this is a class, and `muster.serve_environment(Guess)` the loop below.
"""

import json
import re
import sys


class Guess:
    def reset(self, row, seed):
        self.number, self.left = row["number"], 4
        return [{"role": "user", "content": f"Guess my number, from 1 to {row['most']}. Answer with a number alone."}]

    def step(self, answer):
        """Messages, reward, whether it is over."""
        self.left -= 1
        found = re.search(r"\d+", answer)
        if found and int(found[0]) == self.number:
            return [], 1.0, True
        if self.left == 0:
            return [], 0.0, True
        hint = "That was no number." if not found else "It is higher." if int(found[0]) < self.number else "It is lower."
        return [{"role": "user", "content": hint}], 0.0, False


sessions = {}
for line in sys.stdin:
    asked = json.loads(line)
    if "close" in asked:
        sessions.pop(asked["session"], None)
        continue
    if "reset" in asked:
        sessions[asked["session"]] = Guess()
        said = {"messages": sessions[asked["session"]].reset(asked["reset"], asked["seed"])}
    elif "end" in asked:
        said = {"reward": 0}
    else:
        messages, reward, done = sessions[asked["session"]].step(asked["answer"])
        said = {"messages": messages, "reward": reward, "done": done}
    print(json.dumps({"id": asked["id"], **said}), flush=True)
