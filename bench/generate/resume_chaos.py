"""Runs that are killed with kill -9 at random moments and resumed until they are complete: is the file ever another one?

python bench/generate/resume_chaos.py [--runs 20] [--seed 1]
Ranks die at random, too. Every run changes ranks and batch on the way. One JSON line.
"""

import argparse
import json
import pathlib
import random
import tempfile
import time

from runs import WORDS, scripted

PROMPTS = 400


def one_run(folder: str, chance: random.Random) -> dict:
    generate = scripted(folder, PROMPTS, wants=5)
    assert generate(*WORDS, "--samples", "2").returncode == 0
    output = generate.folder / "out.jsonl"
    whole = output.read_bytes()
    output.unlink()
    pathlib.Path(f"{output}.job").unlink()
    kills = 0
    for _ in range(200):
        ranks = chance.randint(1, 4)
        deaths = {str(chance.randrange(ranks)): chance.randint(0, 60)} if ranks > 1 and chance.random() < 0.5 else {}
        generate.script(record=None, wants=chance.randint(1, 9), pause=0.002, die=deaths)
        process = generate.start(*WORDS, "--samples", "2", "--ranks", str(ranks), "--resume")
        time.sleep(chance.uniform(0, 0.6))
        ended = process.poll() is not None
        process.kill()
        _, errors = process.communicate(timeout=60)
        kills += not ended
        there = output.read_bytes() if output.exists() else b""
        if not whole.startswith(there):
            return {"kills": kills, "right": False, "why": "no prefix"}
        if ended and process.returncode != 0:
            return {"kills": kills, "right": False, "why": errors}
        if there == whole:
            return {"kills": kills, "right": True}
    return {"kills": kills, "right": False, "why": "it never ended"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    found = []
    for _ in range(given.runs):
        with tempfile.TemporaryDirectory() as folder:
            found.append(one_run(folder, chance))
    wrong = [run for run in found if not run["right"]]
    print(json.dumps({"bench": "generate/resume_chaos", "runs": len(found), "kills": sum(run["kills"] for run in found), "wrong": wrong}))


if __name__ == "__main__":
    main()
