"""A machine of invented GPUs, and child processes that look at it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

A100 = {
    "name": "NVIDIA A100-SXM4-40GB",
    "memory_total": "40536MiB",
    "compute_capability": "8.0",
    "multiprocessor_count": 108,
}


def uuid_of(index: int) -> str:
    return f"GPU-{index}a{index}b0000-0000-4000-8000-00000000000{index}"


class Machine:
    def __init__(self, folder: Path):
        self.folder = folder

    def has(self, gpus: list[dict[str, Any]], mask: Optional[str] = None) -> None:
        """From here on, this process and its children see these GPUs."""
        file = self.folder / "gpus.json"
        file.write_text(json.dumps({"gpus": gpus}))
        os.environ["MUSTER_GPUS"] = str(file)
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if mask is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = mask

    def has_a100s(self, count: int, used: Optional[list[int]] = None, mask: Optional[str] = None) -> None:
        """used: MiB of the first GPUs; the rest are empty."""
        used = used or []
        gpus = [
            {**A100, "uuid": uuid_of(index), "memory_used": f"{used[index] if index < len(used) else 0}MiB"}
            for index in range(count)
        ]
        self.has(gpus, mask)


def python(code: str, **options: Any) -> subprocess.Popen:
    # Where this runs in the background of a shell, interrupts are ignored, and a child would inherit that.
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def python_output(code: str, stdin: str = "", **options: Any) -> str:
    child = python(code, **options)
    output, errors = child.communicate(stdin, timeout=300)
    assert child.returncode == 0, errors
    return output
