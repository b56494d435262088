"""With training.off_by=1 answers are judged while the round before them is trained on: that this is so, that no bit depends on it, and
what happens when judging fails, or the run is killed in between."""

import json
import os
import signal
import subprocess
import sys

import pytest
import train_runs
from test_policies import BEHIND, SETTINGS, UNSET, assert_same_run, cut_back, rollouts_of, table_of
from waiting import until

# Rounds begin with the steps 1, 5 and 9; a round's judge may be asked to wait until metrics.csv has so many rows.
STEPS_BEFORE = {1: 0, 2: 4, 3: 8, 4: 12}
JUDGE = """
import glob, json, sys, time
output, waits, fails_in, hangs_in = sys.argv[1], sys.argv[2] == "waits", int(sys.argv[3]), int(sys.argv[4])
steps_before = {steps}
round = 1
for line in sys.stdin:
    asked = json.loads(line)
    if round == fails_in:
        sys.exit("the round is bad")
    if round == hangs_in:
        open(output + "-hangs", "w").close()
        time.sleep(10000)
    while waits and sum(len(open(table).readlines()) - 1 for table in glob.glob(output + "/*/metrics.csv")) < steps_before[round]:
        time.sleep(0.01)
    print(json.dumps({{"id": asked["id"], "reward": sum(asked["ids"]) % 101 + asked["tokens"]}}), flush=True)
    round += asked["left"] == 0
"""


@pytest.fixture(scope="module")
def rows(classroom):
    """Two rounds take all of them."""
    return classroom.data([{"prompt": row["prompt"]} for row in train_runs.pairs(8, seed=4)])


@pytest.fixture
def judged(classroom, tmp_path):
    """Starts a run whose answers a program judges, a round at a time."""
    program = tmp_path / "judge.py"
    program.write_text(JUDGE.format(steps=STEPS_BEFORE))

    def settings(how="at once", fails_in=0, hangs_in=0, **more):
        needs_folder = how == "waits" or hangs_in
        output = classroom.folder / f"runs-{classroom.count + 1}" if needs_folder else "nowhere"  # else the same whatever the run
        words = f"{sys.executable} {program} {output} {how.replace(' ', '-')} {fails_in} {hangs_in}"
        return SETTINGS | BEHIND | UNSET | {"reward.functions": "program", "reward.program": words, "reward.program_restarts": 0,
                                            "reward.program_seconds": 100, "data_collection.reward_batch_size": 64} | more

    return settings


@pytest.fixture(scope="module")
def start(classroom, rows):
    return lambda settings, ranks=1: classroom.start(classroom.model("llama-tied"), rows, ranks, **settings)


def test_a_round_is_judged_while_the_one_before_it_is_trained_on(start, judged):
    """Its judge waits for the last step of that one: if the step waited for the judge, neither would ever end. No bit is another
    than where answers are judged before anything else is done, as they are where it follows from rewards how many are drawn."""
    beside = start(judged("waits"))
    assert beside.code == 0, beside.text
    at_once = start(judged(**{"grpo.max_draws": 2}))
    assert at_once.code == 0, at_once.text
    train_runs.assert_same_bits(beside, at_once)
    assert table_of(beside) == table_of(at_once)
    files, others = rollouts_of(beside), rollouts_of(at_once)
    drawn = files.pop("round-000004.jsonl"), others.pop("round-000004.jsonl")
    assert files == others
    # No step of this run needs what the last one earned.
    assert [json.loads(text.splitlines()[0]).get("judged", True) for text in drawn] == [False, True]
    tokens = [[json.loads(line)["tokens"] for line in text.splitlines()[1:]] for text in drawn]
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("step, last", [(2, 4), (4, 4), (6, 8)])
def test_answers_that_were_drawn_and_not_judged_are_judged_when_the_run_goes_on(start, judged, step, last):
    """Of a run that ended before anything needed their rewards, at a checkpoint inside the round before, and at its end."""
    constant = {"lr_scheduler": "constant", "save_steps": 2}
    whole = start(judged(**constant))
    begun = start(judged(**constant | {"max_steps": last}), 2)
    assert whole.code == begun.code == 0, whole.text + begun.text
    *_, newest = rollouts_of(begun).values()
    assert json.loads(newest.splitlines()[0])["judged"] is False and {json.loads(line)["reward"] for line in newest.splitlines()[1:]} == {None}
    cut_back(begun, step)
    gone_on = start(judged(**constant | {"experiment.resume": begun.folder}), 3)
    assert gone_on.code == 0 and f"resuming after step {step}" in gone_on.text, gone_on.text
    assert_same_run(whole, begun)


def test_a_judge_that_fails_beside_a_training_ends_the_run_with_its_own_words(start, judged):
    """After the steps that did not need it, whose numbers stay."""
    run = start(judged(fails_in=2) | {"distributed.max_restarts": 0})
    assert run.code != 0 and "reward function program" in run.text and "ended after 0 of 16 answers" in run.text, run.text
    assert len(table_of(run)) == 4


def test_a_run_that_is_asked_to_end_does_not_wait_for_its_judge(classroom, rows, judged):
    """What hangs is the judge of the second round; the run is told to end while it trains on the first one."""
    settings = judged(hangs_in=2) | {"grpo.num_iterations": 2000, "max_steps": 100000, "save_steps": "null", "reward.program_seconds": 5000}
    output = classroom.folder / f"runs-{classroom.count + 1}"
    words = [f"{name if '.' in name else 'training.' + name}={value}" for name, value in settings.items()]
    command = [str(train_runs.PROGRAM), "train", "-m", str(classroom.model("llama-tied")), "--device", "cpu", f"data.path={rows}",
               f"experiment.output={output}", *words]
    running = subprocess.Popen(command, env=classroom.environment, cwd=classroom.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    hangs = output.parent / (output.name + "-hangs")
    until(lambda: running.poll() is not None or (hangs.exists() and any(output.glob("*/metrics.csv"))))
    os.kill(running.pid, signal.SIGINT)
    _, text = running.communicate(timeout=240)
    assert "checkpoint" in text or "resume" in text, text
    (folder,) = output.iterdir()
    assert any((folder / "checkpoints").glob("step-*")), text
