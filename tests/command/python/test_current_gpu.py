import os

import fake_torch
import pytest
from machine import python_output

from muster.distributed import (
    clear_gpu_cache,
    get_current_gpu_index,
    get_gpu_memory_info,
    set_gpu_device,
    set_visible_gpus,
)

MIB = 1 << 20


def test_there_is_no_current_gpu_without_gpus():
    assert get_current_gpu_index() is None


def test_the_current_gpu_is_the_first_or_that_of_the_local_rank(machine):
    machine.has_a100s(4)
    assert get_current_gpu_index() == 0
    os.environ["LOCAL_RANK"] = "3"
    assert get_current_gpu_index() == 3


def test_the_current_gpu_is_the_one_that_was_set(machine):
    machine.has_a100s(4)
    set_gpu_device(2)
    assert get_current_gpu_index() == 2


def test_a_new_mask_forgets_the_gpu_that_was_set(machine):
    machine.has_a100s(4)
    set_gpu_device(2)
    set_visible_gpus([0, 1, 3])
    assert get_current_gpu_index() == 0


def test_the_current_gpu_is_that_of_torch_once_it_has_initialised_cuda(machine, monkeypatch):
    machine.has_a100s(4)
    torch = fake_torch.install(monkeypatch, initialized=False, current_device=3)
    assert get_current_gpu_index() == 0
    torch.initialized = True
    assert get_current_gpu_index() == 3


def test_setting_the_gpu_sets_that_of_torch(machine, monkeypatch):
    machine.has_a100s(4)
    torch = fake_torch.install(monkeypatch, initialized=True)
    set_gpu_device(1)
    assert torch.set_device == [1]
    assert get_current_gpu_index() == 1


@pytest.mark.parametrize("gpu_id", [-1, 4])
def test_setting_a_gpu_that_is_not_visible_is_an_error(machine, monkeypatch, gpu_id):
    machine.has_a100s(4)
    torch = fake_torch.install(monkeypatch, initialized=True)
    with pytest.raises(ValueError, match=f"no visible GPU {gpu_id}; available: 0, 1, 2, 3"):
        set_gpu_device(gpu_id)
    assert torch.set_device == []


def test_memory_without_torch_is_that_of_the_device(machine):
    machine.has_a100s(2, used=[536])
    assert get_gpu_memory_info(0) == {
        "allocated": None,
        "reserved": None,
        "max_allocated": None,
        "total": 40536 * MIB,
        "used": 536 * MIB,
        "free": 40000 * MIB,
    }


def test_memory_with_torch_has_the_numbers_of_this_process_beside_it(machine, monkeypatch):
    machine.has_a100s(2, used=[0, 536])
    fake_torch.install(monkeypatch, initialized=True, current_device=1)
    expected = {
        "allocated": 1001,
        "reserved": 2001,
        "max_allocated": 3001,
        "total": 40536 * MIB,
        "used": 536 * MIB,
        "free": 40000 * MIB,
    }
    assert get_gpu_memory_info(1) == expected
    assert get_gpu_memory_info() == expected


def test_memory_where_torch_has_not_initialised_cuda_is_not_guessed(machine, monkeypatch):
    machine.has_a100s(1)
    fake_torch.install(monkeypatch, initialized=False)
    assert get_gpu_memory_info()["allocated"] is None


def test_memory_without_gpus_is_not_known_and_a_named_gpu_is_an_error():
    assert set(get_gpu_memory_info().values()) == {None}
    with pytest.raises(ValueError, match="no visible GPU 0; no GPU is visible here"):
        get_gpu_memory_info(0)


def test_the_cache_is_cleared_only_where_there_is_one(monkeypatch):
    assert clear_gpu_cache() is False
    torch = fake_torch.install(monkeypatch, initialized=False)
    assert clear_gpu_cache() is False
    torch.initialized = True
    assert clear_gpu_cache() is True
    assert torch.emptied == 1


def test_the_real_torch_without_cuda_is_left_alone(machine):
    machine.has_a100s(2)
    output = python_output(
        "import torch, muster\n"
        "print(muster.get_current_gpu_index(), muster.clear_gpu_cache(), muster.get_gpu_memory_info(1)['allocated'],\n"
        "      torch.cuda.is_initialized())"
    )
    assert output.split() == ["0", "False", "None", "False"]
