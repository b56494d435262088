"""muster run with real processes: commands on an inventory of GPUs, failures, kills, and going on."""

import fcntl
import hashlib
import json
import re
import signal
import subprocess

from open_files import open_files

STAGES = ("generate", "train", "evaluate")


def all_stages(families="ab", rounds=2) -> list[str]:
    return [f"sft_{family}_d_r{k}.{stage}" for family in families for k in range(1, rounds + 1) for stage in STAGES]


def test_rounds_follow_one_another_and_no_gpu_is_shared(laboratory):
    done = laboratory.run("run", laboratory.write(families="abc"))
    assert sorted(laboratory.ended()) == sorted(all_stages("abc"))
    spans = laboratory.spans()
    for begin, end in spans:
        for other, other_end in spans:
            if other.stage != begin.stage and other.time < end.time and begin.time < other_end.time:
                assert not set(begin.mask.split(",")) & set(other.mask.split(",")), (begin.stage, other.stage)
    time_of = {begin.stage: (begin.time, end.time) for begin, end in spans}
    for family in "abc":
        order = [time_of[stage] for stage in all_stages(family)]
        assert all(before[1] < after[0] for before, after in zip(order, order[1:]))
    assert "sft_c_d_r2  EVAL_COMPLETED" in done.stdout
    rows = [json.loads(line) for line in (laboratory.folder / "experiments/lab/results.jsonl").read_text().splitlines()]
    assert [(row["family"], row["round"], row["score"]) for row in rows] == [(f, k, k) for f in "abc" for k in (1, 2)]
    assert laboratory.run("run", "lab.yaml").stdout == done.stdout  # all is done: the table again, and nothing runs
    assert len(laboratory.ended()) == 18


def test_each_round_begins_with_the_weights_its_own_round_before_ended_with(laboratory):
    laboratory.run("run", laboratory.write())
    for family in "ab":
        first, second = (f"sft_{family}_d_r{k}" for k in (1, 2))
        weights = (laboratory.folder / "experiments/lab" / first / "model/w.bin").read_bytes()
        start = laboratory.read("lab", second, "start.json")
        assert start["sha256"] == hashlib.sha256(weights).hexdigest() == laboratory.read("lab", first, "train.json")["sha256"]
        assert start["from_round"] == 1 and start["model"].endswith(f"{first}/model")
        assert laboratory.read("lab", first, "start.json")["model"] == f"/models/{family}"


def test_weights_that_changed_since_are_refused(laboratory):
    file = laboratory.write(families="a")
    laboratory.run("run", file, "rounds_of_training=1")
    with (laboratory.folder / "experiments/lab/sft_a_d_r1/model/w.bin").open("a") as weights:
        weights.write("changed")
    done = laboratory.run("run", file, "--resume", status=1)
    assert "sft_a_d_r2.generate failed" in done.stderr
    assert "and round 1 ended with" in laboratory.read("lab", "sft_a_d_r2", "generate.json")["reason"]
    assert laboratory.statuses() == {"sft_a_d_r1": "EVAL_COMPLETED", "sft_a_d_r2": "FAILED"}


def test_a_failure_skips_what_depends_on_it_and_nothing_else(laboratory):
    file = laboratory.write()
    done = laboratory.run("run", file, status=1, FAIL="sft_a_d_r1.train")
    assert sorted(laboratory.ended()) == sorted(["sft_a_d_r1.generate", *all_stages("b")])
    assert laboratory.statuses() == {"sft_a_d_r1": "FAILED", "sft_a_d_r2": "NOT_STARTED", "sft_b_d_r1": "EVAL_COMPLETED",
                                     "sft_b_d_r2": "EVAL_COMPLETED"}  # fmt: skip
    assert "train: exit status 7" in done.stdout and "skipped: sft_a_d_r1.evaluate did not succeed" in done.stdout
    refused = laboratory.run("run", file, status=3)
    assert "with 7 of 12 stages done" in refused.stderr
    laboratory.run("run", file, "--resume")
    assert sorted(laboratory.ended()) == sorted(all_stages())


