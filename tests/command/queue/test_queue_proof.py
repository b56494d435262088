"""500 jobs on eight GPUs, while jobs, keepers and conductors are killed at random."""

import collections

from killing import Killer, conductors, processes_of_jobs


def attempts_of(queue, job: str) -> list[dict]:
    """What a job's log tells of its attempts: when each began and with which GPUs, and when it ended if it came so far."""
    found = []
    for line in (queue.state / f"jobs/{job}/log").read_text().splitlines():
        word, time, *rest = line.split()
        if word == "begin":
            found.append({"begin": int(time), "end": None, "attempt": int(rest[0]), "gpus": rest[1].split(",")})
        else:
            assert word == "end" and found[-1]["end"] is None
            found[-1]["end"] = int(time)
    return found


def test_500_jobs_never_overlap_and_none_is_lost_or_run_twice(queue):
    # A job whose date or sleep is killed fails, and its shell must not write "Killed" between its lines.
    line = "exec 2>/dev/null; set -e; now=$(date +%s%N); echo begin $now $MUSTER_ATTEMPT $CUDA_VISIBLE_DEVICES; "
    line += "sleep 0.00$((MUSTER_JOB % 10)); now=$(date +%s%N); echo end $now # {1..125}\n"
    wanted = {}

    def victims():
        return conductors(queue) if killer.chance.random() < 0.3 else processes_of_jobs(queue)

    with Killer(victims) as killer:
        for gpus in (1, 2, 1, 3):
            wanted |= dict.fromkeys(queue.submit(options=["-n", gpus, "--retries", 1000], text=line), gpus)
        queue.run("wait", *wanted)
    assert len(wanted) == 500 and killer.killed > 3
    jobs = queue.jobs()
    spans = collections.defaultdict(list)
    for job, gpus in wanted.items():
        attempts = attempts_of(queue, job)
        numbers = [attempt["attempt"] for attempt in attempts]
        assert jobs[job]["state"] == "succeeded"
        assert len(set(numbers)) == len(numbers) and max(numbers) == jobs[job]["attempts"]  # none of them ran twice
        assert attempts[-1]["end"]  # and it was not lost
        for attempt in attempts:
            assert len(set(attempt["gpus"])) == gpus and set(attempt["gpus"]) <= set("01234567")
            for gpu in attempt["gpus"]:
                spans[gpu].append((attempt["begin"], attempt["end"] or attempt["begin"]))  # one that was killed: its begin
    assert len(spans) == 8
    for of_gpu in spans.values():
        of_gpu.sort()
        for (_, end), (begin, _) in zip(of_gpu, of_gpu[1:]):
            assert end <= begin
