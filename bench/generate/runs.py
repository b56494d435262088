"""muster generate with scripted workers, as the tests run it."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/command/generate"), str(ROOT / "tests/command/cli")]

from generate_runs import Generate  # noqa: E402, F401

WORDS = ("-m", "tiny", "model.init=random", "--max-new-tokens", "16", "--device", "cpu", "-p", "p.txt", "-o", "out.jsonl")


def scripted(folder: str, prompts: int, **script: object) -> Generate:
    generate = Generate(pathlib.Path(folder))
    generate.model()
    generate.script(record=None, **script)
    with open(generate.folder / "p.txt", "w") as file:
        file.writelines(f"prompt {i}\n" for i in range(prompts))
    return generate


def cores() -> int:
    return len(os.sched_getaffinity(0))
