"""What --resume continues, and what it refuses."""

import os
import pathlib
import shutil
import signal

import pytest
from open_files import open_files
from training_runs import Run, Training, await_, finish

SHORT = ("training.max_steps=10",)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, cache: pathlib.Path) -> Training:
    """A run of ten steps whose rate stays: more steps do not change those before."""
    training = Training(tmp_path_factory.mktemp("done"), cache, training__lr_scheduler="constant", training__deterministic="true",
                        distributed__ranks=4, training__save_total_limit=9)
    ended = training(*SHORT)
    assert ended.returncode == 0, ended.stderr
    return training


@pytest.fixture
def saved(done: Training, tmp_path: pathlib.Path, cache: pathlib.Path) -> Training:
    """A copy of it."""
    training = Training(tmp_path, cache)
    training.job = dict(done.job)
    shutil.copytree(done.folder / "runs", tmp_path / "runs")
    return training


@pytest.fixture(scope="module")
def longer(done: Training, tmp_path_factory: pytest.TempPathFactory, cache: pathlib.Path) -> Run:
    """Twenty steps at once, on two ranks."""
    training = Training(tmp_path_factory.mktemp("longer"), cache)
    training.job = done.job | {"distributed.ranks": 2, "training.max_steps": 20}
    assert training().returncode == 0
    return training.run()


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_what_four_ranks_saved_goes_on_with_the_same_bits_on_others(saved: Training, longer: Run, ranks: int):
    resumed = saved("--resume", "auto", "training.max_steps=20", f"distributed.ranks={ranks}", "training.micro_batch_size=2")
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming after step 10" in resumed.stderr
    saved.run().assert_equal(longer)


def test_a_run_that_is_done_has_nothing_to_do(saved: Training):
    before = (saved.run().folder / "result.json").read_bytes()
    ended = saved("--resume", "auto", *SHORT)
    assert ended.returncode == 0 and "has done all its 10 steps: there is nothing to do" in ended.stderr
    assert (saved.run().folder / "result.json").read_bytes() == before


def test_a_run_can_be_resumed_from_a_checkpoint_that_is_named(saved: Training, longer: Run):
    run = saved.run()
    ended = saved("--resume", str(run.checkpoint(5)), "training.max_steps=20")
    assert ended.returncode == 0 and "resuming after step 5" in ended.stderr
    run.assert_equal(longer)
    assert (run.folder / "checkpoints/step-10.set-aside").is_dir() and 10 in run.checkpoints()


def test_a_name_in_the_folder_of_runs_is_enough(saved: Training, longer: Run):
    assert saved("--resume", saved.run().folder.name, "training.max_steps=20").returncode == 0
    saved.run().assert_equal(longer)


@pytest.mark.parametrize("change, reason", [
    ("training.learning_rate=0.001", "training.learning_rate was 0.002 and is 0.001"),
    ("experiment.seed=7", "experiment.seed was 42 and is 7"),
    ("training.batch_size=24", "training.batch_size was 12 and is 24"),
    ("data.digits=3", "data.digits was 2 and is 3"),
    ("training.optimizer=sgd", "training.optimizer was adamw and is sgd"),
])
def test_settings_that_change_the_numbers_are_refused_by_name(saved: Training, change: str, reason: str):
    before = {path: path.read_bytes() for path in saved.run().folder.rglob("*") if path.is_file()}
    ended = saved("--resume", str(saved.run().folder), "training.max_steps=20", change)
    assert ended.returncode == 2 and reason in ended.stderr, ended.stderr
    assert {path: path.read_bytes() for path in saved.run().folder.rglob("*") if path.is_file()} == before


def test_fewer_steps_than_were_done_are_refused(saved: Training):
    ended = saved("--resume", "auto", "training.max_steps=7")
    assert ended.returncode == 2 and "is of step 10, and training.max_steps is 7" in ended.stderr
    assert saved.run().result()["status"] == "done"


