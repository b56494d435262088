"""What muster makes of a model, through the program shape_dump."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("MUSTER_TEST_PROGRAMS", ROOT / "build/engine/tests"))
FIXTURES = ROOT / "tests/unit/spec/fixtures/models"


def dump(models: list, dtype: str | None = None) -> list:
    """One description per model; of a model that is refused it has only "error"."""
    options = ["--dtype", dtype] if dtype else []
    command = [PROGRAMS / "shape_dump", *options, *models]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
