import json
import os

import fake_torch
import pytest
from machine import A100, python_output, uuid_of

import muster
from muster import distributed
from muster.distributed import get_optimal_device, set_visible_gpus, setup_gpu_environment

COMPOSED = [
    (None, [0, 2, 4, 6], "0,2,4,6"),
    (None, [7, 0], "7,0"),
    (None, [uuid_of(3)], "3"),
    (None, [], ""),
    ("4,5,6,7", [0, 1], "4,5"),
    ("4,5,6,7", [3, 0], "7,4"),
    ("4,5,6,7", [], ""),
    ("", [], ""),
    ("7,6,5", [2], "5"),
    (" 1 , 3", [1, 0], "3,1"),
    (f"{uuid_of(6)},{uuid_of(2)}", [1], uuid_of(2)),
    (f"{uuid_of(6)},{uuid_of(2)}", [1, 0], f"{uuid_of(2)},{uuid_of(6)}"),
    ("GPU-6a6b,GPU-2a", [0], "GPU-6a6b"),
]


@pytest.mark.parametrize("inherited, ids, mask", COMPOSED)
def test_a_mask_is_composed_from_the_inherited_one(machine, inherited, ids, mask):
    machine.has_a100s(8, mask=inherited)
    set_visible_gpus(ids)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == mask
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert distributed.get_available_gpus() == list(range(len(ids)))


@pytest.mark.parametrize(
    "inherited, ids, words",
    [
        ("4,5", [2], "no visible GPU 2; available: 0, 1"),
        ("4,5", [4], "no visible GPU 4; available: 0, 1"),
        ("4,5", [uuid_of(0)], "no visible GPU GPU-0"),
        ("", [0], "no GPU is visible here"),
        (None, [1, 1], "named twice"),
        ("0,9,1", [0], "there is no GPU 9"),
        ("1,1", [0], "named twice"),
    ],
)
def test_a_mask_never_widens_and_what_is_refused_changes_nothing(machine, inherited, ids, words):
    machine.has_a100s(8, mask=inherited)
    with pytest.raises(ValueError) as caught:
        set_visible_gpus(ids)
    assert words in str(caught.value)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == inherited
    assert "CUDA_DEVICE_ORDER" not in os.environ


def test_a_mig_instance_is_named_by_its_uuid(machine):
    instances = [{"uuid": f"MIG-{n}111", "memory_total": "10GiB"} for n in range(2)]
    machine.has([{**A100, "mig": instances}])
    set_visible_gpus([1])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "MIG-1111"


def test_two_mig_instances_in_one_mask_are_refused(machine):
    machine.has([{**A100, "mig": [{"uuid": f"MIG-{n}111", "memory_total": "10GiB"} for n in range(2)]}])
    with pytest.raises(muster.RefusedError, match="one MIG instance"):
        set_visible_gpus([0, 1])
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_masks_compose_when_they_are_set_twice(machine):
    machine.has_a100s(8)
    set_visible_gpus([2, 4, 6])
    set_visible_gpus([2, 0])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6,2"


def test_a_child_process_sees_the_mask_and_counts_from_0(machine):
    machine.has_a100s(8, mask="4,5,6,7")
    set_visible_gpus([0, 1])
    seen = json.loads(
        python_output(
            "import ctypes, json, os, muster\n"
            "getenv = ctypes.CDLL(None).getenv\n"
            "getenv.restype = ctypes.c_char_p\n"
            "print(json.dumps([os.environ['CUDA_VISIBLE_DEVICES'], getenv(b'CUDA_VISIBLE_DEVICES').decode(),\n"
            "  os.environ['CUDA_DEVICE_ORDER'], muster.get_available_gpus(),\n"
            "  [gpu['index'] for gpu in muster.get_gpu_info()]]))"
        )
    )
    assert seen == ["4,5", "4,5", "PCI_BUS_ID", [0, 1], [4, 5]]


