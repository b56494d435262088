"""The files of a run, read by the programs that others read them with: Python's csv and json, TensorBoard."""

import csv
import json
import random
import struct
import xml.etree.ElementTree

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

COLUMNS = ["loss", "learning_rate", "eval_loss", "exact_match"]


def tensorboard(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def as_float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def begin(writer, output, name="sums", **order):
    writer.ask("create", output=str(output), name=name)
    writer.ask("begin", columns=COLUMNS, **order)
    return writer


def test_csv_gives_every_number_back_bit_for_bit(writer, output):
    one = begin(writer(), output)
    chance = random.Random(5)
    losses = [chance.uniform(0, 5) * 10 ** chance.randint(-300, 300) for _ in range(500)]
    losses += [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 0.0, -0.0, as_float32(0.7)]
    for step, loss in enumerate(losses, 1):
        one.step(step, loss=loss)
    with open(one.path / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", *COLUMNS]
    assert [int(row["step"]) for row in rows] == list(range(1, len(losses) + 1))
    assert [float(row["loss"]).hex() for row in rows] == [loss.hex() for loss in losses]
    assert {row["eval_loss"] for row in rows} == {""}


def test_tensorboard_has_the_numbers_of_every_step(writer, output):
    one = begin(writer(), output)
    for step in range(1, 41):
        one.step(step, loss=1 / step, learning_rate=1e-3)
    one.ask("fill", step=40, values={"eval_loss": 0.25, "exact_match": 0.5})
    seen = tensorboard(one.path)
    assert seen["train/loss"] == [(step, as_float32(1 / step)) for step in range(1, 41)]
    assert seen["eval/loss"] == [(40, 0.25)]
    assert seen["eval/exact_match"] == [(40, 0.5)]


def test_tensorboard_forgets_what_a_restart_takes_back(writer, output):
    one = begin(writer(), output)
    for step in range(1, 31):
        one.step(step, loss=100.0)
    one.ask("back", step=20)
    for step in range(21, 26):
        one.step(step, loss=1.0)
    loss = tensorboard(one.path)["train/loss"]
    assert loss == [(step, 100.0) for step in range(1, 21)] + [(step, 1.0) for step in range(21, 26)]


def test_tensorboard_reads_on_past_the_torn_end_of_a_killed_process(writer, output):
    one = begin(writer(), output)
    for step in range(1, 11):
        one.step(step, loss=2.0)
    one.kill()
    [file] = one.path.glob("events.out.tfevents.*")
    file.write_bytes(file.read_bytes()[:-7])
    two = writer()
    two.ask("hold", path=str(one.path))
    assert two.ask("begin", columns=COLUMNS, after=8) == 8
    two.step(9, loss=3.0)
    two.step(10, loss=3.0)
    assert len(list(one.path.glob("events.out.tfevents.*"))) == 2
    assert tensorboard(one.path)["train/loss"] == [(s, 2.0) for s in range(1, 9)] + [(9, 3.0), (10, 3.0)]


@pytest.mark.parametrize("seed", range(4))
def test_a_run_that_is_killed_and_goes_on_has_the_rows_of_one_that_was_not(writer, output, seed):
    chance = random.Random(seed)

    def loss(step: int) -> float:
        return 1 / 3 / step

    whole = begin(writer(), output, name="whole")
    for step in range(1, 61):
        whole.step(step, loss=loss(step))
    one = begin(writer(), output, name="killed")
    reached = 0
    while reached < 60:
        end = min(60, reached + chance.randint(1, 25))
        for step in range(reached + 1, end + 1):
            one.step(step, loss=loss(step))
        one.kill()
        with open(one.path / "metrics.csv", "ab") as file:
            file.write(chance.choice([b"", b"6", b"61,0.2", b"61,0.25,,"]))
        checkpoint = 60 if end == 60 else chance.randint(reached, end)
        path = one.path
        one = writer()
        one.ask("hold", path=str(path))
        assert one.ask("begin", columns=COLUMNS, after=checkpoint) == checkpoint
        reached = checkpoint
    assert (one.path / "metrics.csv").read_bytes() == (whole.path / "metrics.csv").read_bytes()


def test_the_end_leaves_a_picture_and_a_result(writer, output):
    one = begin(writer(), output, name="a.b")
    for step in range(1, 4):
        one.step(step, loss=1 / step)
    one.ask("fill", step=3, values={"eval_loss": 0.5})
    one.ask("finish", final_loss=1 / 3, exact_match=0.978, seconds=68.25)
    result = json.loads((one.path / "result.json").read_text())
    assert result["status"] == "done" and result["steps"] == 3 and result["seconds"] == 68.25
    assert result["final_loss"] == 1 / 3 and result["exact_match"] == 0.978 and result["error"] is None
    picture = xml.etree.ElementTree.parse(one.path / "loss.svg").getroot()
    words = {element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"step", "loss", "smoothed", "evaluation"} <= words
    assert any(word.startswith("a.b-") for word in words)
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}path"))) == 2


def test_events_are_lines_of_json_with_time_and_event(writer, output):
    one = begin(writer(), output)
    one.ask("event", event="started", fields={"ranks": 2})
    one.ask("event", event="failed", fields={"what": "a\nb"})
    lines = (one.path / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == ["started", "failed"]
    assert all(event["time"].endswith("Z") for event in events)
    assert events[0]["ranks"] == 2
