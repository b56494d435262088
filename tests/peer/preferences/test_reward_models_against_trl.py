"""Reward models: weights, losses and metrics against TRL's trainer, samples against what it reads, scores against transformers."""

import json

import datasets
import numpy
import preference_rows
import pytest
import reward_models
import torch
import train_runs
import transformers
import trl_preferences
from test_preference_samples_against_trl import TEMPLATE, in_messages, messages_without_prompt, without_prompt

RATE = 0.01
SGD = dict(optimizer="sgd", learning_rate=RATE, weight_decay=0, lr_scheduler="constant", max_grad_norm=1e9)
METRICS = ["min_reward", "mean_reward", "max_reward", "accuracy", "margin"]


def unlike(row):
    """Whole texts that do not even begin alike."""
    return {"chosen": row["chosen"].strip(), "rejected": "Z" + row["rejected"]}


FORMS = {"texts": dict, "messages": in_messages, "texts without a prompt": without_prompt, "messages without a prompt": messages_without_prompt,
         "texts that begin differently": unlike}


@pytest.fixture(scope="module")
def rows():
    return preference_rows.preferences(6)


@pytest.fixture(scope="module")
def reward_model(classroom):
    return reward_models.make(classroom.model("llama"), classroom.folder / "models/llama-scores")


@pytest.fixture(scope="module")
def chat_reward_model(classroom):
    folder = reward_models.make(classroom.model("llama"), classroom.folder / "models/llama-scores-chat", seed=2)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def trl_trainer(model, rows, folder, steps, **settings):
    trl = pytest.importorskip("trl")
    words = dict(max_length=None, per_device_train_batch_size=len(rows)) | trl_preferences.USUAL | settings
    return trl.RewardTrainer(model=reward_models.load(model), args=trl.RewardConfig(output_dir=str(folder), max_steps=steps, learning_rate=RATE, **words),
                             train_dataset=datasets.Dataset.from_list(rows), processing_class=trl_preferences.tokenizer_of(model))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("name", ["plain", "centred", "with margins"])
def test_reward_models_have_the_weights_of_trl(classroom, reward_model, rows, tmp_path, name, steps):
    settings, words = {}, {}
    if name == "centred":
        settings, words = dict(center_rewards_coefficient=0.1), {"reward_model.center_rewards_coefficient": 0.1}
    if name == "with margins":
        rows = [row | {"margin": 0.25 * i} for i, row in enumerate(rows)]
    trainer = trl_trainer(reward_model, rows, tmp_path, steps, **settings)
    trainer.train()
    run = classroom.train(reward_model, classroom.data(rows), 2, algorithm="reward", max_steps=steps, batch_size=len(rows), micro_batch_size=1,
                          **SGD | words)
    ours, before = run.tensors(), reward_models.load(reward_model).state_dict()
    theirs = trainer.model.state_dict()
    assert ours.keys() == theirs.keys()
    for tensor in theirs:
        assert (ours[tensor] - theirs[tensor]).abs().max() <= 1e-5, tensor
    for tensor in ("score.weight", "model.layers.0.mlp.up_proj.weight"):
        assert (theirs[tensor] - before[tensor]).abs().max() > 1e-3, tensor  # a comparison of weights that stay would prove nothing
    logged = [line for line in trainer.state.log_history if "loss" in line]
    numpy.testing.assert_allclose(run.losses(), [line["loss"] for line in logged], atol=1e-5)
    for column in METRICS:
        numpy.testing.assert_allclose([float(number) for number in run.column(column)], [line[column] for line in logged], atol=1e-5, err_msg=column)


@pytest.mark.parametrize("form", FORMS)
def test_samples_are_those_of_trl(classroom, chat_reward_model, tmp_path, form):
    rows = [FORMS[form](row) for row in preference_rows.preferences(12)]
    whole = trl_trainer(chat_reward_model, rows, tmp_path, 1).train_dataset
    longest = sorted(max(len(row["chosen_ids"]), len(row["rejected_ids"])) for row in whole)[8]
    trainer = trl_trainer(chat_reward_model, rows, tmp_path, 1, max_length=longest)
    expected = []
    for row in trainer.train_dataset:
        for ids in (row["chosen_ids"], row["rejected_ids"]):
            expected.append({"tokens": ids + ids[-1:], "mask": [0] * len(ids) + [1]})  # what follows the last token stands for nothing
    ours = classroom.samples(chat_reward_model, classroom.data(rows), form="comparisons", sequence_length=longest)["samples"]
    assert ours == expected
    assert 18 <= len(ours) < 24  # some were too long


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2", "llama-tied"])
def test_an_export_gives_the_scores_in_transformers(classroom, rows, family):
    """Of a model that begins as a causal one, whose head is fresh."""
    causal = classroom.model(family)
    data = classroom.data(rows)
    run = classroom.train(causal, data, 2, algorithm="reward", max_steps=3, batch_size=len(rows), micro_batch_size=3, learning_rate=1e-3,
                          **{"data.eval_path": data})
    config = json.loads((run.folder / "model/config.json").read_text())
    assert config["architectures"][0].endswith("ForSequenceClassification") and config["id2label"] == {"0": "LABEL_0"}
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.folder / "model")
    texts = [tokenizer(row["prompt"] + row[side])["input_ids"] + [tokenizer.eos_token_id] for row in rows for side in ("chosen", "rejected")]
    found = reward_models.scores(run.folder / "model", texts)
    assert max(found) - min(found) > 0.01
    for column, expected in {"eval_mean_reward": numpy.mean(found), "eval_min_reward": min(found), "eval_max_reward": max(found),
                             "eval_margin": numpy.mean(numpy.array(found[::2]) - numpy.array(found[1::2]))}.items():
        assert float(run.column(column)[-1]) == pytest.approx(expected, abs=2e-6), column