def test_a_stage_that_failed_is_tried_again_on_another_gpu(laboratory):
    file = laboratory.write(families="a", rounds_of_training=1)
    laboratory.run("run", file, "train.retries=1", "train.gpus=1", FAIL_FIRST="sft_a_d_r1.train")
    first, second = (note for note in laboratory.journal() if (note.what, note.stage) == ("begin", "sft_a_d_r1.train"))
    assert first.mask != second.mask
    assert laboratory.statuses() == {"sft_a_d_r1": "EVAL_COMPLETED"}


def test_nothing_is_done_twice_after_everything_was_killed(laboratory):
    file = laboratory.write()
    slow = "sft_a_d_r1.evaluate sft_b_d_r2.train"
    follower = laboratory.start("run", file, SLOW=slow)
    begun = lambda: {note.stage for note in laboratory.journal() if note.what == "begin"}  # noqa: E731
    laboratory.until(lambda: set(slow.split()) <= begun())
    laboratory.kill_everything()
    follower.communicate()
    done_before = set(laboratory.ended())
    assert done_before == {"sft_a_d_r1.generate", "sft_a_d_r1.train", *all_stages("b")[:4]}
    # The queue knows the old jobs with their environment, so that the ones which never began are still slow; those that
    # were killed are begun anew.
    laboratory.run("run", file, "--resume")
    assert sorted(laboratory.ended()) == sorted(all_stages())
    begun_twice = {s for s in begun() if sum(n.what == "begin" and n.stage == s for n in laboratory.journal()) > 1}
    assert begun_twice == set(slow.split())


def test_who_follows_may_be_killed_and_another_takes_over(laboratory):
    file = laboratory.write()
    follower = laboratory.start("run", file)
    laboratory.until(laboratory.ended)
    follower.kill()
    follower.communicate()
    laboratory.run("run", file, "--resume")
    assert sorted(laboratory.ended()) == sorted(all_stages())
    assert len(json.loads(laboratory.run("queue", "--json").stdout)["jobs"]) == 12  # none was queued a second time


