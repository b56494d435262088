"""Damaged checkpoints, and folders that cannot be written."""

import os
import pathlib
import shutil
import subprocess

import pytest
from training_runs import Run, Training, finish


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, cache: pathlib.Path) -> Training:
    """A run that a signal ended, with checkpoints at several steps."""
    training = Training(tmp_path_factory.mktemp("stopped"), cache, training__save_total_limit=9)
    process, _ = training.hold_at(17)
    process.terminate()
    training.release()
    assert finish(process).returncode == 143
    return training


@pytest.fixture
def saved(stopped: Training, tmp_path: pathlib.Path, cache: pathlib.Path) -> Training:
    training = Training(tmp_path, cache)
    training.job = dict(stopped.job)
    shutil.copytree(stopped.folder / "runs", tmp_path / "runs")
    return training


def flip(checkpoint: pathlib.Path):
    file = checkpoint / "rank-1-of-2.state"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def truncate(checkpoint: pathlib.Path):
    file = checkpoint / "rank-0-of-2.state"
    os.truncate(file, file.stat().st_size - 100)


def lose(checkpoint: pathlib.Path):
    (checkpoint / "rank-1-of-2.state").unlink()


def garble(checkpoint: pathlib.Path):
    file = checkpoint / "manifest.json"
    file.write_text(file.read_text().replace('"unit": ', '"unit": 1', 1))


@pytest.mark.parametrize("damage", [flip, truncate, lose, garble])
def test_a_damaged_checkpoint_is_skipped_with_a_note(saved: Training, whole: Run, damage):
    run = saved.run()
    *_, before, newest = run.checkpoints()
    damage(run.checkpoint(newest))
    ended = saved("--resume")
    assert ended.returncode == 0, ended.stderr
    assert f"step-{newest} is damaged and is skipped" in ended.stderr and f"resuming after step {before}" in ended.stderr
    run.assert_equal(whole)
    assert any(f"step-{newest} is damaged" in event["text"] for event in run.events("note"))


def test_what_a_killed_save_left_is_removed(saved: Training, whole: Run):
    run = saved.run()
    newest = run.checkpoints()[-1]
    run.checkpoint(newest).rename(run.folder / f"checkpoints/.step-{newest}.partial-1-0")
    (run.folder / "metrics.csv.part-123").write_text("step")
    assert saved("--resume").returncode == 0
    run.assert_equal(whole)


def test_a_damaged_checkpoint_that_is_named_is_refused_and_nothing_changes(saved: Training):
    run = saved.run()
    newest = run.checkpoints()[-1]
    flip(run.checkpoint(newest))
    ended = saved("--resume", str(run.checkpoint(newest)))
    assert ended.returncode not in (0, 1) or "damaged" in ended.stderr, ended.stderr
    assert run.result()["status"] == "interrupted" and newest in run.checkpoints()


def test_a_run_whose_checkpoints_are_all_damaged_starts_over(saved: Training, whole: Run):
    for step in saved.run().checkpoints():
        flip(saved.run().checkpoint(step))
    ended = saved("--resume")
    assert ended.returncode == 0 and "the run starts from the beginning" in ended.stderr
    saved.run().assert_equal(whole)


def test_as_many_checkpoints_as_asked_for_are_kept_and_the_last_step_has_one(training: Training):
    assert training("training.max_steps=13", "training.save_total_limit=3").returncode == 0
    assert training.run().checkpoints() == [5, 10, 13]
    assert [event["step"] for event in training.run().events("saved")] == [5, 10, 13]


@pytest.mark.parametrize("left", ["model", "nothing"])
def test_a_finished_run_leaves_what_is_asked_for(training: Training, left: str):
    ended = training("training.max_steps=13", "training.save_total_limit=3", f"training.save_at_end={left}")
    assert ended.returncode == 0, ended.stderr
    run = training.run()
    assert run.checkpoints() == [5, 10] and run.result()["status"] == "done" and len(run.rows()) == 13
    assert (run.folder / "model").exists() == ("try it" in ended.stderr) == (left == "model")
    again = training("training.max_steps=13", f"training.save_at_end={left}", "--resume", "auto")
    assert again.returncode == 0 and "nothing to do" in again.stderr
    assert training("training.max_steps=15", "--resume", "auto").returncode == 0
    assert run.checkpoints()[-1] == 15 and run.weights() and [row[0] for row in run.rows()] == [str(step) for step in range(1, 16)]


def test_a_folder_of_runs_that_cannot_be_made_is_an_error(training: Training):
    (training.folder / "runs").write_text("in the way")
    ended = training()
    assert ended.returncode in (1, 2) and "runs" in ended.stderr and "step 1/" not in ended.stderr


def test_a_cache_that_cannot_be_made_is_an_error(training: Training):
    (training.folder / "file").write_text("in the way")
    training.environment["XDG_CACHE_HOME"] = str(training.folder / "file")
    ended = training()
    assert ended.returncode in (1, 2) and str(training.folder / "file") in ended.stderr, ended.stderr
    assert not (training.folder / "runs").exists()


def test_a_run_goes_on_when_nobody_can_read_what_it_says(training: Training, whole: Run):
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(training.words(), env=training.environment, cwd=training.folder, stdout=full, stderr=full)
        assert process.wait(120) == 0
    training.run().assert_equal(whole)