def answers_of(run):
    return [json.loads(line) for line in (run.folder / "rollouts/round-000001.jsonl").read_text().splitlines()[1:]]


GRPO = {"algorithm": "grpo", "max_steps": 1, "sequence_length": 96, "num_rollouts_per_iteration": 12, "generation.max_new_tokens": 12,
        "grpo.num_generations": 4, "reward.functions": "model,length", "reward.weights": "1,0.5"}


def test_answers_earn_what_transformers_makes_of_prompt_and_answer(classroom, reward_model):
    data = classroom.data([{"prompt": row["prompt"]} for row in train_runs.pairs(3, seed=4)])
    run = classroom.train(classroom.model("qwen2"), data, 2, **GRPO | {"reward.model": reward_model, "data_collection.reward_batch_size": 5})
    tokenizer = transformers.AutoTokenizer.from_pretrained(reward_model)
    answers = answers_of(run)
    texts = [tokenizer(answer["question"] + answer["answer"], add_special_tokens=False)["input_ids"] for answer in answers]
    expected = reward_models.scores(reward_model, texts)
    assert numpy.std(expected) > 0.01
    numpy.testing.assert_allclose([answer["parts"]["model"] for answer in answers], expected, atol=1e-5)
    for answer in answers:
        assert answer["reward"] == pytest.approx(answer["parts"]["model"] + 0.5 * answer["parts"]["length"])
    assert float(run.column("rewards/model/mean")[0]) == pytest.approx(numpy.mean(expected), abs=1e-5)


def test_conversations_are_written_by_the_reward_model_s_own_template(classroom, chat_reward_model, tmp_path):
    policy = tmp_path / "policy"
    transformers.AutoModelForCausalLM.from_pretrained(classroom.model("qwen2")).save_pretrained(policy)
    tokenizer = transformers.AutoTokenizer.from_pretrained(classroom.model("qwen2"))
    tokenizer.chat_template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
    tokenizer.save_pretrained(policy)
    asked = [[{"role": "user", "content": row["prompt"]}] for row in train_runs.pairs(3, seed=4)]
    # A last message of the assistant's is the right answer, and not part of what is asked.
    data = classroom.data([{"prompt": asked[0]}, {"messages": asked[1] + [{"role": "assistant", "content": "yes"}]}, {"prompt": asked[2]}])
    run = classroom.train(policy, data, 2, **GRPO | {"reward.model": chat_reward_model})
    judge = transformers.AutoTokenizer.from_pretrained(chat_reward_model)
    texts = []
    for answer in (answers := answers_of(run)):
        messages = asked[answer["prompt"]] + [{"role": "assistant", "content": answer["answer"]}]
        assert answer["question"] == f"[user]{asked[answer['prompt']][0]['content']}[assistant]"
        texts.append(judge(judge.apply_chat_template(messages, tokenize=False), add_special_tokens=False)["input_ids"])
    numpy.testing.assert_allclose([answer["parts"]["model"] for answer in answers], reward_models.scores(chat_reward_model, texts), atol=1e-5)


def test_a_reward_model_in_four_bits_gives_nearly_the_same_scores(classroom, reward_model):
    data = classroom.data([{"prompt": row["prompt"]} for row in train_runs.pairs(3, seed=4)])
    found = {}
    for name in (reward_model, f"{reward_model}-8bit", f"{reward_model}-4bit"):
        run = classroom.train(classroom.model("qwen2"), data, 1, **GRPO | {"reward.model": name})
        found[str(name)[-4:]] = torch.tensor([answer["parts"]["model"] for answer in answers_of(run)])
    plain, eight, four = found.values()
    assert 0 < (eight - plain).abs().max() < 0.1 * plain.std() + 0.05
    assert (eight - plain).abs().max() < (four - plain).abs().max() < plain.std() + 0.5
