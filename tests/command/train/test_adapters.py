"""Low-rank adapters, against PEFT over transformers, trained by torch.optim on the same batches."""

import json
import subprocess

import model_cases
import numpy
import peft
import pytest
import torch
import torch_training
import train_runs
from adapter_steps import ADAMW, LAYOUTS, LORA, adamw, assert_refused_over_a_changed_base, assert_steps_agree
from peft_oracle import adapted, assert_adapters_equal, trained_parameters



@pytest.fixture(scope="module")
def rows(classroom):
    return classroom.data(train_runs.pairs(30))


@pytest.mark.parametrize("steps", [1, 50])
@pytest.mark.parametrize("family", train_runs.FAMILIES)
def test_steps_give_the_adapters_of_peft(classroom, rows, tmp_path, family, steps):
    model = classroom.model(family)
    _, moved = assert_steps_agree(classroom, model, rows, adapted(model), tmp_path / "begin", steps, ranks=2)
    assert max(moved.values()) > 1e-3


@pytest.mark.parametrize("options", [
    dict(target_modules=["q_proj", "v_proj"]),
    dict(target_modules=r".*\.mlp\.(up|down)_proj", use_rslora=True),
    dict(target_modules=["q_proj", "o_proj", "gate_proj"], rank_pattern={"o_proj": 2}, alpha_pattern={"gate_proj": 3}),
    dict(target_modules="all-linear", exclude_modules=["k_proj"]),
], ids=["names", "pattern", "ranks", "excluded"])
def test_modules_are_chosen_and_scaled_as_peft_does(classroom, rows, tmp_path, options):
    model = classroom.model("llama")
    oracle = adapted(model, **options)
    oracle.save_pretrained(tmp_path / "begin")
    run = classroom.train(model, rows, max_steps=3, batch_size=8, **ADAMW | {"model.adapters": tmp_path / "begin"})
    lessons = torch_training.lessons_of(classroom.samples(model, rows, steps=3, batch_size=8))
    optimizer = adamw(trained_parameters(oracle))
    losses, _ = torch_training.train(oracle, lessons, optimizer, torch_training.cosine(optimizer, 0, 3))
    numpy.testing.assert_allclose(run.losses(), losses, atol=1e-5)
    assert_adapters_equal(run.folder / "model", oracle, 1e-5)


