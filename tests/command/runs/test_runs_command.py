"""muster runs over run folders: whole ones, running ones, killed ones, damaged ones and things that are no runs."""

import datetime
import json
import os

import pytest

SPEC = """
experiment:
  name: sums
  seed: 42
training:
  max_steps: 40
  learning_rate: {rate}
later:
  unknown: {{a: [1, 2]}}
"""


def make(writer, output, name="sums", steps=40, rate=2e-3, spec=None, offset=0.0, **ending):
    """A run; with an ending it is finished."""
    one = writer()
    one.ask("create", output=str(output), name=name)
    one.ask("spec", text=SPEC.format(rate=rate) if spec is None else spec)
    one.ask("plan", text=json.dumps({"fits": True, "strategy": "ddp", "ranks": [{}, {}], "parameters": 600000, "micro_batch": 64}))
    one.ask("begin", columns=["loss", "seconds", "exact_match"])
    for step in range(1, steps + 1):
        one.step(step, loss=4 / step + (offset if step > 30 else 0.0), seconds=step / 2)
    if ending:
        one.ask("finish", **ending)
        one.close()
    return one


def listed(muster, *arguments):
    return json.loads(muster("runs", "--json", *arguments).stdout)["runs"]


def test_an_empty_folder_has_no_runs(muster):
    answer = muster("runs")
    assert answer.returncode == 0 and "no runs in runs" in answer.stdout and "muster train" in answer.stdout
    assert listed(muster) == []


def test_every_status_is_told(muster, writer, output):
    make(writer, output, "done", status="done", final_loss=0.1, exact_match=0.978, seconds=68.4)
    make(writer, output, "failed", status="failed", error="rank 1 was killed\nmore", seconds=3.0)
    killed = make(writer, output, "killed")
    killed.ask("event", event="note", fields={})
    killed.kill()
    (event,) = map(json.loads, (killed.path / "events.jsonl").read_text().splitlines())
    record = json.loads((killed.path / "run.json").read_text())
    worked = datetime.datetime.fromisoformat(event["time"]) - datetime.datetime.fromisoformat(record["created"])
    running = make(writer, output, "running", steps=7)
    found = {run["name"].split("-")[0]: run for run in listed(muster)}
    assert {name: run["status"] for name, run in found.items()} == {
        "done": "done",
        "failed": "failed",
        "killed": "interrupted",
        "running": "running",
    }
    assert found["done"]["final_loss"] == 0.1 and found["done"]["exact_match"] == 0.978
    assert found["failed"]["problem"] == "rank 1 was killed"
    assert found["killed"]["steps"] == 40 and found["killed"]["final_loss"] == 0.1
    assert found["killed"]["seconds"] == pytest.approx(worked.total_seconds())  # until its last event
    assert found["running"]["steps"] == 7 and found["running"]["seconds"] >= 0
    text = muster("runs", "list").stdout
    assert "97.8 %" in text and "1 min 8 s" in text and "interrupted" in text
    running.kill()
    assert {run["status"] for run in listed(muster) if run["name"].startswith("running")} == {"interrupted"}


def test_a_run_of_one_step_is_spoken_of_in_the_singular(muster, writer, output):
    path = make(writer, output, steps=1, status="done").path
    assert ", 1 step, " in muster("runs", "show", path.name).stdout.splitlines()[1]


def test_the_newest_comes_first(muster, writer, output):
    first = make(writer, output, "b", steps=1, status="done").path
    record = json.loads((first / "run.json").read_text())
    record["created"] = "2020-01-01T00:00:00.000Z"
    (first / "run.json").write_text(json.dumps(record))
    make(writer, output, "a", steps=1, status="done")
    assert [run["name"].split("-")[0] for run in listed(muster)] == ["a", "b"]
    assert muster("runs", "show", "latest").stdout.startswith("a-")


@pytest.mark.parametrize(
    "file, content, words",
    [
        ("result.json", b'{"status"', "invalid JSON"),
        ("result.json", b'{"status": "well"}', 'status is "well"'),
        ("result.json", b"[" * 100000, "nested deeper"),
        ("result.json", b"\xff\xfe", "invalid JSON"),
        ("metrics.csv", b"step,loss\n1,x\n", 'loss is "x", not a number'),
        ("metrics.csv", b"step,loss\n2,1\n1,1\n", "step 1 after step 2"),
        ("metrics.csv", b"\x00\x01\n", "no column"),
        ("metrics.csv", b"", "no header"),
        ("spec.yaml", b"a: [", "spec.yaml"),
        ("plan.json", b"nonsense", "plan.json"),
    ],
)
def test_a_damaged_run_is_shown_as_such(muster, writer, output, file, content, words):
    run = make(writer, output, steps=3)
    run.kill()
    (run.path / file).write_bytes(content)
    answers = [muster("runs"), muster("runs", "show", "sums"), muster("runs", "compare", "sums", "sums")]
    assert [answer.returncode for answer in answers] == [0, 0, 0]
    assert words in answers[1].stdout and "damaged: " in answers[1].stdout
    if file in ("result.json", "metrics.csv"):
        assert words in answers[0].stdout and "damaged" in answers[0].stdout


