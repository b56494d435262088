import json

import pytest
from machine import A100, python, uuid_of

import muster
from muster import distributed
from muster.distributed import select_gpus

# 8 GPUs of 40536 MiB; this much is in use.
USED = [30000, 0, 10000, 0, 40000, 0, 0, 20000]

CHOSEN = [
    ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
    ({"gpu_ids": [0]}, [0]),
    ({"gpu_ids": [6, 0, 3]}, [6, 0, 3]),
    ({"gpu_ids": (2, 1)}, [2, 1]),
    ({"gpu_ids": range(4)}, [0, 1, 2, 3]),
    ({"gpu_ids": [7, 6], "num_gpus": 2}, [7, 6]),
    ({"gpu_ids": [2], "min_memory_mb": 30536}, [2]),
    ({"gpu_ids": [uuid_of(5), 1]}, [5, 1]),
    ({"gpu_ids": []}, []),
    ({"num_gpus": 1}, [0]),
    ({"num_gpus": 3}, [0, 1, 2]),
    ({"num_gpus": 8}, [0, 1, 2, 3, 4, 5, 6, 7]),
    ({"min_memory_mb": 0}, [0, 1, 2, 3, 4, 5, 6, 7]),
    ({"min_memory_mb": 32000}, [1, 3, 5, 6]),
    ({"min_memory_mb": 30536}, [1, 2, 3, 5, 6]),
    ({"min_memory_mb": 30537}, [1, 3, 5, 6]),
    ({"num_gpus": 2, "min_memory_mb": 32000}, [1, 3]),
]

IMPOSSIBLE = [
    ({"gpu_ids": [8]}, ValueError, "no visible GPU 8; available: 0, 1, 2, 3, 4, 5, 6, 7"),
    ({"gpu_ids": [0, 9, 12]}, ValueError, "no visible GPU 9, 12; available: 0, 1"),
    ({"gpu_ids": [-1]}, ValueError, "no visible GPU -1"),
    ({"gpu_ids": [1, 2, 1]}, ValueError, "GPU 1 is named twice"),
    ({"gpu_ids": [1, uuid_of(1)]}, ValueError, "is named twice"),
    ({"gpu_ids": ["GPU-ffff"]}, ValueError, "no visible GPU GPU-ffff"),
    ({"gpu_ids": [0, 1], "num_gpus": 3}, ValueError, "2 GPUs named, and 3 asked for"),
    ({"gpu_ids": [], "num_gpus": 3}, ValueError, "no GPU named, and 3 asked for"),
    ({"num_gpus": 0}, ValueError, "num_gpus=0"),
    ({"num_gpus": -1}, ValueError, "num_gpus=-1"),
    ({"num_gpus": 10**30}, ValueError, "num_gpus=1000"),
    ({"min_memory_mb": -5}, ValueError, "min_memory_mb"),
    ({"min_memory_mb": 10**30}, ValueError, "min_memory_mb"),
    ({"gpu_ids": "0,2"}, TypeError, "is not a list"),
    ({"gpu_ids": 3}, TypeError, "is not a list"),
    ({"gpu_ids": [1.0]}, TypeError, "not a whole number"),
    ({"gpu_ids": [True]}, TypeError, "not a whole number"),
    ({"num_gpus": 2.0}, TypeError, "not a whole number"),
    ({"num_gpus": True}, TypeError, "not a whole number"),
    ({"num_gpus": 9}, muster.RefusedError, "9 GPUs asked for, 8 available"),
    ({"min_memory_mb": 40537}, muster.RefusedError, "GPU 7: 20.1 GiB free, 39.6 GiB needed"),
    ({"num_gpus": 5, "min_memory_mb": 32000}, muster.RefusedError, "GPU 0: 10.3 GiB free, 31.2 GiB needed"),
    ({"gpu_ids": [4, 1], "min_memory_mb": 32000}, muster.RefusedError, "GPU 4: 536 MiB free, 31.2 GiB needed"),
]


@pytest.mark.parametrize("asked, chosen", CHOSEN, ids=[str(case[0]) for case in CHOSEN])
def test_selects(machine, asked, chosen):
    machine.has_a100s(8, used=USED)
    assert select_gpus(**asked) == chosen


@pytest.mark.parametrize("asked, error, words", IMPOSSIBLE, ids=[str(case[0]) for case in IMPOSSIBLE])
def test_refuses_with_the_right_words(machine, asked, error, words):
    machine.has_a100s(8, used=USED)
    with pytest.raises(error) as caught:
        select_gpus(**asked)
    assert words in str(caught.value)


