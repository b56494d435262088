"""Training in environments: the same bits however it is laid out, killed or not; what is refused; what is written down."""

import json
import shutil

import pytest
import train_runs
from test_policies import assert_same_run, cut_back, rollouts_of, table_of

SETTINGS = {"algorithm": "grpo", "max_steps": 3, "learning_rate": 5e-3, "deterministic": "true", "sequence_length": 400,
            "num_rollouts_per_iteration": 16, "batch_size": 8, "micro_batch_size": 3, "generation.max_new_tokens": 80,
            "grpo.num_generations": 4, "generation.stop_tokens": "[32,101,116,97,111]", "environment.type": "debate",
            "environment.max_result_tokens": 32}
TOPICS = [{"topic": row["prompt"], "opponent": [" no.", " It was never so, and it will never be so."]} for row in train_runs.pairs(6, seed=4)]
FSDP = {"distributed.strategy": "fsdp"}


@pytest.fixture(scope="module")
def rows(classroom):
    return classroom.data(TOPICS)


def train(classroom, rows, ranks=1, **settings):
    return classroom.train(classroom.model("llama-tied"), rows, ranks, **SETTINGS | settings)


@pytest.fixture(scope="module")
def alone(classroom, rows):
    return train(classroom, rows)


@pytest.mark.parametrize("ranks, pass_size, at_once, words", [(2, 3, 2, {}), (3, 1, 16, {}), (2, 2, 4, FSDP)])
def test_every_layout_gives_the_same_episodes_and_bits(classroom, rows, alone, ranks, pass_size, at_once, words):
    run = train(classroom, rows, ranks, micro_batch_size=pass_size, **{"generation.batch_size": at_once} | words)
    assert_same_run(alone, run)


def test_all_turns_are_written_down(alone):
    text = rollouts_of(alone)["round-000001.jsonl"]
    answers = [json.loads(line) for line in text.splitlines()[1:]]
    assert {len(answer["turns"]) for answer in answers} > {1}
    said = [turn["environment"] for answer in answers for turn in answer["turns"] if "environment" in turn]
    assert any("(cut)" in text for text in said) and any(text.strip() == "no." for text in said)
    for answer in answers:
        assert len(answer["tokens"]) <= 80
        assert answer["ended"] == (len(answer["turns"]) == 3 and answer["tokens"][-1] in (32, 101, 116, 97, 111))
        assert [turn["reward"] for turn in answer["turns"][:-1]] == [0] * (len(answer["turns"]) - 1)
        assert answer["parts"] == {"debate": answer["reward"]}
    table = table_of(alone)
    assert float(table[0]["turns/mean"]) > 1 and table[0]["rewards/debate/mean"] == table[0]["reward"]
    assert float(table[0]["gradient_norm"]) > 0


def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(classroom, rows, alone):
    """In the middle of a round, whose episodes are read, with other ranks."""
    begun = train(classroom, rows, 2, save_steps=1)
    cut_back(begun, 1)
    settings = SETTINGS | FSDP | {"save_steps": 1, "experiment.resume": begun.folder}
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, **settings)
    assert gone_on.code == 0 and "resuming after step 1" in gone_on.text, gone_on.text
    assert_same_run(alone, begun)


def test_programs_are_tried_again_in_a_sandbox(classroom):
    """A model that knows no Python: what failed is told, and every attempt is an error."""
    data = classroom.data([{"prompt": prompt, "tests": ["assert f(1) == 2"]} for prompt in "abcd"])
    words = {"environment.type": "code", "environment.max_attempts": 2, "max_steps": 1, "generation.max_new_tokens": 350,
             "environment.max_result_tokens": 256}
    answers = [json.loads(line) for line in rollouts_of(train(classroom, data, 2, **words))["round-000001.jsonl"].splitlines()[1:]]
    assert {answer["reward"] for answer in answers} <= {0, -0.5}
    assert any(len(answer["turns"]) == 2 and "0 of 1 tests passed" in answer["turns"][0]["environment"] for answer in answers)


def test_a_template_that_knows_no_tools_gets_their_results_as_the_users(classroom, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(classroom.model("llama-tied"), model)
    (model / "chat_template.jinja").write_text(
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}")
    data = classroom.data([{"prompt": f"What is {i} + 2?", "answer": str(i + 2)} for i in range(4)])
    settings = SETTINGS | {"environment.type": "tool", "environment.max_result_tokens": 256, "max_steps": 1, "max_episode_length": 2}
    run = classroom.start(model, data, **settings)
    assert run.code == 2 and "no tools" in run.text and "environment.tool_role=user" in run.text, run.text
    run = classroom.start(model, data, **settings | {"environment.tool_role": "user"})
    assert run.code == 0, run.text


def test_one_turn_is_an_episode_of_one_step(classroom):
    data = classroom.data([{"prompt": row["prompt"], "answer": "7"} for row in train_runs.pairs(4)])
    run = train(classroom, data, **{"environment.type": "math", "environment.max_result_tokens": 256})
    answers = [json.loads(line) for line in rollouts_of(run)["round-000001.jsonl"].splitlines()[1:]]
    assert all(len(answer["turns"]) == 1 and answer["inserted"] == [] for answer in answers)
    assert {answer["reward"] for answer in answers} <= {1, 0, -0.3}


@pytest.mark.parametrize("settings, words", [
    ({"reward.functions": "exact"}, "reward.functions is set, and environment.type=debate judges by itself"),
    ({"environment.reward_steps": "true"}, "environment.reward_steps is set, and environment.type is debate"),
    ({"environment.type": "chess"}, "environment.type"),
    ({"environment.type": "null"}, "environment.type is not"),
    ({"max_episode_length": 0}, "max_episode_length"),
    ({"data.eval_path": "rows.jsonl"}, "leave data.eval_path out"),
])
def test_mistakes_are_told_before_anything_starts(classroom, rows, settings, words):
    run = classroom.start(classroom.model("llama-tied"), rows, **SETTINGS | settings)
    assert run.code == 2 and words in run.text, run.text


def train_pairs(classroom, data, **settings):
    return classroom.train(classroom.model("llama-tied"), data, algorithm="dpo", max_steps=1, batch_size=4, sequence_length=64, **settings)


def test_what_learns_from_data_needs_no_environment(classroom):
    data = classroom.data([{"prompt": row["prompt"], "chosen": row["completion"], "rejected": " no"} for row in train_runs.pairs(4)])
    run = train_pairs(classroom, data, **{"environment.type": "math"})
    assert "environment.type=math changes nothing: dpo learns from data" in run.text


@pytest.mark.parametrize("kind, row, words", [
    ("debate", {"prompt": ["a"]}, "no text \"topic\""),
    ("math", {"prompt": "a", "answer": "blue"}, "no number"),
    ("tool", {"prompt": "a", "answer": "1", "tools": ["phone"]}, "phone"),
    ("code", {"prompt": "a"}, "no tests"),
])
def test_a_bad_row_is_refused_with_its_file_and_line(classroom, kind, row, words):
    good = {"topic": "a", "prompt": "b", "answer": "1", "tests": "assert f(1)"}
    data = classroom.data([good, row])
    settings = SETTINGS | {"environment.type": kind, "environment.max_result_tokens": 256}
    run = classroom.start(classroom.model("llama-tied"), data, **settings)
    assert run.code == 2 and f"{data}:2: " in run.text and words in run.text, run.text
