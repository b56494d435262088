import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import Machine  # noqa: E402
from muster import distributed  # noqa: E402


@pytest.fixture(autouse=True)
def a_process_of_its_own(monkeypatch, tmp_path):
    """Each test begins without a mask, an inventory, a launcher or torch, and leaves nothing behind."""
    before = dict(os.environ)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOCAL_RANK", "MUSTER_GPUS", "MUSTER_LEASE"):
        os.environ.pop(name, None)
    os.environ["MUSTER_LEASE_DIR"] = str(tmp_path / "leases")
    os.environ["MUSTER_NVML_LIBRARY"] = str(tmp_path / "there-is-no-driver.so")
    monkeypatch.setattr(distributed, "_choices", distributed._Choices())
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)
