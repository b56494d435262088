"""The built program, run as a user would run it."""

import os
import pathlib
import subprocess

import pytest
from bare_models import make_bare_model

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))

EIGHT = """
gpus:
  - {count: 8, name: NVIDIA A100-SXM4-40GB, memory_total: 40536MiB, memory_used: 0, compute_capability: "8.0", utilization: 0}
"""


class Muster:
    """Runs `muster ARGS` with an inventory, a lease folder and nothing else of the caller's environment."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.program = PROGRAM
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MUSTER_") and not name.startswith("CUDA_") and name != "GPU_LIST"
        }
        self.environment["MUSTER_LEASE_DIR"] = str(folder / "leases")
        self.environment["MUSTER_STATE"] = str(folder / "state")

    def inventory(self, text: str) -> pathlib.Path:
        file = self.folder / "gpus.yaml"
        beside = self.folder / "gpus.yaml.part"
        beside.write_text(text)
        beside.rename(file)  # a reader sees the old machine or the new one
        self.environment["MUSTER_GPUS"] = str(file)
        return file

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen:
        return subprocess.Popen(
            [str(self.program), *arguments],
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )

    def __call__(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        process = self.start(*arguments, **variables)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@pytest.fixture(scope="session")
def new_muster() -> type[Muster]:
    """For fixtures that outlive a test."""
    return Muster


@pytest.fixture
def muster(tmp_path: pathlib.Path) -> Muster:
    return Muster(tmp_path)


@pytest.fixture
def eight(muster: Muster) -> Muster:
    """A machine of eight equal, idle GPUs."""
    muster.inventory(EIGHT)
    return muster


@pytest.fixture
def bare_model(muster: Muster, tmp_path: pathlib.Path):
    """Makes a folder with the shape of a model and muster's own tokenizer, but no weights."""
    muster.environment["MUSTER_CACHE"] = str(tmp_path / "cache")
    return lambda config: make_bare_model(muster, tmp_path / "model", config)