def test_stages_that_end_while_another_process_looks_are_not_queued_again(laboratory):
    held = laboratory.stage("train", before="until [ -e go ]; do sleep 0.05; done\n")
    file = laboratory.write(families="a", rounds_of_training=1, train=held)
    laboratory.run("run", file, "--detach")
    laboratory.until(laboratory.ended)
    with (laboratory.folder / "experiments/lab/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        another = laboratory.start("run", file, "--resume")
        laboratory.until(lambda: lock.name in open_files(another.pid))  # it has seen a stage at work
        (laboratory.folder / "go").touch()
        laboratory.run("wait")
    _, errors = another.communicate(timeout=120)
    assert another.returncode == 0, errors
    assert len(json.loads(laboratory.run("queue", "--all", "--json").stdout)["jobs"]) == 3


def test_an_interrupt_stops_the_jobs_and_says_how_to_go_on(laboratory):
    file = laboratory.write()
    follower = laboratory.start("run", file, SLOW="sft_a_d_r1.train sft_b_d_r1.train")
    laboratory.until(lambda: sum(note.what == "begin" for note in laboratory.journal()) == 4)
    follower.send_signal(signal.SIGINT)
    _, errors = follower.communicate(timeout=60)
    assert follower.returncode == 130 and "stopping the jobs" in errors and "--resume resumes it" in errors
    assert set(laboratory.statuses().values()) == {"DATA_GENERATED", "NOT_STARTED"}
    laboratory.run("run", file, "--resume")
    assert sorted(laboratory.ended()) == sorted(all_stages())


def test_who_was_started_to_ignore_interrupts_ignores_them(laboratory):
    file = laboratory.write(families="a")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what it starts in the background
    try:
        follower = laboratory.start("run", file)
    finally:
        signal.signal(signal.SIGINT, before)
    laboratory.until(laboratory.journal)
    follower.send_signal(signal.SIGINT)
    _, errors = follower.communicate(timeout=60)
    assert follower.returncode == 0, errors
    assert sorted(laboratory.ended()) == sorted(all_stages("a"))


def test_files_alone_tell_how_far_a_job_is(laboratory):
    file = laboratory.write(families="a")
    laboratory.run("run", file)
    place = laboratory.folder / "experiments/lab"
    (place / "sft_a_d_r2/evaluate.json").unlink()  # result.json is there, but nobody says that it is whole
    (place / "sft_a_d_r2/train.json").unlink()
    schedule = laboratory.run("run", file, "--dry-run", "--json").stdout
    assert [stage["stage"] for stage in json.loads(schedule)["stages"]] == ["sft_a_d_r2.train", "sft_a_d_r2.evaluate"]
    laboratory.run("run", file, "--resume")
    assert sorted(laboratory.ended()) == sorted([*all_stages("a"), "sft_a_d_r2.train", "sft_a_d_r2.evaluate"])


def test_other_settings_in_the_same_folder_are_refused_and_more_rounds_are_not(laboratory):
    file = laboratory.write(families="a")
    laboratory.run("run", file, "rounds_of_training=1")
    refused = laboratory.run("run", file, "experiment.seed=7", "--resume", status=3)
    assert "other settings: experiment.seed" in refused.stderr
    laboratory.run("run", file, "rounds_of_training=2", "train.gpus=2", "families.b=/models/b", "--resume")
    assert sorted(laboratory.ended()) == sorted(all_stages("ab"))


def test_a_job_alone_generates_on_all_gpus_and_the_others_stages_get_one(laboratory):
    laboratory.set_gpus(8)
    laboratory.run("run", laboratory.write(families="a", rounds_of_training=1))
    gpus = {begin.stage: (len(begin.mask.split(",")), begin.gpus) for begin, _ in laboratory.spans()}
    assert gpus == {"sft_a_d_r1.generate": (8, "8"), "sft_a_d_r1.train": (1, "1"), "sft_a_d_r1.evaluate": (1, "1")}


def most_at_once(laboratory) -> int:
    spans = [(begin.time, end.time) for begin, end in laboratory.spans()]
    return max(sum(start <= moment < end for start, end in spans) for moment, _ in spans)


def test_one_job_at_a_time_where_that_is_wished(laboratory):
    laboratory.run("run", laboratory.write(families="abc", rounds_of_training=1), "use_parallel_execution=false")
    assert len(laboratory.ended()) == 9 and most_at_once(laboratory) == 1


def test_without_a_gpu_two_jobs_run_at_a_time(laboratory):
    laboratory.set_gpus(0)
    laboratory.run("run", laboratory.write(families="abcde", rounds_of_training=1))
    assert len(laboratory.ended()) == 15 and most_at_once(laboratory) == 2
    assert {begin.gpus for begin, _ in laboratory.spans()} == {"0"}


def test_detached_jobs_go_on_by_themselves_and_write_the_results(laboratory):
    file = laboratory.write(families="a", rounds_of_training=1)
    laboratory.run("run", file, "--detach")
    laboratory.run("wait")
    assert laboratory.statuses() == {"sft_a_d_r1": "EVAL_COMPLETED"}
    assert "sft_a_d_r1.train" in laboratory.run("queue", "--all").stdout


def test_the_line_that_resumes_calls_the_program_as_it_was_called(laboratory):
    (laboratory.folder / "muster").symlink_to(laboratory.program)
    laboratory.write(families=("a",), rounds_of_training=1)

    def run(line: str, **variables) -> subprocess.CompletedProcess:
        return subprocess.run(line, shell=True, cwd=laboratory.folder, env={**laboratory.environment, **variables}, capture_output=True,
                              text=True, timeout=120)  # fmt: skip

    failed = run("./muster run lab.yaml", FAIL="sft_a_d_r1.train")
    assert failed.returncode == 1
    assert re.search(r"sft_a_d_r1.train failed: .*\(\./muster logs \d+\)", failed.stderr), failed.stderr
    line = re.search(r"muster: (\./muster run .*) resumes it", failed.stderr)[1]
    assert line == "./muster run lab.yaml --resume"
    assert run(line).returncode == 0