def test_the_best_device_counts_within_the_mask(machine):
    machine.has_a100s(8)
    assert get_optimal_device() == "cuda:0"
    assert get_optimal_device([2]) == "cuda:2"
    assert get_optimal_device([5, 2]) == "cuda:5"
    assert get_optimal_device([uuid_of(6)]) == "cuda:6"
    assert get_optimal_device([]) == "cpu"


def test_the_best_device_after_a_mask_is_the_first_of_it(machine):
    machine.has_a100s(8)
    set_visible_gpus([4, 6])
    assert get_optimal_device() == "cuda:0"
    assert get_optimal_device([4, 6]) == "cuda:0"
    assert get_optimal_device([1]) == "cuda:1"
    with pytest.raises(ValueError, match="no visible GPU 6; available: 0, 1"):
        get_optimal_device([6])


def test_ids_of_an_earlier_mask_mean_nothing_once_another_is_set(machine):
    machine.has_a100s(8)
    set_visible_gpus([4, 6])
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3,4,5,6,7"
    assert get_optimal_device([4, 6]) == "cuda:4"


def test_without_gpus_the_best_device_is_the_cpu_but_a_named_gpu_is_an_error():
    assert get_optimal_device() == "cpu"
    with pytest.raises(ValueError, match="no visible GPU 0"):
        get_optimal_device([0])


def test_the_device_is_one_of_torch_where_torch_is_imported(machine, monkeypatch):
    machine.has_a100s(2)
    fake_torch.install(monkeypatch, initialized=False)
    assert get_optimal_device([1]) == ("torch.device", "cuda:1")
    assert setup_gpu_environment(gpu_ids=[]) == ("torch.device", "cpu")


@pytest.mark.parametrize(
    "asked, mask, device",
    [
        ({}, "0,1,2,3,4,5,6,7", "cuda:0"),
        ({"num_gpus": 2}, "0,1", "cuda:0"),
        ({"gpu_ids": [4, 6]}, "4,6", "cuda:0"),
        ({"gpu_ids": [2, 3, 5, 7]}, "2,3,5,7", "cuda:0"),
        ({"gpu_ids": []}, "", "cpu"),
    ],
)
def test_the_set_up_masks_and_returns_the_first_device_of_the_mask(machine, asked, mask, device):
    machine.has_a100s(8)
    assert setup_gpu_environment(**asked) == device
    assert os.environ["CUDA_VISIBLE_DEVICES"] == mask


def test_the_set_up_without_gpus_uses_the_cpu_and_says_why(capsys):
    assert setup_gpu_environment() == "cpu"
    assert capsys.readouterr().out.startswith("Using the CPU: ")


def test_the_set_up_never_falls_back_to_the_cpu_when_gpus_were_asked_for():
    with pytest.raises(muster.RefusedError):
        setup_gpu_environment(num_gpus=1)
    with pytest.raises(ValueError):
        setup_gpu_environment(gpu_ids=[0])
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_below_a_launcher_each_rank_gets_the_gpu_at_its_place(machine):
    machine.has_a100s(8)
    os.environ["LOCAL_RANK"] = "2"
    assert get_optimal_device() == "cuda:2"
    assert get_optimal_device([7, 6, 5]) == "cuda:5"
    assert get_optimal_device([7]) == "cuda:7"
    assert setup_gpu_environment(num_gpus=4) == "cuda:2"


def test_a_rank_with_a_mask_of_one_gpu_uses_that(machine):
    machine.has_a100s(8, mask="5")
    os.environ["LOCAL_RANK"] = "3"
    assert get_optimal_device() == "cuda:0"
    assert distributed.get_current_gpu_index() == 0


@pytest.mark.parametrize("rank", ["4", "-1", "first"])
def test_a_rank_that_finds_no_gpu_at_its_place_is_an_error(machine, rank):
    machine.has_a100s(4)
    os.environ["LOCAL_RANK"] = rank
    with pytest.raises(RuntimeError, match=f"LOCAL_RANK={rank}, and 4 GPUs are visible"):
        get_optimal_device()
