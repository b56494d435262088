"""What the machine is short of for a while, and what others do to the lease table, fails no job."""

import contextlib
import fcntl
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import pytest


def counted(queue, jobs: int, options=()) -> list[str]:
    """Jobs that each leave a line in a file of their own when they run."""
    return queue.submit(options=options, text=f"echo $MUSTER_ATTEMPT >> {queue.folder}/ran-$MUSTER_JOB\n" * jobs)


def runs_of(queue, job: str) -> int:
    proof = queue.folder / f"ran-{job}"
    return len(proof.read_text().splitlines()) if proof.exists() else 0


def check_all_ran_once(queue, jobs: list[str]):
    queue.run("wait", *jobs)
    listed = queue.jobs()
    assert {job: (listed[job]["state"], listed[job]["attempts"], runs_of(queue, job)) for job in jobs} == \
        dict.fromkeys(jobs, ("succeeded", 1, 1))


def keep_conductor(queue):
    """A conductor that does not end, since a job waits for a file."""
    (job,) = queue.submit("sh", "-c", f"while ! [ -e {queue.folder}/go ]; do sleep 0.05; done", options=["-n", 0])
    queue.until(lambda: queue.state_of(job) == "running")
    return job


def test_too_few_open_files_postpone_jobs_and_fail_none(queue):
    keep_conductor(queue)
    pid = queue.until(queue.conductor)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = len(os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, before[1]))
    jobs = counted(queue, 20, ["-n", 1]) + counted(queue, 3, ["-n", 0])
    followers = counted(queue, 1, ["-n", 0, "--after-ok", f"{jobs[0]}-{jobs[-1]}"])
    queue.until(lambda: "Too many open files" in queue.run("queue", "why", jobs[-1]).stdout
                or "Too many open files" in (queue.state / "conductor.log").read_text())
    states = {queue.jobs()[job]["state"] for job in jobs}
    assert not states & {"failed", "skipped"}, states
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    (queue.folder / "go").touch()
    check_all_ran_once(queue, jobs + followers)


def test_another_user_of_the_lease_table_postpones_jobs_with_gpus_alone(queue):
    check_all_ran_once(queue, counted(queue, 1, ["-n", 1]))  # the table is there
    with open(queue.folder / "leases/gate/lock") as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
        with_gpu = counted(queue, 3, ["-n", 1])
        without = counted(queue, 2, ["-n", 0])
        check_all_ran_once(queue, without)  # the conductor is not held up
        said = queue.until(lambda: (text := queue.run("queue", "why", with_gpu[0]).stdout) and "tried again" in text and text)
        assert "the lease table in" in said and "has been in use for" in said
        assert {queue.jobs()[job]["attempts"] for job in with_gpu} <= {0, 1}
        assert [runs_of(queue, job) for job in with_gpu] == [0, 0, 0]
    check_all_ran_once(queue, with_gpu)


def test_a_shared_lock_on_a_gpu_is_waited_for_without_filling_the_journal(queue):
    check_all_ran_once(queue, counted(queue, 1, ["-n", 8]))
    locks = [path for path in (queue.folder / "leases").rglob("*") if path.is_file() and path.name.startswith("GPU-")]
    assert len(locks) == 8
    with open(locks[0]) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        (job,) = counted(queue, 1, ["-n", 8])
        queue.until(lambda: "is held by" in queue.run("queue", "why", job).stdout)
        written = len((queue.state / "journal.jsonl").read_text().splitlines())
        (free,) = counted(queue, 1, ["-n", 0])
        check_all_ran_once(queue, [free])
        time.sleep(5)  # a conductor that tried again and again wrote thirteen lines a second
        assert len((queue.state / "journal.jsonl").read_text().splitlines()) - written < 28
        assert runs_of(queue, job) == 0
    check_all_ran_once(queue, [job])


@pytest.fixture
def small_disk(queue):
    """The queue's state on a file system of 512 KiB of its own, and a file that fills the rest of it."""
    queue.state.parent.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", queue.state.parent], capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted by root alone")
    yield queue.state.parent / "filler"
    (queue.state.parent / "filler").unlink(missing_ok=True)
    if pid := queue.conductor():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
        queue.until(lambda: queue.conductor() is None)
    subprocess.run(["umount", "-l", queue.state.parent], check=True)
    queue.state.mkdir(parents=True, exist_ok=True)


