"""GPUs on which somebody computes without a lease: a schedule leaves them out, a run waits for them, and both name who it is."""

import json

import pytest

BUSY = "processes: [{pid: 41877, user: alice, command: python train.py, memory: 31GiB}]"
NAMED = "GPU 0 is in use by alice (pid 41877, python train.py, 31.0 GiB), without a lease"


@pytest.fixture
def shared(laboratory):
    """Two GPUs, of which alice has the first."""
    (laboratory.folder / "gpus.yaml").write_text(
        f"gpus:\n  - {{index: 0, memory_total: 80GiB, {BUSY}}}\n  - {{index: 1, memory_total: 80GiB}}\n")
    laboratory.environment["MUSTER_QUEUE_LOOK"] = "50ms"
    return laboratory


def test_a_schedule_leaves_a_stranger_s_gpu_out_and_says_so(shared):
    done = shared.run("run", shared.write(), "--dry-run", "--json")
    assert {tuple(stage["gpus"]) for stage in json.loads(done.stdout)["stages"]} == {(1,)}
    assert f"{NAMED}: it is left out until it is free" in done.stderr


def test_a_run_gives_its_jobs_the_other_gpu(shared):
    done = shared.run("run", shared.write(families=("a",)))
    assert NAMED in done.stderr
    assert {note.mask for note in shared.journal()} == {"1"}


def test_jobs_that_need_a_stranger_s_gpu_are_planned_and_wait_for_it(shared):
    file = shared.write(families=("a",), rounds_of_training=1)
    done = shared.run("run", file, "train.gpus=2", "--dry-run", "--json")
    assert [0, 1] in [stage["gpus"] for stage in json.loads(done.stdout)["stages"]]
    assert f"{NAMED}: the jobs need it, and wait until it is free" in done.stderr
    runner = shared.start("run", file, "train.gpus=2")
    why = shared.until(lambda: "alice" in (said := shared.run("queue", "why", 2, status=None).stdout) and said)
    assert "without a lease" in why and runner.poll() is None
    shared.set_gpus(2)
    _, errors = runner.communicate(timeout=120)
    assert runner.returncode == 0, errors
    assert "0,1" in {note.mask for note in shared.journal() if note.stage.endswith(".train")}
