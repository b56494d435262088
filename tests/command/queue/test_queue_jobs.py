"""Jobs through the queue: what they get, how they end, what is told of them."""

import os
import subprocess
import time


def test_a_job_runs_where_and_with_what_it_was_submitted(queue):
    queue.environment["COLOUR"] = "green"
    (job,) = queue.submit("sh", "-c", "pwd; echo $COLOUR $MUSTER_JOB; echo trouble >&2", options=["-n", 0])
    queue.run("wait", job)
    assert queue.run("logs", job).stdout == f"{queue.folder}\ngreen {job}\ntrouble\n"


def test_waiting_for_one_job_gives_its_exit_status(queue):
    (job,) = queue.submit("sh", "-c", "exit 7", options=["-n", 0])
    assert "exit status 7" in queue.run("wait", job, status=7).stderr
    (killed,) = queue.submit("sh", "-c", "kill -9 $$", options=["-n", 0])
    queue.run("wait", killed, status=128 + 9)
    (good,) = queue.submit("true", options=["-n", 0])
    queue.run("wait", job, good, status=1)
    queue.run("wait", good)


def test_every_job_gets_gpus_of_its_own(queue):
    """Jobs note when they began and ended; no two that share a GPU overlap."""
    line = f"echo begin $(date +%s%N) $CUDA_VISIBLE_DEVICES {{1..30}}; sleep 0.0$MUSTER_JOB; echo end $(date +%s%N)"
    singles = queue.submit(options=["-n", 1], text=line)
    pairs = queue.submit(options=["-n", 3], text=line)
    assert len(singles) == len(pairs) == 30
    queue.run("wait")
    spans = []
    for job in singles + pairs:
        begin, end = (text.split() for text in queue.run("logs", job).stdout.splitlines())
        gpus = begin[2].split(",")
        assert len(set(gpus)) == (1 if job in singles else 3) and set(gpus) <= set("01234567")
        spans += [(gpu, int(begin[1]), int(end[1])) for gpu in gpus]
    spans.sort()
    assert {gpu for gpu, _, _ in spans} == set("01234567")
    for (gpu, _, end), (next_gpu, begin, _) in zip(spans, spans[1:]):
        assert gpu != next_gpu or end <= begin


def test_jobs_follow_what_they_come_after(queue):
    (first,) = queue.submit("sh", "-c", "sleep 0.2; exit 1", options=["-n", 0])
    (after,) = queue.submit("true", options=["-n", 0, "--after", first])
    (after_ok,) = queue.submit("true", options=["-n", 0, "--after-ok", first])
    queue.run("wait", status=1)
    jobs = queue.jobs()
    assert jobs[after]["state"] == "succeeded" and jobs[after]["started"] >= jobs[first]["ended"]
    assert jobs[after_ok]["state"] == "skipped" and jobs[after_ok]["attempts"] == 0


def test_a_failed_job_is_tried_again_on_other_gpus(queue):
    command = "echo $CUDA_VISIBLE_DEVICES; test $MUSTER_ATTEMPT = 3"
    (job,) = queue.submit("sh", "-c", command, options=["-n", 1, "--retries", 2])
    queue.run("wait", job)
    assert len(set(queue.run("logs", job).stdout.split())) == 3
    assert queue.jobs()[job]["attempts"] == 3


def test_a_gpu_that_somebody_else_leases_is_left_to_them(queue):
    marker = queue.folder / "held"
    # muster launch takes GPUs 0 to 7 until the file is there.
    holder = subprocess.Popen([str(queue.program), "launch", "--num-gpus", "8", "--nproc-per-node", "1", "--", "sh", "-c",
                               f"touch {marker}-taken; while [ ! -e {marker} ]; do sleep 0.05; done"],
                              env=queue.environment, cwd=queue.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        queue.until(lambda: (queue.folder / "held-taken").exists())
        (job,) = queue.submit("true", options=["-n", 1])
        queue.until(lambda: "held" in queue.run("queue", "why", job).stdout)
        assert queue.state_of(job) == "ready"
        marker.touch()
        queue.run("wait", job)
    finally:
        marker.touch()
        holder.wait(timeout=60)


def test_a_stopped_job_ends_with_all_it_started(queue):
    (job,) = queue.submit("sh", "-c", "(trap '' TERM; setsid sleep 1000) & echo $!; trap '' TERM; while :; do sleep 1; done",
                          options=["-n", 1])
    child = queue.until(lambda: queue.run("logs", job).stdout.strip())
    queue.run("stop", job)
    queue.run("wait", job, status=1)
    assert queue.state_of(job) == "cancelled"
    assert not os.path.exists(f"/proc/{child}")
    assert "does not run any more" in queue.run("stop", job, status=3).stderr


def test_what_a_job_left_behind_is_ended(queue):
    (job,) = queue.submit("sh", "-c", "setsid sleep 1000 & echo $!", options=["-n", 0])
    queue.run("wait", job)
    assert not os.path.exists(f"/proc/{queue.run('logs', job).stdout.strip()}")


def test_a_job_that_takes_too_long_is_ended(queue):
    (job,) = queue.submit("sleep", "1000", options=["-n", 0, "--timeout", "200ms", "--retries", 5])
    assert "its timeout" in queue.run("wait", job, status=None).stderr
    assert queue.jobs()[job]["attempts"] == 1


def test_a_log_is_followed_until_the_job_ends(queue):
    (job,) = queue.submit("sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done", options=["-n", 0])
    assert queue.run("logs", "-f", job).stdout == "1\n2\n3\n"


def test_lines_of_standard_input_are_jobs_and_grids_many(queue):
    text = "# a comment\n\necho {a,b}-{1..2} '{x,y}' ${HOME:+{}\necho \"{p,q}\"\n"
    jobs = queue.submit(options=["-n", 0], text=text)
    queue.run("wait")
    told = [queue.run("logs", job).stdout.strip() for job in jobs]
    assert told == ["a-1 {x,y} {", "a-2 {x,y} {", "b-1 {x,y} {", "b-2 {x,y} {", "{p,q}"]
    (left,) = queue.submit(options=["-n", 0, "--no-grid"], text="echo {a,b}\n")
    assert queue.run("wait", left).returncode == 0 and queue.run("logs", left).stdout == "{a,b}\n"


def test_what_cannot_be_meant_is_refused(queue):
    assert "9 GPUs wanted, 8 visible" in queue.run("submit", "-n", 9, "--", "true", status=3).stderr
    assert "there is no job 77" in queue.run("submit", "--after", 77, "--", "true", status=2).stderr
    assert "there is no command" in queue.run("submit", status=2).stderr
    assert "there is no job 5" in queue.run("wait", 5, status=2).stderr
    assert "names no job" in queue.run("stop", "five", status=2).stderr
    assert "span of time" in queue.run("submit", "--timeout", "soon", "--", "true", status=2).stderr
    assert queue.jobs() == {}


def test_a_command_that_cannot_be_run_fails_with_the_reason(queue):
    (job,) = queue.submit("/no/such/program", options=["-n", 0])
    assert "No such file" in queue.run("wait", job, status=1).stderr


def test_the_conductor_ends_when_it_has_nothing_to_do(queue):
    (job,) = queue.submit("sleep", "0.2", options=["-n", 0])
    queue.run("wait", job)
    queue.until(lambda: queue.conductor() is None)
    time.sleep(0.1)
    queue.run("queue")
    assert queue.conductor() is None  # looking at what is settled starts none
