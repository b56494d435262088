"""Whatever is killed, no job is lost and none runs twice."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from killing import Killer, conductors, processes_of_jobs


@pytest.fixture(autouse=True)
def patient_conductors(queue):
    queue.keep_conductors()


def starts(queue) -> list[str]:
    return (queue.folder / "starts").read_text().split()


def test_jobs_outlive_their_conductor_and_are_not_started_again(queue):
    command = "echo $MUSTER_JOB >> starts; sleep 1; echo done"
    (job,) = queue.submit("sh", "-c", command, options=["-n", 2])
    queue.until(lambda: (queue.folder / "starts").exists())
    queue.kill_conductor()
    queue.run("wait", job)
    assert starts(queue) == [job]
    assert queue.run("logs", job).stdout == "done\n"


def test_an_end_that_nobody_saw_counts(queue):
    jobs = queue.submit(options=["-n", 0], text="echo x >> starts; sleep 0.3; exit {0,3}\n")
    queue.until(lambda: (queue.folder / "starts").exists() and len(starts(queue)) == 2)
    queue.kill_conductor()
    time.sleep(0.6)
    queue.run("wait", status=1)
    assert [queue.jobs()[job]["exit_status"] for job in jobs] == [0, 3]
    assert len(starts(queue)) == 2


def test_a_submission_without_a_conductor_waits_for_one(queue):
    (first,) = queue.submit("true", options=["-n", 0])
    queue.run("wait", first)
    pid = queue.until(queue.conductor)
    os.kill(pid, signal.SIGSTOP)  # it takes nothing
    (second,) = queue.submit("true", options=["-n", 0])
    assert queue.jobs()[second]["state"] == "submitted"
    os.kill(pid, signal.SIGKILL)
    queue.run("wait", second)


def test_a_job_whose_keeper_is_killed_dies_with_it_and_is_tried_again(queue):
    (job,) = queue.submit("sh", "-c", "echo $$; test $MUSTER_ATTEMPT = 2 || exec sleep 1000", options=["-n", 1, "--retries", 1])
    command = queue.until(lambda: queue.run("logs", job).stdout.strip())
    keeper = pathlib.Path(f"/proc/{command}/stat").read_text().rsplit(")", 1)[1].split()[1]
    os.kill(int(keeper), signal.SIGKILL)
    queue.run("wait", job)
    assert not os.path.exists(f"/proc/{command}")
    assert queue.jobs()[job]["attempts"] == 2


def test_what_a_killed_keeper_left_is_gone_before_the_next_attempt_begins(queue):
    """Also what has closed every file it inherited, the job's lock among them."""
    script = queue.folder / "job.py"
    script.write_text("import os, subprocess\n"
                      "if os.environ['MUSTER_ATTEMPT'] == '1':\n"
                      "    child = subprocess.Popen(['setsid', 'sleep', '1000'], close_fds=True)\n"
                      "    print(os.getppid(), child.pid, flush=True)\n"
                      "    child.wait()\n"
                      "with open('log-of-first') as first:\n"
                      "    assert not os.path.exists('/proc/' + first.read().split()[1])\n")
    (job,) = queue.submit(sys.executable, script, options=["-n", 1, "--retries", 1])
    told = queue.until(lambda: queue.run("logs", job).stdout)
    (queue.folder / "log-of-first").write_text(told)
    os.kill(int(told.split()[0]), signal.SIGKILL)
    queue.run("wait", job)
    assert queue.jobs()[job]["attempts"] == 2


def test_a_conductor_that_sees_fewer_gpus_leaves_jobs_on_the_others_alone(queue):
    (job,) = queue.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES >> starts; sleep 1", options=["-n", 8])
    queue.until(lambda: (queue.folder / "starts").exists())
    queue.kill_conductor()
    queue.environment["CUDA_VISIBLE_DEVICES"] = "3"
    later = queue.submit(options=["-n", 1], text="echo $CUDA_VISIBLE_DEVICES >> starts # {1..3}\n")
    queue.run("wait", job, *later)
    assert starts(queue) == ["0,1,2,3,4,5,6,7", "3", "3", "3"]


def test_a_batch_that_is_damaged_takes_only_its_own_jobs_with_it(queue):
    (first,) = queue.submit("sleep", "1000", options=["-n", 8])
    waiting = queue.submit("true", options=["-n", 1]) + queue.submit("true", options=["-n", 1])
    queue.until(lambda: queue.state_of(first) == "running")
    # Before the kill: another conductor may be waiting to take over.
    (queue.state / f"batches/{waiting[0]}.jsonl").write_text("nonsense")
    queue.kill_conductor()
    queue.run("stop", first)
    assert "its command is not known" in queue.run("wait", *waiting, status=1).stderr
    assert [queue.state_of(job) for job in waiting] == ["failed", "succeeded"]


