"""muster-worker by itself: what it says to whoever controls it, and what it does when that is nobody."""

import subprocess

import pytest
from worker_jobs import PATIENCE, WORKER, assignment, environment


def test_started_by_hand_it_says_that_muster_starts_it():
    for words in ([], ["--help"]):
        result = subprocess.run([WORKER, *words], env=environment(), capture_output=True, text=True, timeout=PATIENCE)
        assert result.returncode == 2
        assert "muster starts it" in result.stderr and result.stdout == ""


def test_it_does_what_it_is_told_and_ends_with_0(controller):
    worker = controller.start_worker()
    hello = controller.hear()
    assert (hello["event"], hello["rank"], hello["version"], hello["pid"]) == ("hello", 0, 1, worker.pid)
    controller.say(**assignment())
    assert [controller.hear()["event"] for _ in range(3)] == ["ready", "result", "done"]
    _, errors = worker.communicate(timeout=PATIENCE)
    assert (worker.returncode, errors) == (0, "")


@pytest.mark.parametrize("told", [True, False])
def test_it_ends_when_the_controlling_program_is_gone(controller, told):
    worker = controller.start_worker()
    controller.hear()
    if told:
        controller.say(**assignment(task={"kind": "collective-check", "elements": 10, "repeats": 2**31 - 1}))
        assert controller.hear()["event"] == "ready"
    controller.close()
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 1
    assert ("is gone" if told else "no assignment came") in errors


def test_an_assignment_of_another_version_is_refused_with_both_versions(controller):
    worker = controller.start_worker()
    controller.hear()
    controller.say(order="assignment", version=99)
    _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 1
    assert "version 99" in errors and "version 1" in errors


def test_a_place_that_makes_no_sense_is_named(controller):
    result = subprocess.run(
        [WORKER],
        env=environment(RANK="4", WORLD_SIZE="2", LOCAL_RANK="0", MUSTER_CONTROL=str(controller.address)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 2
    assert 'RANK is "4"' in result.stderr


def test_a_gpu_that_torch_does_not_see_is_refused(controller):
    worker = controller.start_worker(CUDA_VISIBLE_DEVICES="")
    controller.hear()
    controller.say(**assignment(device="cuda", backend="nccl"))
    failed = controller.hear()
    assert failed["event"] == "failed" and failed["kind"] == "refused"
    assert "torch sees 0" in failed["what"]
    worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 3
