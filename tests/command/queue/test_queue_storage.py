"""A queue stays small: settled jobs leave its journal, and can be forgotten."""

import json
import os

import pytest


@pytest.fixture
def short(queue):
    """A queue that keeps five settled jobs in its journal."""
    queue.environment["MUSTER_QUEUE_KEPT"] = "5"
    return queue


def journal(queue) -> list[dict]:
    return [json.loads(line) for line in (queue.state / "journal.jsonl").read_text().splitlines()]


def run_many(queue, text: str = "echo {1..150}; exit $((MUSTER_JOB == 3 ? 7 : 0))\n") -> list[str]:
    """Jobs until the journal was shortened; job 3 fails."""
    jobs = queue.submit(options=["-n", 0], text=text)
    queue.run("wait", *jobs, status=None)
    queue.until(lambda: journal(queue)[0]["event"] == "snapshot")
    return jobs


def test_settled_jobs_leave_the_journal_and_stay_known(short):
    jobs = run_many(short)
    assert len(json.loads(short.run("queue", "--json").stdout)["jobs"]) == 5 and len(journal(short)) == 1
    everything = short.jobs()
    assert list(everything) == jobs
    assert everything["1"]["command"] == ["/bin/sh", "-c", "echo 1; exit $((MUSTER_JOB == 3 ? 7 : 0))"]
    assert everything["3"]["state"] == "failed" and everything["3"]["exit_status"] == 7
    assert "145 older ones in the archive" in short.run("queue").stdout
    assert "exit status 7" in short.run("wait", 3, status=7).stderr
    assert short.run("logs", 9).stdout == "9\n"
    assert "waits for nothing: failed, exit status 7" in short.run("queue", "why", 3).stdout
    assert "does not run any more" in short.run("stop", 3, status=3).stderr


def test_a_job_that_ended_last_stands_where_its_number_does(short):
    jobs = short.submit(options=["-n", 0], text="test $MUSTER_JOB != 1 || until [ -e go ]; do sleep 0.02; done; echo {1..150}\n")
    short.run("wait", *jobs[1:])
    (short.folder / "go").touch()
    short.run("wait", jobs[0])
    short.until(lambda: journal(short)[0]["event"] == "snapshot")
    assert "1" in [job["id"] for job in json.loads(short.run("queue", "--json").stdout)["jobs"]]  # others have left the journal
    assert list(short.jobs()) == jobs
    rows = short.run("queue", "--all").stdout.splitlines()[1:-1]
    assert [row.split()[0] for row in rows] == jobs


def test_a_job_may_come_after_one_in_the_archive(short):
    run_many(short)
    later = [*short.submit("true", options=["-n", 0, "--after", 3]), *short.submit("true", options=["-n", 0, "--after-ok", "1,2"])]
    short.run("wait", *later)
    assert "job 3 is failed" in short.run("submit", "-n", 0, "--after-ok", 3, "--", "true", status=3).stderr


def test_who_waits_does_not_miss_what_was_archived_meanwhile(short):
    (slow,) = short.submit("sleep", "2", options=["-n", 1])
    many = short.submit(options=["-n", 0], text="true # {1..300}\n")
    short.run("wait", slow, *many)
    short.until(lambda: journal(short)[0]["event"] == "snapshot")
    short.run("wait", slow, *many)
    assert set(short.jobs()) == {slow, *many}


def test_nothing_is_kept_of_jobs_that_are_forgotten(short):
    run_many(short)
    (waits,) = short.submit("sleep", "1000", options=["-n", 8])
    short.until(lambda: short.state_of(waits) == "running")
    assert "0 jobs forgotten" in short.run("queue", "forget", "--older", "1h").stdout
    assert "150 jobs forgotten" in short.run("queue", "forget", "--older", "0s").stdout
    assert list(short.jobs()) == [waits]
    assert os.listdir(short.state / "jobs") == [waits] and os.listdir(short.state / "batches") == [f"{waits}.jsonl"]
    assert "there is no job 3" in short.run("logs", 3, status=2).stderr
    assert "span of time" in short.run("queue", "forget", "--older", "long", status=2).stderr


def test_a_conductor_that_is_killed_goes_on_from_a_short_journal(short):
    run_many(short)
    (runs,) = short.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES >> starts; until [ -e go ]; do sleep 0.05; done", options=["-n", 3])
    (waits,) = short.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES >> starts", options=["-n", 8])
    short.until(lambda: (short.folder / "starts").exists())
    short.run("queue", "forget", "--older", "0s")
    assert [line["event"] for line in journal(short)][0] == "snapshot"
    short.kill_conductor()
    (short.folder / "go").touch()
    short.run("wait", runs, waits)
    assert len((short.folder / "starts").read_text().split()) == 2
