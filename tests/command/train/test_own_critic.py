"""A critic with weights of its own: the same bits however both models are laid out, killed or not; what is left, planned and refused."""

import json
import shutil
import subprocess

import pytest
import test_ppo
import torch
import train_runs
import transformers
from test_policies import FSDP, assert_same_run, cut_back, rows, table_of  # noqa: F401

LAYOUTS = [(2, 3, 2, {}), (3, 1, 16, {}), (2, 2, 4, FSDP), (3, 4, 2, FSDP),
           (4, 1, 3, FSDP | {"distributed.fsdp_sharding_strategy": "hybrid_shard", "distributed.fsdp_group_size": 2})]


@pytest.fixture(scope="module")
def settings(classroom):
    return test_ppo.SETTINGS | {"ppo.critic": classroom.model("qwen2"), "ppo.critic_learning_rate": 2e-2}


@pytest.fixture(scope="module")
def train(classroom, rows, settings):  # noqa: F811
    return lambda ranks=1, **more: classroom.train(classroom.model("llama-tied"), rows, ranks, **settings | more)


@pytest.fixture(scope="module")
def alone(train):
    return train()


def critic_of(run):
    return train_runs.read_tensors(run.folder / "critic")


def assert_same_models(one, other):
    assert_same_run(one, other)
    ours, theirs = critic_of(one), critic_of(other)
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("ranks, pass_size, at_once, words", LAYOUTS)
def test_every_layout_gives_both_models_the_same_bits(train, alone, ranks, pass_size, at_once, words):
    run = train(ranks, micro_batch_size=pass_size, **{"generation.batch_size": at_once} | words)
    assert_same_models(alone, run)
    table = table_of(run)
    assert len({row["loss/value_avg"] for row in table}) > 3
    assert {float(row["sampling/sampling_logp_difference/mean"]) for row in table[::4]} == {0.0}


@pytest.mark.parametrize("step, gone", [(2, []), (4, ["round-000002.jsonl"])])
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(classroom, rows, train, settings, alone, step, gone):  # noqa: F811
    begun = train(2, save_steps=2)
    cut_back(begun, step)
    shutil.rmtree(begun.folder / "critic")
    for name in gone:
        (begun.folder / "rollouts" / name).unlink()
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, **settings | FSDP | {"save_steps": 2, "experiment.resume": begun.folder})
    assert gone_on.code == 0 and f"resuming after step {step}" in gone_on.text, gone_on.text
    assert_same_models(alone, begun)


def test_what_is_left_is_loaded_by_transformers_and_gone_on_with(classroom, rows, settings, alone):  # noqa: F811
    """The policy has no head of its own beside it; the critic's first values are those of the head that was learnt."""
    assert not (alone.folder / "model/value_head.safetensors").exists()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(alone.folder / "critic")
    assert model.config.num_labels == 1
    run = classroom.train(alone.folder / "model", rows, **settings | {"max_steps": 1, "ppo.critic": alone.folder / "critic"})
    answer = json.loads((run.folder / "rollouts/round-000001.jsonl").read_text().splitlines()[1])
    tokenizer = transformers.AutoTokenizer.from_pretrained(alone.folder / "model")
    prompt = tokenizer(answer["question"])["input_ids"]
    with torch.no_grad():
        hidden = model.model(torch.tensor([prompt + answer["tokens"]])).last_hidden_state[0, len(prompt) - 1:-1]
        values = model.score(hidden)[:, 0]
    assert torch.allclose(values, torch.tensor(answer["values"]), atol=1e-5)


def test_a_critic_is_trained_as_a_whole_beside_adapters(train):
    words = {"model.use_lora": "true", "model.lora_r": 2, "learning_rate": 5e-2}
    run = train(1, **words)
    assert_same_models(run, train(2, **words | FSDP))
    assert (run.folder / "model/adapter_config.json").exists()


def plan(classroom, rows, **more):  # noqa: F811
    words = [f"{name if '.' in name else 'training.' + name}={value}" for name, value in more.items()]
    command = [str(train_runs.PROGRAM), "train", "-m", str(classroom.model("llama-tied")), "--device", "cpu", f"data.path={rows}", *words]
    done = subprocess.run([*command, "--dry-run", "--json"], env=classroom.environment, cwd=classroom.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["ranks"][0]["components"]


def test_the_plan_has_the_critic_s_states(classroom, rows, settings, alone):  # noqa: F811
    """AdamW beside float32 masters: 4 numbers a parameter, and the copy that is computed with; exact sums of gradients take twice as much."""
    with_own = plan(classroom, rows, **settings)
    without = plan(classroom, rows, **test_ppo.SETTINGS)
    parameters = sum(tensor.numel() for tensor in critic_of(alone).values())
    assert without["critic"] == 0
    assert 24 * parameters <= with_own["critic"] < 24.1 * parameters  # and rotary frequencies


@pytest.mark.parametrize("change, words", [
    ({"ppo.critic": "nowhere"}, "ppo.critic"),
    ({"ppo.critic_learning_rate": 0}, "ppo.critic_learning_rate"),
    ({"ppo.critic": "null"}, "ppo.critic_learning_rate is set, and the critic is a head of the policy"),
])
def test_mistakes_are_told_before_anything_starts(classroom, rows, settings, change, words):  # noqa: F811
    run = classroom.start(classroom.model("llama-tied"), rows, **settings | change)
    assert run.code == 2 and words in run.text, run.text
    assert not run.folder.joinpath("metrics.csv").exists()


def test_a_critic_with_another_tokenizer_is_refused(classroom, rows, settings, tmp_path):  # noqa: F811
    other = tmp_path / "other"
    shutil.copytree(classroom.model("qwen2"), other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    run = classroom.start(classroom.model("llama-tied"), rows, **settings | {"ppo.critic": other})
    assert run.code == 2 and "and of the policy" in run.text, run.text