def test_another_model_is_refused(saved: Training):
    model = saved.folder / "other"
    shutil.copytree(saved.run().folder / "model", model)
    ended = saved("--resume", str(saved.run().folder), f"model.path={model}", "data.path=builtin:arithmetic", "training.max_steps=20")
    assert ended.returncode == 2 and f"and is {model}" in ended.stderr, ended.stderr


def test_what_is_no_run_is_refused(saved: Training):
    assert "there is no such folder" in saved("--resume", "nowhere").stderr
    assert "is not a run of muster train" in saved("--resume", str(saved.folder)).stderr
    assert len(saved.runs()) == 1


def test_auto_without_a_run_begins_one_and_says_so(training: Training):
    ended = training("--resume", "auto", "training.max_steps=3")
    assert ended.returncode == 0 and "no run in runs has these settings: a new one begins" in ended.stderr
    assert training.run().result()["steps"] == 3


def test_auto_resumes_a_run_of_the_name_that_is_given_only(training: Training):
    short = "training.max_steps=3"
    assert training("--name", "first", short).returncode == 0
    ended = training("--name", "second", short, "--resume", "auto")
    assert ended.returncode == 0 and "no run called second in runs has these settings: a new one begins" in ended.stderr
    assert sorted(run.record()["name"] for run in training.runs()) == ["first", "second"]
    for name in ("first", "second"):
        again = training("--name", name, short, "--resume", "auto")
        assert again.returncode == 0 and f"runs/{name}-" in again.stderr and "nothing to do" in again.stderr
    assert "nothing to do" in training(short, "--resume", "auto").stderr  # no name: the newest of any
    assert len(training.runs()) == 2


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_over_in_its_folder(training: Training, whole: Run):
    process, _ = training.hold_at(4, "training.save_steps=1000")
    process.kill()
    training.release()
    finish(process)
    ended = training("--resume")
    assert ended.returncode == 0 and "there is no checkpoint to resume from: the run starts from the beginning" in ended.stderr
    training.run().assert_equal(whole)


def test_a_run_that_another_process_works_on_is_refused(training: Training):
    process = training.start("training.max_steps=100000")
    run = training.at_step(3)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        ended = training("--resume", str(run.folder), "training.max_steps=100000")
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
    assert ended.returncode not in (0, 1) and f"is being worked on by process {process.pid}" in ended.stderr
    assert finish(process).returncode == 143


def test_ranks_hold_the_run_as_long_as_they_live(training: Training, whole: Run):
    """A launcher that is killed gives its run up when its last rank is dead, not before."""
    process, run = training.hold_at(6)
    assert str(run.folder / "lock") in open_files(training.rank(1))
    process.kill()
    training.release()
    assert training("--resume").returncode == 0  # waits for that
    finish(process)
    run.assert_equal(whole)


def test_steps_that_were_saved_and_not_written_down_come_from_the_checkpoint(training: Training, whole: Run):
    """As when the launcher is killed between a checkpoint and the rows of its steps; with one checkpoint, no older one helps."""
    process, run = training.hold_at(16, "training.save_total_limit=1")
    process.kill()
    training.release()
    finish(process)
    await_(lambda: not training.processes(), "the end")
    newest = run.checkpoints()[-1]
    lines = (run.folder / "metrics.csv").read_text().splitlines(keepends=True)
    (run.folder / "metrics.csv").write_text("".join(lines[: newest - 2]) + lines[newest - 2][:9])  # and torn
    ended = training("--resume", "training.save_total_limit=1")
    assert ended.returncode == 0 and f"resuming after step {newest}" in ended.stderr
    run.assert_equal(whole)
    assert run.checkpoints() == [40]


def test_two_runs_that_begin_in_the_same_second_have_a_folder_each(training: Training):
    processes = [training.start("training.max_steps=6") for _ in range(2)]
    for process in processes:
        ended = finish(process)
        assert ended.returncode == 0, ended.stderr
    first, second = training.runs()
    assert first.rows() == second.rows() and len(first.rows()) == 6
