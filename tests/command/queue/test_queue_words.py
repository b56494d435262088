"""What the queue's commands say to input that is wrong, strange or too much, and how they show it."""

import os
import pty
import subprocess

import pytest


@pytest.mark.parametrize("words, told", [
    (["submit", "-n", 0, "--expekt", "5m", "--", "true"], ["no option --expekt", "--expect"]),
    (["submit", "-n", 0, "python", "train.py"], ['"python"', "muster submit -- python"]),
    (["submit", "-n", 0, "--timeout", "", "--", "true"], ["--timeout", "not a span"]),
    (["submit", "-n", 0, "--", ""], ["no program is named"]),
    (["queue", "wy", 1], ['"wy"', "muster queue why"]),
    (["queue", "why", "1-2"], ["1-2 are 2 jobs"]),
    (["logs", "1-2"], ["1-2 are 2 jobs"]),
])
def test_what_was_probably_meant_is_said(queue, words, told):
    said = queue.run(*words, status=2).stderr
    assert all(one in said for one in told), said


def test_who_wants_too_many_gpus_is_told_how_many_there_are(queue):
    said = queue.run("submit", "-n", 9, "--", "true", status=3).stderr
    assert "9 GPUs wanted, 8 visible" in said and "-n 8 or fewer" in said


def test_a_line_that_is_no_text_is_named(queue):
    said = queue.run("submit", "-n", 0, text="true\n\necho a\0b\n", status=2).stderr
    assert "line 3 of standard input" in said and not queue.jobs()


def test_a_conductor_of_fewer_gpus_refuses_before_an_id_is_told(queue):
    (queue.folder / "none.yaml").write_text("gpus: []\n")
    (job,) = queue.submit("sleep", "60", options=["-n", 0, "--gpus-from", "none.yaml"])
    refused = queue.run("submit", "-n", 2, "--", "true", status=3)
    assert refused.stdout == "" and "it wants 2 GPUs, there are 0" in refused.stderr and "submit again" in refused.stderr
    queue.run("stop", job)
    queue.run("wait", job, status=1)


def test_the_table_obeys_no_control_characters_and_cuts_long_commands(queue):
    queue.submit("echo", "a\nb\x1b[31m", "x" * 5000, options=["-n", 0, "--label", "c\td"])
    queue.run("wait")
    table = queue.run("queue").stdout
    assert len(table.splitlines()) == 3 and "\x1b" not in table and "\t" not in table
    assert r"a\nb\x1b[31m" in table and r"c\td" in table and "…" in table and len(table) < 1000
    assert queue.jobs()["1"]["command"][2] == "x" * 5000


def test_jobs_are_named_with_commas_too_and_those_that_had_ended_are_told(queue):
    queue.submit("true", options=["-n", 0])
    queue.submit("sleep", "60", options=["-n", 0])
    queue.run("wait", 1)
    assert "job 1 succeeded, before" in queue.run("stop", "1,2").stderr
    said = queue.run("wait", "1,2", status=1).stderr
    assert "job 2 cancelled\n" in said


def test_one_who_follows_a_job_that_waits_is_told_so(queue):
    (first,) = queue.submit("sleep", "60", options=["-n", 0])
    (after,) = queue.submit("echo", "here", options=["-n", 0, "--after", first])
    with subprocess.Popen([queue.program, "logs", "-f", after], env=queue.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as follower:
        assert f"muster queue why {after}" in follower.stderr.readline()
        queue.run("stop", first)
        assert follower.communicate(timeout=60)[0] == "here\n"


def test_waiting_on_a_terminal_shows_how_far_it_is(queue):
    (job,) = queue.submit("sleep", "60", options=["-n", 0])
    ours, theirs = pty.openpty()
    waiting = subprocess.Popen([queue.program, "wait"], env={**queue.environment, "TERM": "xterm"}, stderr=theirs)
    os.close(theirs)
    seen = b""
    while b"0 of 1 ended" not in seen:
        seen += os.read(ours, 4096)
    queue.run("stop", job)
    assert waiting.wait(timeout=60) == 1
    os.close(ours)


def test_a_folder_that_is_gone_is_no_internal_error(queue):
    gone = queue.folder / "gone"
    command = f"mkdir {gone}; cd {gone}; rmdir {gone}; exec {queue.program}"
    for words in ["submit -n 0 -- true", "run experiment.name=x --dry-run"]:
        done = subprocess.run(["sh", "-c", f"{command} {words}"], env=queue.environment, capture_output=True, text=True)
        assert done.returncode in (1, 2) and "internal error" not in done.stderr and "try:" in done.stderr
