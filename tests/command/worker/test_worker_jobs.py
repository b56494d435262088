"""Jobs of muster-worker's through the real launch: how they end well, and how they fail."""

import json
import os
import re
import signal
import stat
import tempfile
from pathlib import Path

import pytest
from worker_jobs import ENDLESS, is_running, wait_until_gone


def kinds_of(events, rank) -> list[str]:
    return [event["event"] for event in events if event["rank"] == rank]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_rank_says_hello_gets_ready_and_is_done_and_rank_0_gives_the_result(start, ranks):
    code, events, errors = start(ranks=ranks).finish()
    assert (code, errors) == (0, "")
    for rank in range(ranks):
        middle = ["result"] if rank == 0 else []
        assert kinds_of(events, rank) == ["hello", "ready", *middle, "done"]
    assert all({"time", "event", "rank"} <= event.keys() for event in events)
    result = json.loads(next(event["row"] for event in events if event["event"] == "result"))
    assert result["ranks"] == ranks and result["device"] == "cpu"
    assert result["collectives"] == (6 if ranks == 1 else 7)


def test_what_torch_throws_becomes_one_sentence_with_a_remedy_and_without_its_stack(start):
    code, events, errors = start(ranks=1, elements=1 << 60).finish()
    assert code == 1
    assert kinds_of(events, 0)[-1] == "failed"
    assert "memory is full" in errors and str(4 << 60) in errors and "try:" in errors
    assert "frame #" not in errors and "Exception raised from" not in errors


def test_a_rank_of_several_that_fails_is_named_and_ends_the_others(start):
    job = start(ranks=3, elements=1 << 60)
    code, events, errors = job.finish()
    assert code == 1 and errors.startswith("rank ")
    assert not any(is_running(event["pid"]) for event in events if event["event"] == "hello")


def test_a_killed_rank_is_the_reason_that_is_given_not_what_its_peers_saw(start):
    job = start(ranks=3, repeats=ENDLESS)
    pids = job.wait_until_ready()
    os.kill(pids[1], signal.SIGKILL)
    code, _, errors = job.finish()
    assert code == 1
    assert "rank 1" in errors and "SIGKILL" in errors
    assert "connection" not in errors
    assert not any(is_running(pid) for pid in pids.values())


def test_a_rank_that_hangs_is_named_by_those_that_waited_for_it(start):
    job = start(ranks=3, repeats=ENDLESS, timeout_ms=6000)
    pids = job.wait_until_ready()
    os.kill(pids[2], signal.SIGSTOP)
    code, _, errors = job.finish()
    assert code == 1
    assert re.search("rank 2 of 3 (did not come to it within 6 s|came to it and then showed no life)", errors), errors
    assert not any(is_running(pid) for pid in pids.values())


def test_no_rank_outlives_a_controlling_program_that_is_killed(start):
    job = start(ranks=2, repeats=ENDLESS)
    pids = job.wait_until_ready()
    job.process.kill()
    wait_until_gone(pids.values())


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_job_with_its_own_exit_code_and_leaves_nothing(start, sent, code):
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        job = start(ranks=2, repeats=ENDLESS, TMPDIR=folder)
        pids = job.wait_until_ready()
        job.process.send_signal(sent)
        assert job.finish()[0] == code
        assert not any(is_running(pid) for pid in pids.values())
        assert os.listdir(folder) == []


def write_worker(folder: Path, text: str) -> str:
    program = folder / "worker"
    program.write_text("#!/bin/sh\n" + text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_the_last_lines_of_a_worker_that_dies_without_a_word_are_quoted(start, tmp_path):
    worker = write_worker(tmp_path, "echo the library is missing >&2\nexit 7\n")
    code, _, errors = start(ranks=1, MUSTER_WORKER=worker).finish()
    assert code == 1
    assert "exit code 7" in errors and "the library is missing" in errors


def test_a_worker_that_ends_well_without_having_worked_is_a_failure(start, tmp_path):
    code, _, errors = start(ranks=2, MUSTER_WORKER=write_worker(tmp_path, "exit 0\n")).finish()
    assert code == 1
    assert "2 of 2 ranks ended without having done their work" in errors


def test_a_worker_that_is_not_there_is_bad_input_with_the_variable_named(start, tmp_path):
    code, _, errors = start(ranks=1, MUSTER_WORKER=str(tmp_path / "none")).finish()
    assert code == 2
    assert "MUSTER_WORKER" in errors and "try:" in errors
