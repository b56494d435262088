"""The program that prepares data."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests")) / "data_driver"


class DataDriver:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.count = 0

    def order(self, **order) -> dict:
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def prepare(self, model, rows: list[dict], **options) -> dict:
        self.count += 1
        data = self.folder / f"rows-{self.count}.jsonl"
        data.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return self.order(model=str(model), data=str(data), cache=str(self.folder / "cache"), **options)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0