@pytest.mark.parametrize("family", train_runs.FAMILIES)
def test_a_fresh_adapter_begins_as_pefts_and_what_is_written_loads_there(classroom, rows, family):
    model = classroom.model(family)
    run = classroom.train(model, rows, max_steps=2, batch_size=30, **ADAMW | LORA | dict(learning_rate=1e-12, weight_decay=0))
    base = model_cases.load(model, torch.float32)
    lesson = torch_training.lessons_of(classroom.samples(model, rows, steps=1, batch_size=30))[0]
    with torch.no_grad():
        loss = (torch_training.summed_loss(base, lesson) / torch_training.trained_tokens(lesson)).item()
    assert abs(run.losses()[0] - loss) <= 1e-5  # B is nothing
    loaded = peft.PeftModel.from_pretrained(base, run.folder / "model")
    downs = {name: tensor for name, tensor in loaded.state_dict().items() if "lora_A" in name}
    fresh = peft.get_peft_model(model_cases.load(model, torch.float32), peft.LoraConfig(
        r=4, lora_alpha=12, target_modules="all-linear", task_type="CAUSAL_LM")).state_dict()
    assert downs.keys() == {name for name in fresh if "lora_A" in name}
    for name, tensor in downs.items():  # spread evenly up to 1/√inputs
        bound = tensor.shape[1] ** -0.5
        assert 0.8 * bound < tensor.abs().max() <= bound * 1.0001
        assert abs(tensor.std() - fresh[name].std()) < 0.2 * bound
    config = json.loads((run.folder / "model/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(model)
    assert not (run.folder / "model/config.json").exists()
    assert (run.folder / "model/tokenizer.json").exists()


def muster(classroom, *words):
    done = subprocess.run([str(train_runs.PROGRAM), *map(str, words)], env=classroom.environment, cwd=classroom.folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("family", train_runs.FAMILIES)
def test_merging_gives_the_weights_of_peft_and_leaves_the_base_alone(classroom, tmp_path, family):
    model = classroom.model(family)
    before = train_runs.read_tensors(model)
    oracle = adapted(model, rank_pattern={"o_proj": 2, "c_fc": 3}, use_rslora=True)
    oracle.save_pretrained(tmp_path / "adapter")
    code, text = muster(classroom, "model", "merge", tmp_path / "adapter", tmp_path / "merged", "-m", model)
    assert code == 0, text
    merged = model_cases.load(tmp_path / "merged", torch.float32).state_dict()
    theirs = oracle.merge_and_unload().state_dict()
    assert merged.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert (merged[name] - tensor).abs().max() <= 1e-6 * max(1, tensor.abs().max()), name
    assert max((merged[name] - tensor).abs().max() for name, tensor in before.items() if name in merged) > 1e-2
    after = train_runs.read_tensors(model)
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    code, text = muster(classroom, "model", "merge", tmp_path / "adapter", tmp_path / "merged", "-m", model)
    assert code == 2 and "merged" in text  # never over what is there


def test_scores_of_a_merged_model_are_those_of_model_and_adapter(classroom, rows, tmp_path):
    model = classroom.model("llama-tied")
    run = classroom.train(model, rows, max_steps=20, batch_size=8, **ADAMW | LORA)
    code, text = muster(classroom, "model", "merge", run.folder / "model", tmp_path / "merged")
    assert code == 0, text
    prompts = tmp_path / "pairs.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in train_runs.pairs(8)))
    scores = []
    for folder in (run.folder / "model", tmp_path / "merged", model):
        code, text = muster(classroom, "generate", "-m", folder, "--device", "cpu", "-p", prompts, "--score")
        assert code == 0, text
        scores.append([json.loads(line)["logprob"] for line in text.splitlines() if line.startswith("{")])
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert max(abs(one - other) for one, other in zip(scores[0], scores[2], strict=True)) > 0.1


RECOMPUTED = dict(zip(LAYOUTS, ["none", "full", "selective", "full", "none", "selective"], strict=True))
SETTINGS = dict(max_steps=8, batch_size=12, learning_rate=2e-3, lr_scheduler="cosine", warmup_steps=2, deterministic="true")
DROPOUT = LORA | {"model.lora_dropout": 0.2}


@pytest.fixture(scope="module")
def alone(classroom, rows):
    return classroom.train(classroom.model("llama-tied"), rows, **SETTINGS | DROPOUT)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_bits_with_dropout_too(classroom, rows, alone, layout):
    ranks, mode = LAYOUTS[layout]
    other = classroom.train(classroom.model("llama-tied"), rows, ranks, micro_batch_size=12 // ranks if ranks == 3 else 12 // ranks // 3,
                            gradient_checkpointing=RECOMPUTED[layout], **SETTINGS | DROPOUT | mode)
    train_runs.assert_same_bits(alone, other)


def test_dropout_changes_something_and_each_epoch_leaves_out_other_inputs(classroom, rows, alone):
    without = classroom.train(classroom.model("llama-tied"), rows, **SETTINGS | LORA)
    assert without.column()[0] == alone.column()[0]  # B is nothing yet
    assert without.column()[2:] != alone.column()[2:]


@pytest.mark.parametrize("family", ["gpt2", "qwen3"])
def test_other_families_and_bfloat16(classroom, rows, family):
    settings = SETTINGS | DROPOUT | dict(mixed_precision="bf16", max_steps=4)
    model = classroom.model(family)
    train_runs.assert_same_bits(
        classroom.train(model, rows, **settings),
        classroom.train(model, rows, 3, micro_batch_size=2, **settings | {"distributed.strategy": "fsdp"}))


def test_what_four_shards_saved_one_two_and_three_ranks_resume(classroom, rows, alone):
    model = classroom.model("llama-tied")
    for ranks, mode in ((1, {}), (2, {"distributed.strategy": "ddp"}), (3, {"distributed.strategy": "fsdp"})):
        begun = classroom.train(model, rows, 4, save_steps=5, **SETTINGS | DROPOUT | {"distributed.strategy": "fsdp"})
        checkpoint = begun.folder / "checkpoints" / "step-5"
        # Adapters with the two moments of AdamW, and nothing of the base.
        adapter = (begun.folder / "model/adapter_model.safetensors").stat().st_size
        size = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
        assert 2.5 * adapter < size < 3.5 * adapter + 65536
        resumed = classroom.start(model, rows, ranks, save_steps=5,
                                  **SETTINGS | DROPOUT | mode | {"experiment.resume": checkpoint})
        assert resumed.code == 0 and "resuming after step 5" in resumed.text, resumed.text
        train_runs.assert_same_bits(alone, begun)


def test_a_checkpoint_is_refused_over_another_base_or_with_other_adapters(classroom, rows):
    model = classroom.model("llama-tied")
    begun = classroom.train(model, rows, save_steps=4, **SETTINGS | LORA)
    resume = {"experiment.resume": begun.folder / "checkpoints" / "step-4"}
    for words in (LORA | {"model.lora_alpha": 13}, LORA | {"model.lora_r": 5}, {}):
        refused = classroom.start(model, rows, **SETTINGS | words | resume)
        assert refused.code == 2 and "its numbers would change" in refused.text, refused.text
    assert_refused_over_a_changed_base(classroom, model_cases.load(model, torch.float32), rows, SETTINGS | LORA, resume)


def test_mistakes_are_told_before_anything_starts(classroom, rows, tmp_path):
    model = classroom.model("llama-tied")
    for settings, words in [
        (LORA | {"model.lora_target_modules": "[queries]"}, ["queries", "q_proj"]),
        ({"model.lora_r": 4}, ["model.use_lora"]),
        (LORA | {"model.modules_to_save": "[lm_heads]"}, ["model.modules_to_save", "lm_heads"]),
        (LORA | {"model.modules_to_save": "[q_proj]"}, ["k_proj", "together"]),
        ({"model.use_dora": "true"}, ["model.use_lora"]),
        ({"model.adapters": tmp_path / "nothing"}, ["adapter_config.json"]),
    ]:
        run = classroom.start(model, rows, max_steps=1, batch_size=2, **settings)
        assert run.code == 2 and all(word in run.text for word in words), run.text
        assert not run.folder.exists()
    adapted(classroom.model("llama")).save_pretrained(tmp_path / "other")
    run = classroom.start(classroom.model("qwen3"), rows, max_steps=1, **{"model.adapters": tmp_path / "other"})
    assert run.code == 2, run.text
