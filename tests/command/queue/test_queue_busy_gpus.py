"""GPUs on which somebody computes without a lease: jobs wait for them, and are told for whom."""

import fcntl
import json

import pytest

BUSY = "processes: [{pid: 41877, user: alice, command: python train.py, memory: 31GiB}]"


@pytest.fixture
def watchful(queue):
    queue.environment["MUSTER_QUEUE_LOOK"] = "50ms"
    return queue


def replace(queue, text: str):
    (queue.folder / "next.yaml").write_text(text)
    (queue.folder / "next.yaml").rename(queue.folder / "gpus.yaml")


def test_a_job_takes_the_idle_gpu_and_the_next_waits_for_the_stranger(watchful):
    replace(watchful, f"gpus:\n  - {{index: 0, memory_total: 80GiB, {BUSY}}}\n  - {{index: 1, memory_total: 80GiB}}\n")
    (first,) = watchful.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES > used; exec sleep 1000", options=["-n", 1])
    used = watchful.folder / "used"
    assert watchful.until(lambda: used.exists() and used.read_text()) == "1\n"
    (second,) = watchful.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES > then", options=["-n", 1])
    told = watchful.until(lambda: "alice" in (said := watchful.run("queue", "why", second).stdout) and said)
    assert "pid 41877" in told and "without a lease" in told
    assert watchful.state_of(second) == "ready"
    replace(watchful, "gpus:\n  - {index: 0, memory_total: 80GiB}\n  - {index: 1, memory_total: 80GiB}\n")
    watchful.run("wait", second)
    assert (watchful.folder / "then").read_text() == "0\n"
    assert watchful.jobs()[second]["attempts"] == 1, "waiting costs no attempt"


def journal_lines(queue) -> int:
    return len((queue.state / "journal.jsonl").read_text().splitlines())


def test_a_shared_lock_of_a_stranger_keeps_a_job_waiting_and_the_journal_short(watchful):
    replace(watchful, "gpus:\n  - {index: 0, memory_total: 80GiB}\n")
    (warm,) = watchful.submit("true", options=["-n", 1])
    watchful.run("wait", warm)
    (lock,) = (watchful.folder / "leases").glob("GPU-*.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        (job,) = watchful.submit("true", options=["-n", 1])
        told = watchful.until(lambda: "shared lock" in (said := watchful.run("queue", "why", job).stdout) and said)
        assert "and no lease" in told
        shown = json.loads(watchful.run("gpus", "--json").stdout)["gpus"][0]
        assert shown["lease"] is not None, "it is not free"
        before = journal_lines(watchful)
        for _ in range(20):  # the conductor looks meanwhile
            watchful.run("queue")
        assert journal_lines(watchful) <= before + 2
    watchful.run("wait", job)