def fill(path: pathlib.Path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def test_a_full_disk_loses_nothing_and_fails_no_job(queue, small_disk):
    blocker = keep_conductor(queue)
    waiting = counted(queue, 30, ["-n", 0, "--after", blocker])
    fill(small_disk)
    refused = queue.run("submit", "-n", 0, "--", "true", status=1)
    assert "No space left on device" in refused.stderr and not refused.stdout
    (queue.folder / "go").touch()
    queue.until(lambda: "No space left on device" in queue.run("queue").stdout)
    assert "waits" in queue.run("queue", "why", waiting[0]).stdout
    small_disk.unlink()
    check_all_ran_once(queue, waiting)
    assert len(queue.jobs()) == 31  # nothing of the submission that was refused


def test_a_stopped_conductor_is_named_by_those_who_wait(queue):
    blocker = keep_conductor(queue)
    pid = queue.until(queue.conductor)
    os.kill(pid, 19)
    waiting = subprocess.Popen([str(queue.program), "wait", blocker], env=queue.environment, stderr=subprocess.PIPE, text=True)
    try:
        assert f"kill -CONT {pid}" in waiting.stderr.readline()
        assert f"kill -CONT {pid}" in queue.run("queue").stdout
    finally:
        os.kill(pid, 18)
        (queue.folder / "go").touch()
    assert waiting.wait(timeout=60) == 0


def test_attempts_whose_journal_was_cut_are_not_run_again(queue):
    jobs = counted(queue, 20, ["-n", 1])  # more than can be started at once
    check_all_ran_once(queue, jobs)
    queue.until(lambda: queue.conductor() is None)
    journal = queue.state / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if json.loads(line)["event"] == "ended"]
    for cut in (ends[0], ends[3]):
        journal.write_text("".join(lines[:cut]))
        check_all_ran_once(queue, jobs)
        queue.until(lambda: queue.conductor() is None)


def test_a_damaged_journal_is_refused_with_a_way_out_that_runs_nothing_twice(queue):
    first = counted(queue, 3, ["-n", 1])
    check_all_ran_once(queue, first)
    second = counted(queue, 3, ["-n", 1, "--after-ok", first[0]])
    check_all_ran_once(queue, second)
    queue.until(lambda: queue.conductor() is None)
    journal = queue.state / "journal.jsonl"
    text = bytearray(journal.read_bytes())
    text[text.index(b'"submitted"', text.index(b'"submitted"') + 1) - 20] ^= 1
    journal.write_bytes(text)
    refused = queue.run("queue", status=None)
    assert refused.returncode == 2 and "muster queue repair" in refused.stderr
    assert "dropped" in queue.run("queue", "repair").stdout
    check_all_ran_once(queue, first + second)
    assert next(queue.state.glob("journal.jsonl.damaged-*")).read_bytes() == text


def test_a_daemon_without_environment_whose_keeper_was_killed_does_not_share_its_gpu(queue):
    pids = queue.folder / "pids"
    daemon = (f"import os,time\nif os.fork(): time.sleep(60)\nos.setsid()\nif os.fork(): os._exit(0)\nos.closerange(0, 1024)\n"
              f"open('{pids}', 'w').write(f'{{os.getpid()}} ')\n"
              f"os.execve('/bin/sleep', ['sleep', '60'], {{}})\n")
    (first,) = queue.submit(sys.executable, "-c", daemon, options=["-n", 8])
    sleeper = int(queue.until(lambda: pids.exists() and pids.read_text().split())[0])
    queue.until(lambda: pathlib.Path(f"/proc/{sleeper}/comm").read_text() == "sleep\n")
    attempt = (queue.state / f"jobs/{first}/attempt-1.jsonl").read_text()
    (second,) = queue.submit("sh", "-c", f"[ -e /proc/{sleeper} ] && echo alive || echo gone", options=["-n", 8])
    os.kill(int(json.loads(attempt.splitlines()[0])["keeper"].split("-")[0]), 9)
    queue.run("wait", second)
    assert queue.run("logs", second).stdout == "gone\n"


SHIFTED_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME && getenv("CLOCK_SET_BY")) now->tv_sec += atol(getenv("CLOCK_SET_BY"));
  return result;
}
"""


@pytest.fixture
def shifted(queue):
    source, library = queue.folder / "clock.c", queue.folder / "clock.so"
    source.write_text(SHIFTED_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

    def set_clock(seconds: int):
        """For the conductors that are started from now on."""
        queue.environment |= {"LD_PRELOAD": str(library), "CLOCK_SET_BY": str(seconds)}
        queue.kill_conductor()

    return set_clock


def test_a_clock_set_forward_between_two_conductors_ends_no_job(queue, shifted):
    (job,) = queue.submit("sh", "-c", f"while ! [ -e {queue.folder}/go ]; do sleep 0.05; done", options=["-n", 0, "--timeout", "30m"])
    queue.until(lambda: queue.state_of(job) == "running")
    shifted(3600)
    (other,) = queue.submit("true", options=["-n", 0])
    queue.run("wait", other)  # the conductor with the other clock is at work
    assert queue.state_of(job) == "running"
    (queue.folder / "go").touch()
    queue.run("wait", job)


def test_a_clock_set_back_between_two_conductors_keeps_no_job_beyond_its_timeout(queue, shifted):
    (job,) = queue.submit("sleep", "600", options=["-n", 0, "--timeout", "6s"])
    queue.until(lambda: queue.state_of(job) == "running")
    shifted(-3600)
    done = queue.run("wait", job, status=None)
    assert done.returncode != 0 and "its timeout" in done.stderr


def test_a_few_rounds_of_chaos():
    root = pathlib.Path(__file__).resolve().parents[3]
    program = os.environ.get("MUSTER_TEST_PROGRAM", root / "build/engine/apps/cli/muster")
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("the rounds need root: for file systems, limits and a second user")
    done = subprocess.run([sys.executable, root / "bench/queue/queue_chaos.py", "--rounds", "5", "--program", program],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