def test_ids_are_relative_to_the_mask(machine):
    machine.has_a100s(8, used=USED, mask="7,6,5")
    assert select_gpus() == [0, 1, 2]
    assert select_gpus(min_memory_mb=32000) == [1, 2]
    with pytest.raises(ValueError, match="no visible GPU 3; available: 0, 1, 2"):
        select_gpus(gpu_ids=[3])


def test_without_gpus_nothing_asked_for_gives_nothing():
    assert select_gpus() == []


@pytest.mark.parametrize("mask", ["", "-1", "NoDevFiles"])
def test_behind_a_mask_that_hides_all_nothing_asked_for_gives_nothing(machine, mask):
    machine.has_a100s(8, mask=mask)
    assert select_gpus() == []


def test_without_gpus_a_count_is_refused_and_ids_are_unknown():
    with pytest.raises(muster.RefusedError, match="no GPU is visible here"):
        select_gpus(num_gpus=1)
    with pytest.raises(muster.RefusedError, match="no GPU is visible here"):
        select_gpus(min_memory_mb=1)
    with pytest.raises(ValueError, match="no visible GPU 0; no GPU is visible here"):
        select_gpus(gpu_ids=[0])


def test_gpus_that_are_all_busy_are_a_refusal_and_not_an_empty_list(machine):
    machine.has_a100s(1)
    with muster.lease_gpus(), pytest.raises(muster.RefusedError, match="GPU 0: leased by pid"):
        select_gpus()


def test_leased_and_unhealthy_gpus_are_passed_over_and_named(machine):
    machine.has(
        [
            {**A100, "uuid": uuid_of(0)},
            {**A100, "uuid": uuid_of(1), "healthy": False, "unhealthy_because": "row remap pending"},
            {**A100, "uuid": uuid_of(2)},
        ]
    )
    with muster.lease_gpus(gpu_ids=[0]):
        assert select_gpus() == [2]
        with pytest.raises(muster.RefusedError) as caught:
            select_gpus(num_gpus=2)
    assert "GPU 0: leased by pid" in str(caught.value)
    assert "GPU 1: unhealthy: row remap pending" in str(caught.value)


def test_a_refusal_is_a_runtime_error_of_muster_and_tells_what_to_try(machine):
    machine.has_a100s(2)
    with pytest.raises(RuntimeError) as caught:
        select_gpus(num_gpus=3)
    assert type(caught.value) is muster.RefusedError
    assert muster.RefusedError.__module__ == "muster"
    assert "\n  try: " in str(caught.value)


def test_whole_numbers_of_numpy_are_ids(machine):
    machine.has_a100s(4)
    code = "import json, numpy, muster; print(json.dumps(muster.select_gpus(list(numpy.array([3, 1])))))"
    output, errors = python(code).communicate(timeout=300)
    assert json.loads(output or "null") == [3, 1], errors


GIB_40 = {"memory_total": "40GiB"}
GIB_80 = {"memory_total": "80GiB"}


@pytest.mark.parametrize(
    "gpus, size, margin, expected_count",
    [
        (8 * [GIB_40], 14, 1.5, 1),
        (8 * [GIB_40], 140, 1.5, 6),
        (4 * [GIB_80], 140, 1.5, 3),
        (8 * [GIB_40], 40, 1.0, 1),
        (8 * [GIB_40], 40.001, 1.0, 2),
        (8 * [GIB_40], 320, 1.0, 8),
    ],
)
def test_takes_the_smallest_set_that_holds_a_model(machine, gpus, size, margin, expected_count):
    machine.has(gpus)
    assert distributed.auto_select_gpus_for_model(size, safety_margin=margin) == list(range(expected_count))


@pytest.mark.parametrize("gpus", [8 * [GIB_40], 4 * [GIB_80]])
def test_a_model_too_big_is_refused_with_the_shortfall(machine, gpus):
    machine.has(gpus)
    with pytest.raises(muster.RefusedError, match="1216 GiB are missing|1.2 TiB are missing"):
        distributed.auto_select_gpus_for_model(1024)


def test_a_model_goes_where_memory_is_free(machine):
    machine.has_a100s(3, used=[40000, 0, 30000])
    assert distributed.auto_select_gpus_for_model(14) == [1]


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf")])
def test_a_model_of_no_size_is_bad_input(machine, size):
    machine.has_a100s(1)
    with pytest.raises(ValueError, match="model_size_gb"):
        distributed.auto_select_gpus_for_model(size)


def test_a_margin_of_no_use_is_bad_input(machine):
    machine.has_a100s(1)
    with pytest.raises(ValueError, match="margin of -1"):
        distributed.auto_select_gpus_for_model(14, safety_margin=-1)


def test_a_model_without_gpus_is_refused():
    with pytest.raises(muster.RefusedError, match="are missing"):
        distributed.auto_select_gpus_for_model(14)
