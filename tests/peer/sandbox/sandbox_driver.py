"""The program that judges programs in a sandbox."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests")) / "sandbox_driver"
# One that every user may read: a sandbox of root's is nobody's.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"


class SandboxDriver:
    def __init__(self, isolation: str):
        self.process = subprocess.Popen(
            [PROGRAM, isolation, PYTHON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def judge(self, program: str, tests: str, entry_point: str = "", given: str = "", seconds: int = 30) -> dict | None:
        """None where this kernel does not grant the isolation."""
        order = {"program": program, "tests": tests, "entry_point": entry_point, "given": given, "seconds": seconds}
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            assert self.process.wait(timeout=60) == 3, self.process.stderr.read()
            return None
        return json.loads(answer)

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            assert self.process.wait(timeout=60) == 0
