"""What a job shows of itself: signs of life, and why it ended."""


def test_a_job_that_falls_silent_is_stopped_and_tried_again(queue):
    command = "echo try $MUSTER_ATTEMPT; test $MUSTER_ATTEMPT = 2 || exec sleep 1000"
    (job,) = queue.submit("sh", "-c", command, options=["-n", 1, "--heartbeat", "3s", "--retries", 1])
    queue.run("wait", job)
    assert queue.run("logs", job).stdout == "try 1\ntry 2\n"
    (last,) = queue.submit("sleep", "1000", options=["-n", 0, "--heartbeat", "1s"])
    assert "nothing was heard of it" in queue.run("wait", last, status=None).stderr


def test_jobs_that_show_that_they_live_are_left_alone(queue):
    """Many whose time is up at the same moment; half write, half touch their file."""
    text = ("for i in $(seq 20); do sleep 0.25; echo $i; done # {1..3}\n"
            "for i in $(seq 20); do sleep 0.25; touch $MUSTER_HEARTBEAT_FILE; done # {1..3}\n")
    jobs = queue.submit(options=["-n", 1, "--heartbeat", "4s"], text=text)
    queue.run("wait", *jobs)
    assert {queue.jobs()[job]["attempts"] for job in jobs} == {1}


def test_a_job_that_ran_out_of_gpu_memory_is_tried_again_on_another_gpu(queue):
    command = "echo $CUDA_VISIBLE_DEVICES >> used; test $MUSTER_ATTEMPT = 2 || { echo 'RuntimeError: CUDA out of memory'; exit 1; }"
    (job,) = queue.submit("sh", "-c", command, options=["-n", 1, "--retries", 1])
    queue.run("wait", job)
    assert len(set((queue.folder / "used").read_text().split())) == 2
    (last,) = queue.submit("sh", "-c", "echo 'RuntimeError: CUDA out of memory'; exit 4", options=["-n", 1])
    assert "out of memory" in queue.run("wait", last, status=4).stderr
    assert queue.jobs()[last]["reason"] == "out of memory"


def test_a_prediction_lets_a_short_job_pass_a_gang_that_waits(queue):
    (long,) = queue.submit("sh", "-c", "until [ -e go ]; do sleep 0.05; done", options=["-n", 7, "--expect", "1h"])
    queue.until(lambda: queue.state_of(long) == "running")
    (gang,) = queue.submit("true", options=["-n", 8])
    (short,) = queue.submit("true", options=["-n", 1, "--expect", "1s"])
    queue.run("wait", short)
    assert queue.state_of(gang) == "ready"
    (queue.folder / "go").touch()
    queue.run("wait", gang)
    assert "more than nothing" in queue.run("submit", "--expect", "0s", "--", "true", status=2).stderr
