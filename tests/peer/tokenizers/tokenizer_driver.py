"""muster's tokenizers, through the program tokenizer_driver."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests"))


class Refused(Exception):
    """What the program answered with an error."""


class Driver:
    def __enter__(self):
        self.process = subprocess.Popen([str(PROGRAMS / "tokenizer_driver")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def ask(self, **question) -> dict:
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def load(self, file) -> int:
        return self.ask(load=str(file))["vocabulary"]

    def encode(self, texts, special: bool) -> list[list[int]]:
        return self.ask(encode=texts, special=special)["ids"]

    def decode(self, lists, skip: bool) -> tuple[list[str], list[list[str]]]:
        answer = self.ask(decode=lists, skip=skip)
        return answer["texts"], answer["streamed"]
