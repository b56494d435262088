"""A run that is killed between its last step and its result is finished by --resume, bit for bit."""

import fcntl
import os
import shutil
import signal

import pytest
from open_files import open_files
from training_runs import Run, Training, await_, finish

LAST = 12


def cut_rows(run: Run, last: int, with_evaluation: bool):
    """metrics.csv as it was when the row of step `last` had been written, with or without its evaluation."""
    header, *rows = (run.folder / "metrics.csv").read_text().splitlines()
    rows = [row.split(",") for row in rows if int(row.split(",")[0]) <= last]
    if not with_evaluation:
        names = header.split(",")
        for name in ("eval_loss", "exact_match"):
            rows[-1][names.index(name)] = ""
    (run.folder / "metrics.csv").write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")


def before_the_result(run: Run):
    (run.folder / "result.json").unlink()


def before_the_plot(run: Run):
    before_the_result(run)
    (run.folder / "loss.svg").unlink()


def before_the_export(run: Run):
    before_the_plot(run)
    shutil.rmtree(run.folder / "model")


def during_the_export(run: Run):
    before_the_export(run)
    (run.folder / ".model.part-abcdef").mkdir()
    (run.folder / ".model.part-abcdef/model.safetensors").write_bytes(b"half")


def saved_and_the_evaluation_not_written(run: Run):
    before_the_export(run)
    cut_rows(run, LAST, with_evaluation=False)


def saved_and_the_last_rows_not_written(run: Run):
    before_the_export(run)
    cut_rows(run, LAST - 2, with_evaluation=True)


def evaluated_and_not_saved(run: Run):
    before_the_export(run)
    shutil.rmtree(run.checkpoint(LAST))


def before_the_evaluation(run: Run):
    evaluated_and_not_saved(run)
    cut_rows(run, LAST, with_evaluation=False)


def in_the_middle_and_the_evaluation_not_written(run: Run):
    evaluated_and_not_saved(run)
    cut_rows(run, LAST - 4, with_evaluation=False)


@pytest.mark.parametrize("moment", [
    before_the_result, before_the_plot, before_the_export, during_the_export, saved_and_the_evaluation_not_written,
    saved_and_the_last_rows_not_written, evaluated_and_not_saved, before_the_evaluation, in_the_middle_and_the_evaluation_not_written,
])
def test_a_run_as_a_kill_leaves_it_is_finished(evaluating: Training, evaluated: Run, moment):
    shutil.copytree(evaluated.folder, evaluating.folder / "runs" / evaluated.folder.name)
    run = evaluating.run()
    moment(run)
    ended = evaluating("--resume")
    assert ended.returncode == 0, ended.stderr
    run.assert_equal(evaluated)
    again = evaluating("--resume")
    assert again.returncode == 0 and "nothing to do" in again.stderr


def is_evaluated(run: Run) -> bool:
    return any(event["step"] == LAST for event in run.events("evaluated"))


def is_saved(run: Run) -> bool:
    return run.checkpoint(LAST).is_dir()


def is_exported(run: Run) -> bool:
    return (run.folder / "model").is_dir()


def is_done(run: Run) -> bool:
    return (run.folder / "result.json").exists()


@pytest.mark.parametrize("victim", ["launcher", "rank"])
@pytest.mark.parametrize("moment", [is_evaluated, is_saved, is_exported, is_done])
def test_a_kill_in_the_last_seconds_changes_nothing(evaluating: Training, evaluated: Run, moment, victim: str):
    process = evaluating.start()
    run = evaluating.at_step(1)
    rank = evaluating.ranks().get(0)
    await_(lambda: moment(run) or process.poll() is not None, moment.__name__)
    if victim == "launcher":
        process.kill()
    elif rank:
        try:
            os.kill(rank, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it had done everything
    ended = finish(process)
    if victim == "launcher":
        ended = evaluating("--resume")
    assert ended.returncode == 0, ended.stderr
    run.assert_equal(evaluated)


def test_an_evaluation_that_a_signal_left_out_is_made_up_for(evaluating: Training, evaluated: Run):
    """Every step is to be evaluated, and whatever step the signal comes in, that one is not."""
    evaluating.job |= {"training.eval_steps": 1, "training.save_steps": 1000}
    process, run = evaluating.hold_at(3)
    process.terminate()
    evaluating.release()
    assert finish(process).returncode == 143
    left = run.result()["steps"]
    assert left < LAST and run.rows()[left - 1][-1] == ""
    ended = evaluating("--resume")
    assert ended.returncode == 0, ended.stderr
    rows = run.rows()
    assert all(row[-1] != "" and row[-2] != "" for row in rows) and len(rows) == LAST
    assert rows[3::4] == evaluated.rows()[3::4] and run.weights() == evaluated.weights()


def test_a_run_that_another_process_finishes_meanwhile_is_complete(evaluating: Training, evaluated: Run):
    """Of two commands that resume one run, the second waits for its lock, and then finds that nothing is left to do."""
    shutil.copytree(evaluated.folder, evaluating.folder / "runs" / evaluated.folder.name)
    run = evaluating.run()
    result = run.folder / "result.json"
    result.rename(evaluating.folder / "result.json")
    with open(run.folder / "lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = evaluating.start("--resume", str(run.folder))

        def waits() -> bool:
            return lock.name in open_files(process.pid)

        await_(waits, "the second command at the lock")
        (evaluating.folder / "result.json").rename(result)
        before = result.read_bytes(), (run.folder / "metrics.csv").read_bytes()
    ended = finish(process)
    assert ended.returncode == 0 and "nothing to do" in ended.stderr, ended.stderr
    assert (result.read_bytes(), (run.folder / "metrics.csv").read_bytes()) == before
    run.assert_equal(evaluated)


def test_a_run_says_where_it_ran_and_a_killed_one_how_long(evaluating: Training):
    process = evaluating.start("training.max_steps=100000")
    run = evaluating.at_step(2)
    record = run.record()
    assert record["host"] == os.uname().nodename and record["muster"] and record["gpus"] == [] and record["ranks"] == 2
    process.kill()
    finish(process)
    evaluating.assert_nothing_lives()
    killed = evaluating.listed()
    assert killed["status"] == "interrupted" and 0 < killed["seconds"] < 200
    process = evaluating.start("training.max_steps=100000", "--resume")
    await_(lambda: len(run.events("attempt")) == 2, "the second attempt")
    process.terminate()
    assert finish(process).returncode == 143
    assert run.record()["seconds_before"] == pytest.approx(killed["seconds"], abs=1e-3)
    assert run.result()["seconds"] > killed["seconds"] and evaluating.listed()["seconds"] == run.result()["seconds"]
