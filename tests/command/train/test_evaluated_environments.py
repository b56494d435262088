"""Evaluations in environments: episodes of each, whatever is trained by; the whole configuration file of guide 0."""

import json
import shutil
import subprocess

import pytest
import train_runs
from free_port import free_port
from test_trajectories import trajectories

GUIDE = train_runs.ROOT / "tests/unit/spec/fixtures/guides/guide0_whole_file.yaml"
SEVENS = [{"prompt": row["prompt"], "completion": " 7"} for row in train_runs.pairs(8)]
QUESTIONS = [{"prompt": row["prompt"], "answer": "7" if number % 4 else "8"} for number, row in enumerate(SEVENS)]
SETTINGS = {"max_steps": 30, "learning_rate": 1e-2, "sequence_length": 64, "batch_size": 8, "deterministic": "true", "eval_episodes": 10,
            "eval_steps": 15, "save_steps": 15, "generation.max_new_tokens": 6, "generation.temperature": 0}


@pytest.fixture(scope="module")
def files(classroom):
    return classroom.data(SEVENS), classroom.data(QUESTIONS)


def evaluations(questions):
    return f"[{{type: math, data: {questions}}}, {{type: math, data: {questions}, reward_scale: 2, reward_bias: -1}}]"


def train(classroom, files, ranks=1, **settings):
    data, questions = files
    words = SETTINGS | {"environment.evaluations": evaluations(questions)} | settings
    return classroom.train(classroom.model("llama"), data, ranks, **words)


@pytest.fixture(scope="module")
def alone(classroom, files):
    return train(classroom, files)


def numbers(run):
    names = ("eval_math/reward", "eval_math/success", "eval_math_2/reward", "eval_math_2/success")
    return [[run.column(name)[step] for step in (14, 29)] for name in names]


def test_each_environment_has_its_mean_reward_and_what_was_solved(alone):
    """A model that says 7 to everything: ten episodes are eight rows and two again, of which the rows 0 and 4 want an 8."""
    assert float(alone.column("eval_math/reward")[-1]) == pytest.approx(0.7)
    assert float(alone.column("eval_math/success")[-1]) == pytest.approx(0.7)
    assert float(alone.column("eval_math_2/reward")[-1]) == pytest.approx(2 * 0.7 - 1)
    assert float(alone.column("eval_math_2/success")[-1]) == pytest.approx(0.7)
    assert [row for row, value in enumerate(alone.column("eval_math/reward")) if value] == [14, 29]


@pytest.mark.parametrize("ranks, words", [(2, {}), (2, {"distributed.strategy": "fsdp"})])
def test_the_numbers_do_not_depend_on_ranks(classroom, files, alone, ranks, words):
    run = train(classroom, files, ranks, **words)
    assert numbers(run) == numbers(alone)
    train_runs.assert_same_bits(alone, run)


def test_episodes_are_those_that_collecting_plays_with_the_exported_model(classroom, files, alone, tmp_path):
    file = tmp_path / "played.jsonl"
    words = ["collect", "-m", str(alone.folder / "model"), "-e", "math", f"data.path={files[1]}", "-n", "10", "-o", str(file), "--device", "cpu",
             "generation.max_new_tokens=6", "generation.temperature=0"]
    done = subprocess.run([train_runs.PROGRAM, *words], env=classroom.environment, cwd=classroom.folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rewards = [json.loads(line)["metadata"]["reward"] for line in file.read_text().splitlines()]
    assert float(alone.column("eval_math/reward")[-1]) == pytest.approx(sum(rewards) / len(rewards))


def test_answers_that_are_drawn_are_drawn_alike_in_every_evaluation_and_layout(classroom, files):
    words = {"max_steps": 2, "eval_steps": 1, "learning_rate": 1e-12, "generation.temperature": 1, "sequence_length": 400,
             "generation.max_new_tokens": 60, "generation.stop_tokens": "[32,101,116,97,111]",
             "environment.evaluations": f"[{{type: debate, data: {classroom.data([{'topic': 'rivers'}, {'topic': 'stones'}])}}}]"}
    one, two = train(classroom, files, **words), train(classroom, files, 2, **words)
    found = one.column("eval_debate/reward")
    assert found == two.column("eval_debate/reward") and found[0] == found[1] != ""
    assert "eval_debate/success" not in (one.folder / "metrics.csv").read_text().splitlines()[0]


@pytest.mark.parametrize("environments, words", [
    ("[{type: chess}]", "has an environment whose type is \"chess\""),
    ("[{data: rows.jsonl}]", "has an environment without a type"),
    ("[{type: math, max_attempts: 0}]", "max_attempts is 0"),
    ("[{type: math, colour: red}]", "which environments do not have"),
    ("[{type: math, remote: true}]", "environments are played by the ranks themselves"),
    ("math", "a list of tables"),
    ("[{type: code}]", "a row has no tests"),
])
def test_mistakes_are_told_before_anything_starts(classroom, files, environments, words):
    run = classroom.start(classroom.model("llama"), files[0], **SETTINGS | {"environment.evaluations": environments})
    assert run.code == 2 and words in run.text, run.text


def test_environments_that_differ_do_not_say_which_one_is_trained_in(classroom, files):
    settings = {"algorithm": "grpo", "environment.evaluations": f"[{{type: math, data: {files[1]}}}, {{type: debate, data: {files[1]}}}]"}
    run = classroom.start(classroom.model("llama"), files[0], **settings)
    assert run.code == 2 and "nothing says which of them is trained in" in run.text, run.text


@pytest.mark.parametrize("algorithm", ["ppo", "grpo", "dpo", "sft"])
def test_the_whole_file_of_guide_0_runs_as_it_stands(classroom, tmp_path, algorithm):
    shutil.copytree(classroom.model("llama"), tmp_path / "model")
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS[:4]))
    rows = {"dpo": [{"prompt": row["prompt"], "chosen": " 7", "rejected": " 8"} for row in SEVENS], "sft": trajectories(16)}.get(algorithm)
    words = [f"training.algorithm={algorithm}", f"distributed.master_port={free_port()}", "distributed.backend=gloo"]
    if rows:
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        words.append("data.path=rows.jsonl")
    command = [str(train_runs.PROGRAM), "train", "--config", str(GUIDE), "--device", "cpu", "--ranks", "2", *words]
    done = subprocess.run(command, env=classroom.environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    run = train_runs.Run(0, done.stderr, next((tmp_path / "output/whole_file").iterdir()))
    assert run.folder.name.startswith("whole_file") and run.result()["status"] == "done"
    for name in ("eval_math/reward", "eval_math/success", "eval_math_2/reward"):
        assert run.column(name)[-1] != ""
    for part in ("policy_env.env_type changes nothing", "eval_envs is read as environment.evaluations",
                 "difficulty_range changes nothing", "distributed.zero_stage changes nothing"):
        assert part in run.text, run.text
    columns = {"ppo": "objective/kl", "grpo": "rewards/math/mean", "dpo": "rewards/margins", "sft": "world_model_loss"}
    assert run.column(columns[algorithm])[-1] != ""
