"""Disks that are too small, that fill while a run works, and that have room again."""

import contextlib
import json
import os
import pathlib
import subprocess

import pytest
from training_runs import Run, Training, await_, finish

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: pathlib.Path):
    """Mounts a small disk where the runs go."""
    with contextlib.ExitStack() as mounted:

        def mount(size: int) -> pathlib.Path:
            folder = tmp_path / "runs"
            folder.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
            if subprocess.run(command, capture_output=True).returncode != 0:
                pytest.skip("only root can mount a small disk")
            mounted.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
            return folder

        yield mount


class Ballast:
    """A file that leaves a run so many bytes of a disk, however much of them it has taken already; none: what is left at that moment."""

    def __init__(self, disk: pathlib.Path, room: int = 0):
        self.path = disk / "ballast"
        size = os.statvfs(disk).f_blocks * os.statvfs(disk).f_frsize
        with open(self.path, "wb", buffering=0) as file:
            if room:
                os.posix_fallocate(file.fileno(), 0, size - room)
                return
            with contextlib.suppress(OSError):  # which is how it ends
                while True:
                    file.write(bytes(MIB))

    def remove(self):
        self.path.unlink()


def begun(training: Training) -> Run:
    """The run, once it has been found to fit: its ranks are not there yet."""
    return await_(lambda: next(iter(training.runs()), None), "the run")


def bytes_in(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def checkpoint(evaluated: Run) -> int:
    """Bytes of one."""
    return bytes_in(evaluated.checkpoint(12))


@pytest.fixture(scope="module")
def model(evaluated: Run) -> int:
    return bytes_in(evaluated.folder / "model")


def test_a_disk_without_room_for_the_checkpoints_is_refused_before_the_start(evaluating: Training, disk, checkpoint: int):
    runs = disk(checkpoint * 5 // 2)
    for dry in ((), ("--dry-run",)):
        ended = evaluating(*dry)
        assert ended.returncode == 3, ended.stderr
        assert "the run needs" in ended.stderr and "3 checkpoints of" in ended.stderr and " free" in ended.stderr
        assert "training.save_total_limit=1" in ended.stderr and "--output" in ended.stderr, ended.stderr
        assert list(runs.iterdir()) == []
    assert evaluating("training.save_total_limit=1").returncode == 0


def test_the_plan_shows_what_the_disk_must_hold(evaluating: Training, checkpoint: int, model: int):
    ended = evaluating("--dry-run")
    assert ended.returncode == 0 and "3 checkpoints of" in ended.stdout and "one of them being written" in ended.stdout
    disk = json.loads(evaluating("--dry-run", "--json").stdout)["disk"]
    assert disk["checkpoints"] == 3 and disk["free_bytes"] > disk["needed_bytes"] >= 3 * disk["checkpoint_bytes"]
    assert disk["checkpoint_bytes"] == pytest.approx(checkpoint, rel=0.05) and disk["model_bytes"] == pytest.approx(model, rel=0.05)
    assert not (evaluating.folder / "runs").exists()


def test_a_disk_that_fills_ends_the_run_at_once_and_it_can_be_resumed(evaluating: Training, evaluated: Run, disk, checkpoint: int):
    runs = disk(checkpoint * 8)
    process = evaluating.start("distributed.watchdog_seconds=20")  # so that a full disk is waited for ten seconds
    run = begun(evaluating)
    ballast = Ballast(runs, checkpoint * 3 // 2)
    ended = finish(process)
    assert ended.returncode == 1, ended.stderr
    assert "waiting up to 10 s for room" in ended.stderr and "the checkpoint of step 8 needs" in ended.stderr
    assert "restarting" not in ended.stderr and f"--resume runs/{run.folder.name}" in ended.stderr, ended.stderr
    assert run.leftovers() == [] and run.checkpoints() == [4] and run.result()["restarts"] == 0
    assert run.result()["status"] == "failed" and "needs" in run.result()["error"]
    refused = evaluating("--resume")
    assert refused.returncode == 3 and run.result()["status"] == "failed", refused.stderr
    ballast.remove()
    assert evaluating("--resume").returncode == 0
    run.assert_equal(evaluated)


def test_a_run_goes_on_when_there_is_room_again(evaluating: Training, evaluated: Run, disk, checkpoint: int):
    runs = disk(checkpoint * 8)
    process = evaluating.start()
    run = begun(evaluating)
    ballast = Ballast(runs, checkpoint * 3 // 2)
    (waiting, *_) = await_(lambda: run.events("waiting"), "a save that waits for room")
    assert "the checkpoint of step 8 needs" in waiting["what"]
    ballast.remove()
    ended = finish(process)
    assert ended.returncode == 0 and run.result()["restarts"] == 0, ended.stderr
    run.assert_equal(evaluated)


def test_a_disk_that_fills_before_the_export_leaves_the_last_checkpoint(evaluating: Training, evaluated: Run, disk, checkpoint: int, model: int):
    runs = disk(checkpoint * 8)
    keep_all = "training.save_total_limit=9"
    process = evaluating.start(keep_all, "distributed.watchdog_seconds=20")
    run = begun(evaluating)
    ballast = Ballast(runs, checkpoint * 3 + model // 2)
    ended = finish(process)
    assert ended.returncode == 1 and "the model needs" in ended.stderr and "restarting" not in ended.stderr, ended.stderr
    assert run.checkpoints() == [4, 8, 12] and not (run.folder / "model").exists() and run.leftovers() == []
    ballast.remove()
    assert evaluating("--resume", keep_all).returncode == 0
    run.assert_equal(evaluated)


def test_rows_wait_for_room_too(evaluating: Training, evaluated: Run, disk, checkpoint: int):
    runs = disk(checkpoint * 8)
    said = evaluating.folder / "said"
    with open(said, "w") as file:
        process = subprocess.Popen(evaluating.words(), env=evaluating.environment, cwd=evaluating.folder, stdin=subprocess.DEVNULL, stderr=file)
    run = begun(evaluating)
    ballast = Ballast(runs)
    await_(lambda: "the disk is full" in said.read_text(), "a full disk")
    ballast.remove()
    assert process.wait(120) == 0, said.read_text()
    assert run.result()["restarts"] == 0
    run.assert_equal(evaluated)


@pytest.mark.parametrize("file", ["events.jsonl", "checkpoints/step-12", "model"])
def test_a_disk_that_is_full_from_any_moment_on_costs_nothing_but_a_resume(evaluating: Training, evaluated: Run, disk, checkpoint: int, file: str):
    runs = disk(checkpoint * 8)
    process = evaluating.start("distributed.watchdog_seconds=20")
    run = begun(evaluating)
    await_(lambda: (run.folder / file).exists(), file)
    ballast = Ballast(runs)
    ended = finish(process)
    assert ended.returncode in (0, 1) and "restarting" not in ended.stderr, ended.stderr
    ballast.remove()
    assert evaluating("--resume").returncode == 0
    run.assert_equal(evaluated)


def test_a_disk_with_room_for_the_model_alone_is_enough_without_checkpoints(evaluating: Training, evaluated: Run, disk, model: int):
    disk(model + 3 * MIB)
    ended = evaluating()
    assert ended.returncode == 3 and "training.save_at_end=model" in ended.stderr and "save_total_limit" not in ended.stderr, ended.stderr
    del evaluating.job["training.save_steps"]
    assert evaluating("training.save_at_end=model").returncode == 0
    assert evaluating.run().weights() == evaluated.weights()
