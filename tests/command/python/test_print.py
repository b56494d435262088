import pytest
from machine import A100

from muster import distributed


def test_prints_what_the_guide_prints(machine, capsys):
    machine.has_a100s(8, used=[1234])
    distributed.print_gpu_info()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "Available GPUs: 8",
        "GPU 0: NVIDIA A100-SXM4-40GB (40536 MB total, 1234 MB used (3.0%), Compute 8.0)",
        "GPU 1: NVIDIA A100-SXM4-40GB (40536 MB total, 0 MB used (0.0%), Compute 8.0)",
    ]
    assert len(lines) == 9


def test_prints_only_the_gpus_that_were_named_in_their_order(machine, capsys):
    machine.has_a100s(8, used=[0, 20268])
    distributed.print_gpu_info([3, 1])
    assert capsys.readouterr().out.splitlines() == [
        "Available GPUs: 8",
        "GPU 3: NVIDIA A100-SXM4-40GB (40536 MB total, 0 MB used (0.0%), Compute 8.0)",
        "GPU 1: NVIDIA A100-SXM4-40GB (40536 MB total, 20268 MB used (50.0%), Compute 8.0)",
    ]


def test_prints_the_count_alone_without_gpus(capsys):
    distributed.print_gpu_info()
    assert capsys.readouterr().out == "Available GPUs: 0\n"


def test_prints_nothing_when_an_id_is_unknown(machine, capsys):
    machine.has_a100s(2)
    with pytest.raises(ValueError, match="no visible GPU 2"):
        distributed.print_gpu_info([0, 2])
    assert capsys.readouterr().out == ""


def test_what_is_not_known_is_printed_as_unknown(machine, capsys):
    instance = {"uuid": "MIG-11112222-3333-4444-5555-666677778888", "memory_total": "10GiB", "name": "1g.10gb"}
    machine.has([{**A100, "compute_capability": None, "mig": [instance]}])
    distributed.print_gpu_info()
    assert capsys.readouterr().out.splitlines()[1] == "GPU 0: 1g.10gb (10240 MB total, use unknown, Compute unknown)"


def test_the_set_up_prints_the_chosen_gpus_and_their_mask(machine, capsys):
    machine.has_a100s(8)
    distributed.setup_gpu_environment(gpu_ids=[4, 6])
    assert capsys.readouterr().out.splitlines() == [
        "Using 2 of 8 GPUs (CUDA_VISIBLE_DEVICES=4,6)",
        "GPU 4: NVIDIA A100-SXM4-40GB (40536 MB total, 0 MB used (0.0%), Compute 8.0)",
        "GPU 6: NVIDIA A100-SXM4-40GB (40536 MB total, 0 MB used (0.0%), Compute 8.0)",
    ]
