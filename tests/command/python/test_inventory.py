import os

import pytest
from machine import A100, uuid_of

import muster
from muster import distributed


@pytest.mark.parametrize("count", [0, 1, 8])
def test_lists_the_visible_ids(machine, count):
    machine.has_a100s(count)
    assert distributed.get_available_gpus() == list(range(count))


def test_lists_nothing_without_a_driver():
    assert distributed.get_available_gpus() == []
    assert distributed.get_gpu_info() == []


@pytest.mark.parametrize("mask, count", [("", 0), ("-1", 0), ("4,5,6,7", 4), (uuid_of(3), 1)])
def test_lists_only_what_the_mask_shows(machine, mask, count):
    machine.has_a100s(8, mask=mask)
    assert distributed.get_available_gpus() == list(range(count))


def test_the_environment_is_read_anew_on_each_call(machine):
    machine.has_a100s(8)
    assert len(distributed.get_available_gpus()) == 8
    os.environ["CUDA_VISIBLE_DEVICES"] = "1,2"
    assert len(distributed.get_available_gpus()) == 2
    machine.has_a100s(1)
    assert len(distributed.get_available_gpus()) == 1


def test_tells_every_fact_of_a_gpu(machine):
    machine.has_a100s(8, used=[0, 0, 0, 0, 536], mask="4")
    assert distributed.get_gpu_info() == [
        {
            "id": 0,
            "name": "NVIDIA A100-SXM4-40GB",
            "compute_capability": "8.0",
            "memory_total": 40536,
            "multi_processor_count": 108,
            "uuid": uuid_of(4),
            "index": 4,
            "memory_used": 536,
            "memory_free": 40000,
            "utilization": None,
            "lease": None,
        }
    ]


def test_what_is_not_known_is_none(machine):
    machine.has([{"memory_total": "24GiB", "memory_used": None, "compute_capability": None, "name": None}])
    (info,) = distributed.get_gpu_info()
    assert info["compute_capability"] is None
    assert info["multi_processor_count"] is None
    assert info["memory_total"] == 24576


def test_names_who_leases_a_gpu(machine):
    machine.has_a100s(2)
    with muster.lease_gpus(gpu_ids=[1]):
        leases = [info["lease"] for info in distributed.get_gpu_info()]
    assert leases[0] is None
    assert leases[1]["pid"] == os.getpid()
    assert set(leases[1]) == {"pid", "user", "command", "since"}


def test_a_mig_instance_is_told_by_its_own_size(machine):
    instance = {"uuid": "MIG-11112222-3333-4444-5555-666677778888", "memory_total": "10GiB", "name": "1g.10gb"}
    machine.has([{**A100, "uuid": uuid_of(0), "memory_used": "5GiB", "mig": [instance]}])
    (info,) = distributed.get_gpu_info()
    assert info["uuid"] == instance["uuid"]
    assert info["name"] == "1g.10gb"
    assert info["memory_total"] == 10240
    assert info["memory_used"] is None
    assert info["multi_processor_count"] is None


def test_a_mask_that_cuda_would_cut_is_refused_with_the_reason(machine):
    machine.has_a100s(4, mask="0,9,1")
    with pytest.raises(ValueError, match="there is no GPU 9"):
        distributed.get_available_gpus()


def test_an_inventory_that_is_not_there_is_an_error_that_names_it(tmp_path):
    os.environ["MUSTER_GPUS"] = str(tmp_path / "missing.yaml")
    with pytest.raises((RuntimeError, ValueError), match="missing.yaml"):
        distributed.get_available_gpus()


def test_memory_usage_is_device_wide(machine):
    machine.has_a100s(2, used=[1234])
    used, total, percent = distributed.get_gpu_memory_usage(0)
    assert (used, total) == (1234, 40536)
    assert percent == pytest.approx(100 * 1234 / 40536)
    assert distributed.get_gpu_memory_usage(1) == (0, 40536, 0.0)
    assert distributed.get_gpu_memory_usage() == distributed.get_gpu_memory_usage(0)


@pytest.mark.parametrize("gpu_id", [-1, 2])
def test_memory_usage_of_no_gpu_is_an_error_that_lists_those_there_are(machine, gpu_id):
    machine.has_a100s(2)
    with pytest.raises(ValueError, match=f"no visible GPU {gpu_id}; available: 0, 1"):
        distributed.get_gpu_memory_usage(gpu_id)


def test_memory_usage_that_is_not_reported_is_an_error_not_a_zero(machine):
    instance = {"uuid": "MIG-11112222-3333-4444-5555-666677778888", "memory_total": "10GiB"}
    machine.has([{**A100, "mig": [instance]}])
    with pytest.raises(RuntimeError, match="does not report"):
        distributed.get_gpu_memory_usage(0)
