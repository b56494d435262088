"""Learning from trajectories as a user would: the same bits in every layout, which ones are learnt from, what is refused."""

import json
import random

import pytest
import train_runs

SETTINGS = {"max_steps": 4, "learning_rate": 5e-3, "deterministic": "true", "sequence_length": 160, "batch_size": 4, "micro_batch_size": 2,
            "sft.mode": "combined"}


def trajectories(count, seed=3):
    chance = random.Random(seed)
    rows = []
    for pair in train_runs.pairs(count, seed):
        answers = chance.randint(1, 3)
        said = [pair["prompt"]] + [chance.choice(train_runs.WORDS) for _ in range(answers)]
        rows.append({"observations": [{"messages": [{"role": "user", "content": text}], "done": False} for text in said],
                     "actions": [{"role": "assistant", "content": pair["completion"]}] * answers,
                     "rewards": [{"value": chance.choice([0, 0.5, 1])} for _ in range(answers)], "metadata": {}})
    return rows


ROWS = trajectories(12)


def earned(row):
    return sum(reward["value"] for reward in row["rewards"])


@pytest.fixture(scope="module")
def data(classroom):
    return classroom.data(ROWS)


def train(classroom, data, ranks=1, **settings):
    return classroom.train(classroom.model("llama"), data, ranks, **SETTINGS | settings)


@pytest.fixture(scope="module")
def alone(classroom, data):
    return train(classroom, data)


@pytest.mark.parametrize("ranks, pass_size, words", [(2, 1, {}), (1, 4, {}), (2, 2, {"distributed.strategy": "fsdp"})])
def test_every_layout_gives_the_same_bits(classroom, data, alone, ranks, pass_size, words):
    run = train(classroom, data, ranks, micro_batch_size=pass_size, **words)
    train_runs.assert_same_bits(alone, run)
    for name in ("bc_loss", "world_model_loss"):
        assert alone.column(name) == run.column(name)


def test_the_loss_is_the_weighted_sum_of_its_two_parts(classroom, data, alone):
    for loss, bc, world in zip(alone.column(), alone.column("bc_loss"), alone.column("world_model_loss"), strict=True):
        assert float(loss) == pytest.approx(0.5 * float(bc) + 0.5 * float(world), rel=1e-6)
    run = train(classroom, data, **{"sft.bc_weight": 1, "sft.world_model_weight": 0, "max_steps": 1})
    assert run.column() == run.column("bc_loss")


def test_evaluations_measure_both_parts(classroom, data):
    run = train(classroom, data, max_steps=1, **{"data.eval_path": classroom.data(ROWS[:3])})
    loss, bc, world = (float(run.column(f"eval_{name}")[0]) for name in ("loss", "bc_loss", "world_model_loss"))
    assert loss == pytest.approx(0.5 * bc + 0.5 * world, rel=1e-6)


def test_only_trajectories_that_earned_enough_are_learnt_from(classroom, data):
    rich = [row for row in ROWS if earned(row) >= 1]
    assert 0 < len(rich) < len(ROWS)
    chosen = train(classroom, data, **{"sft.filter_low_reward": "true", "sft.min_reward_threshold": 1})
    train_runs.assert_same_bits(chosen, train(classroom, classroom.data(rich)))
    assert f"{len(ROWS) - len(rich)} trajectories left out" in chosen.text or len(ROWS) - len(rich) == 1
    newest = train(classroom, data, **{"sft.filter_low_reward": "true", "sft.min_reward_threshold": 1, "sft.max_trajectories": 3})
    train_runs.assert_same_bits(newest, train(classroom, classroom.data(rich[-3:])))
    assert "the last 3 are learnt from" in newest.text


@pytest.mark.parametrize("settings, words", [
    ({"sft.filter_low_reward": "true", "sft.min_reward_threshold": 100}, "earned less than sft.min_reward_threshold"),
    ({"data.train_on": "last"}, "data.train_on=last leaves everything but the last answers out"),
    ({"sft.bc_weight": 0, "sft.world_model_weight": 0}, "nothing would be learnt"),
    ({"sft.mode": "dreaming"}, "sft.mode"),
    ({"sft.max_trajectories": 0}, "sft.max_trajectories"),
])
def test_mistakes_are_told_before_anything_starts(classroom, data, settings, words):
    run = classroom.start(classroom.model("llama"), data, **SETTINGS | settings)
    assert run.code == 2 and words in run.text, run.text


@pytest.mark.parametrize("row, words", [
    ({"prompt": "a", "completion": "b"}, "the row has nothing that is said to an answer, and sft.mode=combined learns that"),
    ({"observations": [], "actions": []}, '"observations" is'),
    ({"observations": [{"messages": [{"role": "user", "content": "a"}]}], "actions": [{"role": "user", "content": "b"}]},
     "actions are the assistant's"),
])
def test_a_bad_row_is_refused_with_its_file_and_line(classroom, row, words):
    path = classroom.data([ROWS[0], row])
    run = classroom.start(classroom.model("llama"), path, **SETTINGS)
    assert run.code == 2 and words in run.text and f"{path.name}:2" in run.text, run.text


def test_nothing_is_collected_while_sft_trains_and_that_is_said(classroom, data):
    run = train(classroom, data, max_steps=1, **{"sft.collect_every": 5})
    assert "sft.collect_every changes nothing: nothing is collected while sft trains" in run.text


def test_what_was_collected_is_learnt_from(classroom, tmp_path):
    """muster collect writes what muster train reads."""
    import subprocess

    topics = classroom.data([{"topic": "rivers", "opponent": ["no"]}, {"topic": "stones", "opponent": ["yes"]}])
    file = tmp_path / "trajectories.jsonl"
    words = ["collect", "-m", str(classroom.model("llama")), "-e", "debate", f"data.path={topics}", "-n", "4", "-o", str(file), "--device", "cpu",
             "generation.max_new_tokens=8", "generation.stop_tokens=[32,101,116,97,111]"]
    done = subprocess.run([train_runs.PROGRAM, *words], env=classroom.environment, cwd=classroom.folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 4
    run = classroom.start(classroom.model("llama"), file, **SETTINGS | {"max_steps": 1, "sequence_length": 400, "sft.mode": "behavioral_cloning"})
    assert run.code == 0, run.text