def test_what_is_no_run_is_shown_as_such(muster, output):
    (output / "notes").mkdir(parents=True)
    (output / ".hidden").mkdir()
    (output / "file").write_text("x")
    (output / "loop").symlink_to("loop")
    assert [(run["name"], run["status"]) for run in listed(muster)] == [("notes", "no run")]
    assert muster("runs", "show", "notes").returncode == 0


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(muster, output):
    (output / "odd").mkdir(parents=True)
    for name in ("metrics.csv", "result.json", "spec.yaml", "plan.json", "events.jsonl", "lock", "run.json"):
        os.mkfifo(output / "odd" / name)
    assert listed(muster)[0]["status"] == "damaged"
    assert muster("runs", "show", "odd").returncode == 0


def test_nothing_in_a_run_reaches_the_terminal_as_an_order(muster, writer, output):
    run = make(writer, output, steps=2, spec='model:\n  path: "a\\e[31mb"\n', status="failed", error="bad \x1b]0;title\x07")
    odd = run.path.rename(output / "sums\x1b[2J")
    (odd / "metrics.csv").write_text("step,loss,\x1b[1m\n1,2,3\n")
    for words in (["list"], ["show", "sums"], ["compare", "sums", "sums"]):
        answer = muster("runs", *words)
        assert answer.returncode == 0 and "\x1b" not in answer.stdout and "sums" in answer.stdout


def test_show_tells_all_of_a_run(muster, writer, output):
    run = make(writer, output, status="failed", error="rank 1: out of memory\n  try: less", seconds=20.0)
    (run.path / "checkpoints/step-20").mkdir()
    (run.path / "checkpoints/step-20/weights").write_bytes(b"x" * 3000)
    (run.path / "model").mkdir()
    text = muster("runs", "show", "su").stdout
    for part in (
        "failed",
        "plan: ddp, 2 ranks, micro-batch 64, 600,000 parameters",
        "training.max_steps = 40",
        "training.learning_rate = 0.002",
        "later.unknown.a = [1, 2]",
        "step 20  2.9 KiB",
        "  rank 1: out of memory\n",
        "40 steps",
        "└",
    ):
        assert part in text, part
    assert "experiment.seed" not in text  # 42 is built in
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)
    shown = json.loads(muster("runs", "show", "su", "--json").stdout)
    assert shown["settings"]["training.learning_rate"] == "0.002"
    assert shown["columns"]["loss"] == {"first": 4.0, "last": 0.1, "least": 0.1, "most": 4.0}
    assert shown["checkpoints"] == [{"step": 20, "bytes": 3000}] and shown["exported"] is True


def test_show_is_plain_ascii_where_the_locale_is(muster, writer, output):
    make(writer, output, status="done")
    assert muster("runs", "show", "latest", LC_ALL="C").stdout.isascii()


def test_the_last_error_of_a_killed_run_comes_from_its_events(muster, writer, output):
    run = make(writer, output)
    run.ask("event", event="failed", fields={"what": "rank 3 hangs"})
    run.kill()
    assert "rank 3 hangs" in muster("runs", "show", "sums").stdout


def test_compare_finds_equal_curves(muster, writer, output):
    make(writer, output, "one", status="done")
    make(writer, output, "two", status="done")
    text = muster("runs", "compare", "one", "two").stdout
    assert "the loss is equal bit for bit at all 40 steps" in text
    assert "settings that differ\n  none" in text
    assert json.loads(muster("runs", "compare", "one", "two", "--json").stdout)["loss"] == {
        "common_steps": 40,
        "first_difference": None,
        "largest_difference": 0.0,
        "equal": True,
    }


def test_compare_finds_the_first_difference(muster, writer, output):
    make(writer, output, "one", status="done")
    make(writer, output, "two", steps=50, rate=1e-3, offset=1e-15, status="done")
    text = muster("runs", "compare", "one", "two").stdout
    assert "the loss differs first at step 31" in text
    assert "training.learning_rate: A 0.002, B 0.001" in text
    assert "B has 10 steps that the other has not" in text
    assert "A one-" in text and "* both" in text
    compared = json.loads(muster("runs", "compare", "one", "two", "--json").stdout)
    assert compared["loss"]["first_difference"] == 31 and not compared["loss"]["equal"]
    assert compared["settings"] == {"training.learning_rate": ["0.002", "0.001"]}


def test_names_are_found_by_their_beginning_or_refused_with_the_nearest(muster, writer, output):
    run = make(writer, output, "arithmetic", steps=1, status="done")
    make(writer, output, "apples", steps=1, status="done")
    assert muster("runs", "show", str(run.path)).returncode == 0
    unknown = muster("runs", "show", "arithmatic")
    assert unknown.returncode == 2 and f"try: {run.path.name}" in unknown.stderr
    ambiguous = muster("runs", "show", "a")
    assert ambiguous.returncode == 2 and '2 runs begin with "a"' in ambiguous.stderr
    assert muster("runs", "compare", "apples").returncode == 2


def test_output_is_where_training_puts_runs(muster, writer, tmp_path):
    make(writer, tmp_path / "elsewhere", steps=1, status="done")
    assert len(listed(muster, "--output", "elsewhere")) == 1
    answer = muster("runs", "show", "sums", "--output", "elsewhere")
    assert answer.returncode == 0
    assert "sums-" in muster("runs", MUSTER_EXPERIMENT_OUTPUT="elsewhere").stdout


def test_a_run_that_is_worked_on_is_not_taken_by_another(writer, output):
    run = make(writer, output, steps=1)
    with pytest.raises(AssertionError, match="is being worked on by process"):
        writer().ask("hold", path=str(run.path))
