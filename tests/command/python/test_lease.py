import os
import signal
import subprocess
import sys

import pytest
from machine import python, python_output, uuid_of

import muster

HOLD = """
import sys, muster
with muster.lease_gpus({arguments}) as held:
    print(*held.gpus, flush=True)
    sys.stdin.read()
"""


class Holder:
    """Another process with a lease, until it is told to end."""

    def __init__(self, arguments: str):
        self.process = python(HOLD.format(arguments=arguments))
        self.gpus = [int(word) for word in self.process.stdout.readline().split()]

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.communicate("", timeout=300)


def test_a_lease_tells_ids_mask_and_environment(machine):
    machine.has_a100s(8, mask="4,5,6,7")
    with muster.lease_gpus(gpu_ids=[2, 0]) as held:
        assert held.gpus == [2, 0]
        assert held.mask == "6,4"
        assert held.environment["CUDA_VISIBLE_DEVICES"] == "6,4"
        assert held.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"


def test_one_gpu_is_leased_when_nothing_is_said(machine):
    machine.has_a100s(8)
    with muster.lease_gpus() as held:
        assert held.gpus == [0]


def test_two_processes_never_hold_the_same_gpu(machine):
    machine.has_a100s(3)
    with Holder("num_gpus=2") as other:
        assert other.gpus == [0, 1]
        with muster.lease_gpus() as held:
            assert held.gpus == [2]
        with pytest.raises(muster.RefusedError, match=f"GPU 1: leased by pid {other.process.pid}"):
            with muster.lease_gpus(gpu_ids=[1]):
                pass
        with pytest.raises(muster.RefusedError, match="2 GPUs asked for, 1 available"):
            with muster.lease_gpus(num_gpus=2):
                pass
    with muster.lease_gpus(num_gpus=3) as held:
        assert held.gpus == [0, 1, 2]


def test_a_lease_ends_with_its_block_even_by_an_exception(machine):
    machine.has_a100s(1)
    with pytest.raises(KeyError), muster.lease_gpus():
        raise KeyError
    with muster.lease_gpus() as held:
        assert held.gpus == [0]


def test_a_lease_ends_with_a_process_that_is_killed(machine):
    machine.has_a100s(1)
    holder = Holder("")
    holder.process.kill()
    holder.process.wait()
    with muster.lease_gpus() as held:
        assert held.gpus == [0]


def test_waiting_ends_when_the_holder_does(machine):
    machine.has_a100s(1)
    holder = Holder("")
    waiter = python("import muster\nwith muster.lease_gpus(wait='5m') as held: print('had', *held.gpus)")
    assert "waiting" in waiter.stderr.readline()
    holder.__exit__()
    output, _ = waiter.communicate(timeout=300)
    assert output.split() == ["had", "0"]


def test_waiting_lets_other_threads_run_and_ends_with_an_interrupt(machine):
    machine.has_a100s(1)
    with Holder(""):
        waiter = python(
            "import threading, muster\n"
            "def answer():\n"
            "    input()\n"
            "    print('a thread runs', flush=True)\n"
            "threading.Thread(target=answer, daemon=True).start()\n"
            "try:\n"
            "    with muster.lease_gpus(wait=float('inf')): print('had')\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"
        )
        assert "waiting" in waiter.stderr.readline()
        waiter.stdin.write("\n")
        waiter.stdin.flush()
        assert waiter.stdout.readline() == "a thread runs\n"
        waiter.send_signal(signal.SIGINT)
        assert waiter.stdout.readline() == "interrupted\n"
        waiter.communicate(timeout=300)
        assert waiter.returncode == 0


def test_waiting_that_is_over_is_a_refusal_that_names_the_holder(machine):
    machine.has_a100s(1)
    with Holder("") as other, pytest.raises(muster.RefusedError, match=f"leased by pid {other.process.pid}"):
        with muster.lease_gpus(wait=0.01):
            pass


def test_sharing_holds_nothing(machine):
    machine.has_a100s(1)
    with Holder("") as other, muster.lease_gpus(share=True) as shared:
        assert shared.gpus == other.gpus == [0]
        assert "MUSTER_LEASE" not in shared.environment
    with muster.lease_gpus(share=True), muster.lease_gpus() as held:
        assert held.gpus == [0]


def test_a_child_with_the_environment_of_the_lease_may_use_it_and_others_may_not(machine):
    machine.has_a100s(2)
    with muster.lease_gpus(gpu_ids=[1]) as held:
        look = "import muster; print(*[gpu['uuid'] for gpu in muster.get_gpu_info()], muster.select_gpus())"
        inside = python_output(look, env={**os.environ, **held.environment})
        assert inside.split() == [uuid_of(1), "[0]"]
        outside = python_output("import muster; print(muster.select_gpus())")
        assert outside.split() == ["[0]"]


def test_a_child_that_inherits_the_descriptors_keeps_the_lease(machine):
    machine.has_a100s(1)
    with muster.lease_gpus() as held:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            pass_fds=held.file_descriptors,
            env={**os.environ, **held.environment},
        )
    with pytest.raises(muster.RefusedError, match="leased by"), muster.lease_gpus():
        pass
    child.communicate(timeout=300)
    with muster.lease_gpus() as held:
        assert held.gpus == [0]


def test_free_memory_is_asked_for_in_bytes_or_words(machine):
    machine.has_a100s(2, used=[30000])
    for size in ("20GiB", 20 << 30):
        with muster.lease_gpus(min_free=size) as held:
            assert held.gpus == [1]
    with pytest.raises(muster.RefusedError, match="GPU 0: 10.3 GiB free"), muster.lease_gpus(2, min_free="20GiB"):
        pass


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"num_gpus": 0}, "num_gpus=0"),
        ({"gpu_ids": []}, "leases nothing"),
        ({"gpu_ids": [2]}, "no visible GPU 2; available: 0, 1"),
        ({"gpu_ids": [0], "num_gpus": 2}, "1 GPU named, and 2 asked for"),
        ({"min_free": "20G"}, "20G"),
        ({"min_free": -1}, "min_free=-1"),
        ({"wait": -1}, "wait=-1"),
        ({"wait": float("nan")}, "wait=nan"),
        ({"wait": "soon"}, "soon"),
        ({"wait": 1, "share": True}, "contradict"),
    ],
    ids=str,
)
def test_bad_wishes_are_value_errors(machine, arguments, words):
    machine.has_a100s(2)
    with pytest.raises(ValueError) as caught, muster.lease_gpus(**arguments):
        pass
    assert words in str(caught.value)


def test_nothing_can_be_leased_without_gpus():
    with pytest.raises(muster.RefusedError, match="no GPU is visible here"), muster.lease_gpus():
        pass
