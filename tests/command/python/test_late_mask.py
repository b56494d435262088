"""CUDA reads its mask once, when it is initialised. A mask that comes later is refused."""

import os
import subprocess

import fake_torch
import pytest
from machine import python_output

from muster.distributed import set_visible_gpus, setup_gpu_environment


def test_a_mask_after_torch_initialised_cuda_is_refused(machine, monkeypatch):
    machine.has_a100s(8)
    fake_torch.install(monkeypatch, initialized=True)
    with pytest.raises(RuntimeError, match='"4,6" would come too late: torch has initialised CUDA'):
        set_visible_gpus([4, 6])
    with pytest.raises(RuntimeError, match="too late"):
        setup_gpu_environment(num_gpus=2)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_mask_that_changes_nothing_is_never_too_late(machine, monkeypatch):
    machine.has_a100s(8, mask="4,6")
    fake_torch.install(monkeypatch, initialized=True)
    set_visible_gpus([0, 1])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,6"
    with pytest.raises(RuntimeError, match="too late"):
        set_visible_gpus([1, 0])


def test_a_mask_is_in_time_where_torch_is_loaded_but_cuda_is_not_initialised(machine, monkeypatch):
    machine.has_a100s(8)
    fake_torch.install(monkeypatch, initialized=False)
    set_visible_gpus([4, 6])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,6"


def test_a_mask_is_in_time_with_the_real_torch(machine):
    machine.has_a100s(8)
    output = python_output(
        "import torch, os, muster\n"
        "device = muster.setup_gpu_environment(gpu_ids=[4, 6])\n"
        "parsed = torch.cuda._parse_visible_devices()\n"
        "print(os.environ['CUDA_VISIBLE_DEVICES'], type(device) is torch.device, device, parsed)"
    )
    assert output.splitlines()[-1] == "4,6 True cuda:0 [4, 6]"


# A driver in which CUDA counts as initialised once cuInit() was called, as in the real one.
DRIVER = """
static int initialised = 0;
int cuInit(unsigned flags) { (void)flags; initialised = 1; return 0; }
int cuDeviceGetCount(int* count) { if (!initialised) return 3; *count = 8; return 0; }
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    library = folder / "libcuda.so.1"
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, folder / "driver.c"], check=True
    )
    return library


@pytest.mark.parametrize(
    "first, last_word",
    [("pass", "masked"), ("driver = ctypes.CDLL({})", "masked"), ("ctypes.CDLL({}).cuInit(0)", "late")],
    ids=["not loaded", "loaded, not initialised", "initialised"],
)
def test_the_driver_itself_is_asked_whether_it_is_initialised(machine, driver, first, last_word):
    machine.has_a100s(8)
    output = python_output(
        "import ctypes, muster\n"
        f"{first.format(repr(str(driver)))}\n"
        "try:\n"
        "    muster.set_visible_gpus([4, 6])\n"
        "    print('masked')\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
        "    print('late' if 'a library has initialised CUDA' in str(error) else 'other')\n"
    )
    assert output.split()[-1] == last_word