def test_an_attempt_that_nothing_is_known_of_after_the_machine_was_down_is_not_run_again(queue):
    (job,) = queue.submit("sh", "-c", "echo x >> starts; exec sleep 1000", options=["-n", 1])
    queue.until(lambda: (queue.folder / "starts").exists())
    attempt = queue.state / f"jobs/{job}/attempt-1.jsonl"
    keeper = int(attempt.read_text().split('"keeper":"')[1].split("-")[0])
    queue.kill_conductor()
    os.kill(keeper, signal.SIGKILL)
    queue.until(lambda: not os.path.exists(f"/proc/{keeper}") or "Z" in pathlib.Path(f"/proc/{keeper}/stat").read_text())
    attempt.write_text("")  # as a disk may have it whose last writes were lost
    (queue.state / "boot").write_text("another start of the machine")
    queue.run("wait", job, status=128 + 9)
    assert starts(queue) == ["x"]


def test_a_conductor_that_a_job_started_outlives_that_job(queue):
    """The first conductor is killed by a job, which then submits another one that goes on after its own end."""
    command = f"kill -9 $(cat conductor); sleep 0.2; {queue.program} submit -n 0 -- sh -c 'sleep 1; echo late > late' > second; exec sleep 0.3"
    (first,) = queue.submit("sh", "-c", f"while [ ! -s conductor ]; do sleep 0.02; done; {command}", options=["-n", 1])
    (queue.folder / "conductor").write_text(str(queue.until(queue.conductor)))
    queue.until(lambda: (queue.folder / "second").exists() and (queue.folder / "second").read_text())
    second = queue.until(queue.conductor)
    queue.until(lambda: (queue.folder / "late").exists())
    assert queue.conductor() == second
    queue.run("wait")
    assert queue.state_of(first) == "succeeded"


def test_a_conductor_that_a_launch_started_outlives_that_launch(queue):
    launched = [str(queue.program), "launch", "--nproc-per-node", "1", "--device", "cpu", "--"]
    inside = f"{queue.program} submit -n 0 -- sh -c 'until [ -e go ]; do sleep 0.05; done; echo late > late' > id"
    done = subprocess.run([*launched, "sh", "-c", inside], env=queue.environment, cwd=queue.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    conductor = queue.conductor()
    assert conductor is not None
    (queue.folder / "go").touch()
    assert b"MUSTER_KEEPER=" not in pathlib.Path(f"/proc/{conductor}/environ").read_bytes()
    queue.until(lambda: (queue.folder / "late").exists())
    assert queue.conductor() == conductor


def test_a_damaged_request_is_put_aside_and_the_rest_goes_on(queue):
    queue.submit("true", options=["-n", 0])
    (queue.state / "inbox/999999999999.jsonl").write_text('{"request":"submit"')
    (job,) = queue.submit("true", options=["-n", 0])
    queue.run("wait", job)
    queue.until(lambda: (queue.state / "refused/999999999999.txt").exists())


def test_no_two_share_a_gpu_while_jobs_and_conductors_are_killed(queue):
    """A job locks a file of its own and one for each GPU, with all it starts: who finds one locked (status 1) tells."""
    (queue.folder / "trouble").touch()
    command = ("exec 9>job-$MUSTER_JOB; flock -n 9; test $? != 1 || echo job $MUSTER_JOB >> trouble; set -- ${CUDA_VISIBLE_DEVICES%,*} ${CUDA_VISIBLE_DEVICES#*,}; "
               "exec 8>gpu-$1; flock -n 8; test $? != 1 || echo gpu $1 >> trouble; exec 7>gpu-$2; flock -n 7; test $? != 1 || echo gpu $2 >> trouble; "
               "setsid sleep 0.3 & sleep 0.0$((MUSTER_JOB % 7)); echo $MUSTER_JOB >> done")
    with Killer(lambda: conductors(queue) + processes_of_jobs(queue)) as killer:
        jobs = queue.submit(options=["-n", 2, "--retries", 1000], text=f"{command} # {{1..60}}\n")
        queue.run("wait", *jobs)
    assert killer.killed > 3
    assert (queue.folder / "trouble").read_text() == ""
    assert set((queue.folder / "done").read_text().split()) == set(jobs)
    assert all(job["state"] == "succeeded" for job in queue.jobs().values())
