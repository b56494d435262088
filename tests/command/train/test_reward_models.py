"""Reward models: the same bits however they are trained, killed or not; answers judged by one; what is refused."""

import json
import pathlib
import shutil
import subprocess

import pytest
import safetensors.torch
import torch
import train_runs
import transformers
from test_policies import cut_back, rollouts_of, table_of
from test_preferences import FSDP, preferences

SETTINGS = {"algorithm": "reward", "max_steps": 6, "batch_size": 12, "learning_rate": 2e-3, "lr_scheduler": "cosine", "deterministic": "true",
            "reward_model.center_rewards_coefficient": 0.01, "eval_steps": 3}
# Ranks, pairs of a pass, where the state is.
LAYOUTS = [(1, 3, {}), (2, 3, {}), (3, 1, {}), (4, 3, {}), (2, 1, FSDP), (3, 2, FSDP),
           (4, 1, FSDP | {"distributed.fsdp_sharding_strategy": "hybrid_shard", "distributed.fsdp_group_size": 2}),
           (2, 2, FSDP | {"distributed.fsdp_cpu_offload": "true"})]


@pytest.fixture(scope="module")
def rows(classroom):
    """Steps of 12 pairs, and one of 6 at the end of an epoch; some with a margin."""
    return classroom.data([row | ({"margin": 0.5} if i % 3 == 0 else {}) for i, row in enumerate(preferences(30))])


@pytest.fixture(scope="module")
def held_out(classroom):
    return classroom.data(preferences(7, seed=9))


def train(classroom, rows, held_out, ranks=1, pass_size=12, **settings):
    return classroom.train(classroom.model("llama-tied"), rows, ranks, micro_batch_size=pass_size,
                           **SETTINGS | {"data.eval_path": held_out} | settings)


@pytest.fixture(scope="module")
def alone(classroom, rows, held_out):
    return train(classroom, rows, held_out)


@pytest.mark.parametrize("ranks, pass_size, words", LAYOUTS)
def test_every_layout_gives_the_same_bits(classroom, rows, held_out, alone, ranks, pass_size, words):
    run = train(classroom, rows, held_out, ranks, pass_size, **words)
    train_runs.assert_same_bits(alone, run)
    assert table_of(run) == table_of(alone)
    for column in ("loss", "margin", "min_reward", "max_reward"):
        assert len({row[column] for row in table_of(run)}) > 4, column


def test_steps_and_evaluations_tell_the_scores(alone):
    table = table_of(alone)
    assert [row["eval_margin"] != "" for row in table] == [False, False, True, False, False, True]
    for prefix, row in (("", table[0]), ("eval_", table[-1])):
        least, mean, most = (float(row[f"{prefix}{name}_reward"]) for name in ("min", "mean", "max"))
        assert least < mean < most
        assert 0 <= float(row[f"{prefix}accuracy"]) <= 1
    assert float(table[-1]["loss"]) < float(table[0]["loss"])


def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(classroom, rows, held_out, alone):
    begun = train(classroom, rows, held_out, 2, 3, save_steps=2)
    cut_back(begun, 2)
    settings = SETTINGS | FSDP | {"data.eval_path": held_out, "save_steps": 2, "experiment.resume": begun.folder}
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, micro_batch_size=2, **settings)
    assert gone_on.code == 0 and "resuming after step 2" in gone_on.text, gone_on.text
    train_runs.assert_same_bits(alone, begun)
    assert table_of(begun) == table_of(alone)


def first_head(classroom, rows, seed):
    run = classroom.train(classroom.model("llama-tied"), rows, **SETTINGS | {"max_steps": 1, "learning_rate": 1e-12, "experiment.seed": seed,
                                                                            "optimizer": "sgd", "eval_steps": "null"})
    return run.tensors()["score.weight"]


def test_a_fresh_head_follows_from_the_seed(classroom, rows):
    head = first_head(classroom, rows, 1)
    assert torch.equal(head, first_head(classroom, rows, 1)) and not torch.equal(head, first_head(classroom, rows, 2))
    assert head.shape == (1, 48) and head.std().item() == pytest.approx(0.02, rel=0.3)


