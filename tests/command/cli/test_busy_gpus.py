"""GPUs on which somebody computes without a lease: no command takes one by itself."""

import json
import pathlib

import pytest

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples/eight_gpus.yaml"


@pytest.fixture
def shared(muster):
    """The machine of the README: GPU 3 is alice's, who holds no lease; GPU 7 is sick."""
    muster.environment["MUSTER_GPUS"] = str(EXAMPLE)
    return muster


ECHO = ("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")


def test_pick_leaves_a_busy_gpu_alone(shared):
    assert shared("gpus", "pick", "-n", "6").stdout == "0,1,2,4,5,6\n"
    refused = shared("gpus", "pick", "-n", "7")
    assert refused.returncode == 3 and refused.stdout == ""
    assert "7 GPUs asked for, 6 available" in refused.stderr
    assert "GPU 3: in use by alice (pid 41877, python train.py, 31.0 GiB), without a lease" in refused.stderr
    assert "--share" in refused.stderr and "--wait" not in refused.stderr, "pick has the one option and not the other"


def test_options_that_say_how_much_use_is_acceptable_include_it(shared):
    assert shared("gpus", "pick", "-n", "7", "--share").stdout == "0,1,2,4,5,6,3\n"
    assert shared("gpus", "pick", "-n", "7", "--free", "5GiB").stdout == "0,1,2,4,5,6,3\n"
    assert shared("gpus", "pick", "-n", "7", "--max-utilization", "99").stdout == "0,1,2,4,5,6,3\n"
    assert shared("gpus", "pick", "-n", "7", "--max-utilization", "50").returncode == 3


def test_the_order_of_choice_does_not_depend_on_the_filter(shared):
    plain = shared("gpus", "pick", "-n", "2").stdout
    assert plain == shared("gpus", "pick", "-n", "2", "--free", "20GiB").stdout == "0,1\n"
    assert plain == shared("gpus", "pick", "-n", "2", "--max-utilization", "10").stdout
    assert plain == shared("gpus", "hold", "-n", "2", *ECHO).stdout


def test_a_named_busy_gpu_is_refused_with_its_user_and_the_way_out(shared):
    for command in (("gpus", "pick"), ("gpus", "hold"), ("launch",)):
        tail = () if command == ("gpus", "pick") else ECHO
        refused = shared(*command, "--gpu-ids", "3", *tail)
        assert refused.returncode == 3, refused.stderr
        assert "alice (pid 41877" in refused.stderr and "--share" in refused.stderr
        granted = shared(*command, "--gpu-ids", "3", "--share", *tail)
        assert granted.returncode == 0 and granted.stdout == "3\n", granted.stderr


def test_hold_and_launch_take_idle_ones(shared):
    assert shared("gpus", "hold", "-n", "6", *ECHO).stdout == "0,1,2,4,5,6\n"
    assert shared("launch", "-n", "6", "--nproc-per-node", "1", *ECHO).stdout == "0,1,2,4,5,6\n"


def test_launch_as_torchrun_does_not_start_on_a_busy_gpu(shared):
    refused = shared("launch", "--nproc-per-node", "4", "--", "true")
    assert refused.returncode == 3 and "alice (pid 41877" in refused.stderr
    assert shared("launch", "--nproc-per-node", "3", "--", "true").returncode == 0
    assert shared("launch", "--nproc-per-node", "4", "--share", "--", "true").returncode == 0


def test_a_lease_on_a_busy_gpu_is_taken_knowingly_and_says_so(shared):
    held = shared("gpus", "hold", "--gpu-ids", "3", "--free", "5GiB", *ECHO)
    assert held.stdout == "3\n" and "GPU 3 is in use by alice" in held.stderr


def test_inside_a_lease_its_gpus_are_taken_as_they_are(shared):
    inner = [str(shared.program), "gpus", "pick"]
    held = shared("gpus", "hold", "--gpu-ids", "3", "--free", "5GiB", "--", *inner)
    assert held.stdout == "3\n", held.stderr


def test_a_screen_does_not_make_a_gpu_busy(muster):
    muster.inventory(
        "gpus:\n  - memory_total: 24GiB\n    processes:\n"
        "      - {pid: 900, user: root, command: /usr/lib/xorg/Xorg, memory: 600MiB, graphics: true}\n"
        "      - {pid: 901, user: root, command: nvidia-cuda-mps-server, memory: 30MiB}\n"
    )
    assert muster("gpus", "pick").stdout == "0\n"
    shown = json.loads(muster("gpus", "--json").stdout)["gpus"][0]["processes"]
    assert [process["graphics"] for process in shown] == [True, False]


def test_a_semicolon_in_the_mask_is_refused_not_cut(shared):
    refused = shared("gpus", "pick", CUDA_VISIBLE_DEVICES="0;1")
    assert refused.returncode == 2 and '"0;1" is not one GPU' in refused.stderr and "commas" in refused.stderr


def test_the_table_tells_a_screen_from_work(muster):
    muster.inventory("gpus: [{memory_total: 24GiB, processes: [{pid: 900, user: root, memory: 600MiB, graphics: true}]}]\n")
    assert "free; graphics by root (pid 900, 600 MiB)" in muster("gpus").stdout