def test_a_classifier_is_trained_on_from_its_own_head(classroom, rows, held_out, alone):
    again = classroom.train(alone.folder / "model", rows, **SETTINGS | {"max_steps": 1, "learning_rate": 1e-12, "optimizer": "sgd", "eval_steps": "null"})
    assert torch.equal(again.tensors()["score.weight"], alone.tensors()["score.weight"])
    assert "lm_head.weight" not in again.tensors()


def test_beside_adapters_the_head_is_trained_as_a_whole(classroom, rows, held_out):
    settings = {"model.use_lora": "true", "model.lora_r": 2}
    run = train(classroom, rows, held_out, 1, **settings)
    config = json.loads((run.folder / "model/adapter_config.json").read_text())
    assert config["task_type"] == "SEQ_CLS" and config["modules_to_save"] == ["score"]
    tensors = run.tensors()
    assert tensors["base_model.model.score.weight"].shape == (1, 48)
    other = train(classroom, rows, held_out, 3, 2, **settings | FSDP)
    train_runs.assert_same_bits(run, other)
    peft = pytest.importorskip("peft")
    loaded = peft.AutoPeftModelForSequenceClassification.from_pretrained(run.folder / "model", num_labels=1)
    assert torch.equal(loaded.base_model.model.score.modules_to_save.default.weight, tensors["base_model.model.score.weight"])
    merged = run.folder.parent / "merged"
    command = [str(train_runs.PROGRAM), "model", "merge", str(run.folder / "model"), str(merged)]
    done = subprocess.run(command, env=classroom.environment, cwd=classroom.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    whole = transformers.AutoModelForSequenceClassification.from_pretrained(merged)
    ids = torch.tensor([[256, 65, 66, 67]])
    with torch.no_grad():
        torch.testing.assert_close(whole(ids).logits, loaded(ids).logits, atol=1e-5, rtol=0)


def test_pairs_with_a_text_that_is_too_long_are_left_out_and_counted(classroom):
    rows = preferences(6)
    rows[2]["chosen"] = " long" * 40
    run = classroom.train(classroom.model("llama-tied"), classroom.data(rows), algorithm="reward", max_steps=1, batch_size=5, sequence_length=120)
    assert "1 pair left out: one of its texts is longer than training.sequence_length" in run.text, run.text
    assert "5 pairs" in run.text


def dry_run(classroom, model, data, **settings):
    words = [f"{name if '.' in name else 'training.' + name}={value}" for name, value in settings.items()]
    command = [str(train_runs.PROGRAM), "train", "-m", str(model), "--device", "cpu", f"data.path={data}", "--dry-run", "--json", *words]
    done = subprocess.run(command, env=classroom.environment, cwd=classroom.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_usual_rate_is_that_of_trl(classroom, rows, alone):
    run = classroom.train(classroom.model("llama-tied"), rows, algorithm="reward", max_steps=1, batch_size=12, lr_scheduler="constant")
    assert float(run.column("learning_rate")[0]) == 1e-4


JUDGED = {"algorithm": "grpo", "max_steps": 4, "learning_rate": 5e-3, "deterministic": "true", "sequence_length": 64,
          "num_rollouts_per_iteration": 16, "batch_size": 8, "micro_batch_size": 3, "generation.max_new_tokens": 8, "grpo.num_generations": 4,
          "reward.functions": "model"}


@pytest.fixture(scope="module")
def prompts(classroom):
    return classroom.data([{"prompt": row["prompt"]} for row in train_runs.pairs(6, seed=4)])


def test_answers_are_judged_the_same_whatever_is_judged_beside(classroom, prompts, alone):
    words = {"reward.model": alone.folder / "model"}
    one = classroom.train(classroom.model("llama-tied"), prompts, 1, **JUDGED | words)
    for ranks, batch, more in ((2, 1, {}), (3, 7, FSDP)):
        other = classroom.train(classroom.model("llama-tied"), prompts, ranks, **JUDGED | words | more | {"data_collection.reward_batch_size": batch})
        train_runs.assert_same_bits(one, other)
        assert table_of(one) == table_of(other) and rollouts_of(one) == rollouts_of(other)
    assert len({row["rewards/model/mean"] for row in table_of(one)}) > 1


def test_the_plan_has_the_reward_model_s_bytes(classroom, prompts, alone):
    plan = dry_run(classroom, classroom.model("llama-tied"), prompts, **JUDGED | {"reward.model": alone.folder / "model"})
    held = sum(file.stat().st_size for file in (alone.folder / "model").glob("*.safetensors"))
    assert plan["ranks"][0]["components"]["reward_model"] == pytest.approx(held, rel=0.02)
    assert dry_run(classroom, classroom.model("llama-tied"), prompts, **JUDGED | {"reward.functions": "length"})["ranks"][0]["components"]["reward_model"] == 0


def with_config(folder, model, **changes):
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


def test_reward_models_that_do_not_fit_are_refused_before_anything_starts(classroom, prompts, alone, tmp_path):
    def refused(model, *words, data=prompts):
        run = classroom.start(classroom.model("llama-tied"), data, **JUDGED | {"reward.model": model})
        assert run.code == 2 and all(word in run.text for word in words), run.text
        assert not run.folder.joinpath("metrics.csv").exists()

    model = alone.folder / "model"
    refused(classroom.model("llama"), "LlamaForCausalLM", "no score.weight", "training.algorithm=reward makes one")
    refused(tmp_path / "nothing", "reward.model", "nothing")
    two = with_config(tmp_path / "two", model, id2label=None, label2id=None)
    refused(two, "score.weight is [1, 48], and the configuration asks for [2, 48]")
    head = train_runs.read_tensors(two)
    head["score.weight"] = torch.cat([head["score.weight"]] * 2)
    safetensors.torch.save_file(head, two / "model.safetensors", metadata={"format": "pt"})
    refused(two, "has 2 labels, and a reward is one score")
    many = pathlib.Path(shutil.copytree(model, tmp_path / "many"))
    tokenizer = json.loads((many / "tokenizer.json").read_text())
    tokenizer["added_tokens"] += [dict(tokenizer["added_tokens"][0], id=259 + i, content=f"<{i}>") for i in range(100)]
    (many / "tokenizer.json").write_text(json.dumps(tokenizer))
    refused(many, "has 359 tokens, and the model knows 331")
    talk = classroom.data([{"prompt": [{"role": "user", "content": "a"}]}])
    chat = pathlib.Path(shutil.copytree(classroom.model("llama-tied"), tmp_path / "chat"))
    (chat / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    run = classroom.start(chat, talk, **JUDGED | {"reward.model": model})
    assert run.code == 2 and f"{talk}:1" in run.text and "no chat template" in run.text, run.text


def test_a_classifier_neither_answers_nor_learns_to(classroom, rows, prompts, alone, tmp_path):
    model = alone.folder / "model"
    for settings, data in ((JUDGED | {"reward.functions": "length"}, prompts), ({"algorithm": "dpo", "max_steps": 1}, rows)):
        run = classroom.start(model, data, **settings)
        assert run.code == 2 and "LlamaForSequenceClassification: it scores texts, and has no head that predicts tokens" in run.text, run.text
    done = subprocess.run([str(train_runs.PROGRAM), "generate", "-m", str(model), "--device", "cpu", "a"], env=classroom.environment,
                          cwd=classroom.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "it scores texts" in done.stderr, done.stderr


@pytest.mark.parametrize("row, words", [
    ({"chosen": "a"}, "the row has no \"rejected\""),
    ({"chosen": "a", "rejected": "a"}, "are equal"),
    ({"chosen": "a", "rejected": "b", "margin": "wide"}, "\"margin\" is \"wide\", not a number"),
    ({"prompt": "c", "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]}, "\"prompt\" is a text"),
])
def test_a_bad_row_is_refused_with_its_file_and_line(classroom, row, words):
    data = classroom.data([{"chosen": "one thing", "rejected": "another"}, row])
    run = classroom.start(classroom.model("llama-tied"), data, **SETTINGS)
    assert run.code == 2 and f"{data}:2: " in run.text and words in run.text, run.text


def test_the_example_learns_to_tell_right_sums_from_wrong_ones(halfway, tmp_path):
    """Cut short."""
    output = tmp_path / "runs"
    command = [str(train_runs.PROGRAM), "train", "--config", str(train_runs.ROOT / "examples/reward_arithmetic.yaml"), "--device", "cpu",
               "--ranks", "2", "training.max_steps=60", f"experiment.output={output}"]
    done = subprocess.run(command, env=halfway.environment, cwd=halfway.folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (folder,) = output.iterdir()
    table = table_of(train_runs.Run(0, done.stderr, folder))
    assert sum(float(row["accuracy"]) for row in table[-10:]) / 10 > 0.6
