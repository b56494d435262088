"""What adapters train beside their two products, magnitudes (DoRA) and whole modules, against PEFT."""

import json
import subprocess

import adapter_steps
import model_cases
import peft
import pytest
import torch
import torch_training
import train_runs
import transformers
from adapter_steps import ADAMW, LORA, assert_steps_agree
from peft_oracle import CROSSING, adapted, adapted_over, assert_adapters_equal, tensors_of

DORA = LORA | {"model.use_dora": "true"}
# Modules that are trained as a whole: by model, of which the last two are tied.
WHOLE = {"llama": ["embed_tokens", "lm_head", "norm"], "qwen2": ["lm_head", "1.mlp"], "gpt2": ["wte", "ln_f"],
         "llama-tied": ["lm_head"]}


def kinds(model):
    return {"dora": dict(use_dora=True), "whole": dict(modules_to_save=WHOLE[model]),
            "both": dict(use_dora=True, modules_to_save=WHOLE[model])}


@pytest.fixture(scope="module")
def rows(classroom):
    return classroom.data(train_runs.pairs(30))


def muster(classroom, *words):
    done = subprocess.run([str(train_runs.PROGRAM), *map(str, words)], env=classroom.environment, cwd=classroom.folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def steps_agree(*words, **settings):
    """And whatever is trained has moved. What muster's run left."""
    run, moved = assert_steps_agree(*words, **settings)
    for kind in ("lora_B", "lora_magnitude_vector", "lm_head", "wte", "ln_f"):
        far = [distance for name, distance in moved.items() if kind in name]
        assert not far or max(far) > 5e-4, kind
    return run


@pytest.mark.parametrize("steps", [1, 50])
@pytest.mark.parametrize("kind", ["dora", "whole", "both"])
@pytest.mark.parametrize("family", WHOLE)
def test_steps_give_the_tensors_of_peft(classroom, rows, tmp_path, family, kind, steps):
    model = classroom.model(family)
    run = steps_agree(classroom, model, rows, adapted(model, **kinds(family)[kind]), tmp_path / "begin", steps,
                             ranks=2 if steps == 50 else 1)
    loaded = peft.PeftModel.from_pretrained(model_cases.load(model, torch.float32), run.folder / "model")
    assert_adapters_equal(run.folder / "model", loaded, 0)
    config = json.loads((run.folder / "model/adapter_config.json").read_text())
    assert config["use_dora"] == (kind != "whole")
    assert config["modules_to_save"] == (None if kind == "dora" else WHOLE[family])


FOUR_BITS = dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)


@pytest.mark.parametrize("form", [FOUR_BITS, dict(load_in_8bit=True, llm_int8_threshold=0.0)], ids=["nf4", "int8"])
def test_beside_weights_in_codes_steps_give_the_tensors_of_peft(classroom, rows, tmp_path, form):
    model = classroom.model_of(model_cases.Case("llama-crossing", "llama", model_cases.SMALL | CROSSING))
    base = transformers.AutoModelForCausalLM.from_pretrained(
        model, quantization_config=transformers.BitsAndBytesConfig(**form), dtype=torch.float32, device_map="cpu",
        attn_implementation="eager").train()
    oracle = adapted_over(base, use_dora="load_in_4bit" in form, modules_to_save=["lm_head", "norm"]).train()
    oracle(torch.tensor([[1, 2]]))  # bitsandbytes settles its scales in the first pass; saved before it, they would differ
    settings = {"model.load_in_4bit": "true", "model.bnb_4bit_quant_type": "nf4"} if "load_in_4bit" in form else {
        "model.load_in_8bit": "true"}
    steps_agree(classroom, model, rows, oracle, tmp_path / "begin", 5, **settings)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
def test_fresh_ones_begin_as_pefts_with_the_loss_of_the_base(classroom, rows, family):
    model = classroom.model(family)
    whole = {"model.modules_to_save": json.dumps(WHOLE[family])}
    still = ADAMW | dict(learning_rate=1e-12, weight_decay=0)
    run = classroom.train(model, rows, max_steps=1, batch_size=30, **still | DORA | whole)
    base = model_cases.load(model, torch.float32)
    lesson = torch_training.lessons_of(classroom.samples(model, rows, steps=1, batch_size=30))[0]
    with torch.no_grad():
        loss = (torch_training.summed_loss(base, lesson) / torch_training.trained_tokens(lesson)).item()
    assert abs(run.losses()[0] - loss) <= 1e-5
    fresh = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=12, target_modules="all-linear", use_dora=True,
                                                      modules_to_save=WHOLE[family], task_type="CAUSAL_LM"))
    theirs, ours = peft.get_peft_model_state_dict(fresh), tensors_of(run.folder / "model")
    assert ours.keys() == theirs.keys()
    for name in theirs:
        if "lora_A" not in name:
            assert (ours[name] - theirs[name]).abs().max() <= 1e-6, name


@pytest.mark.parametrize("kind", ["dora", "whole", "both"])
@pytest.mark.parametrize("family", WHOLE)
def test_merging_gives_the_weights_of_peft(classroom, tmp_path, family, kind):
    model = classroom.model(family)
    oracle = adapted(model, **kinds(family)[kind])
    with torch.no_grad():
        for name, parameter in oracle.named_parameters():
            if "modules_to_save" in name or "magnitude" in name:
                parameter.mul_(1.1)
    oracle.save_pretrained(tmp_path / "adapter")
    lesson = torch.arange(30)[None] % 50
    with torch.no_grad():
        logits = oracle(lesson).logits
    code, text = muster(classroom, "model", "merge", tmp_path / "adapter", tmp_path / "merged", "-m", model)
    assert code == 0, text
    merged = model_cases.load(tmp_path / "merged", torch.float32)
    with torch.no_grad():
        assert (merged(lesson).logits - logits).abs().max() <= 1e-4
    ours, theirs = merged.state_dict(), oracle.merge_and_unload().state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert (ours[name] - tensor).abs().max() <= 2e-6 * max(1, tensor.abs().max()), name


SETTINGS = dict(max_steps=6, batch_size=12, learning_rate=2e-3, lr_scheduler="cosine", warmup_steps=2,
                deterministic="true")
BOTH = DORA | {"model.lora_dropout": 0.2, "model.modules_to_save": "[embed_tokens,norm]"}
CODES = {"plain": {}, "four bits": {"model.load_in_4bit": "true", "model.bnb_4bit_quant_type": "nf4"}}
LAYOUTS = {name: layout for name, layout in adapter_steps.LAYOUTS.items() if name != "offload"}
RECOMPUTED = dict(zip(LAYOUTS, ["none", "full", "selective", "full", "selective"], strict=True))


@pytest.fixture(scope="module", params=CODES)
def alone(request, classroom, rows):
    settings = SETTINGS | BOTH | CODES[request.param]
    return settings, classroom.train(classroom.model("llama-tied"), rows, **settings)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_bits(classroom, rows, alone, layout):
    ranks, mode = LAYOUTS[layout]
    settings, first = alone
    size = 12 // ranks if ranks == 3 else 12 // ranks // 3
    other = classroom.train(classroom.model("llama-tied"), rows, ranks, micro_batch_size=size,
                            gradient_checkpointing=RECOMPUTED[layout], **settings | mode)
    train_runs.assert_same_bits(first, other)


@pytest.mark.parametrize("family", ["gpt2", "qwen2"])
def test_other_families_and_bfloat16_have_the_same_bits_in_shards(classroom, rows, family):
    whole = {"model.modules_to_save": json.dumps(WHOLE[family])}
    settings = SETTINGS | BOTH | whole | dict(mixed_precision="bf16", max_steps=4)
    model = classroom.model(family)
    train_runs.assert_same_bits(
        classroom.train(model, rows, **settings),
        classroom.train(model, rows, 3, micro_batch_size=2, **settings | {"distributed.strategy": "fsdp"}))


def test_what_four_shards_saved_other_ranks_resume_with_the_same_bits(classroom, rows, alone):
    settings, first = alone
    model = classroom.model("llama-tied")
    for ranks, mode in ((1, {}), (3, {"distributed.strategy": "fsdp"})):
        begun = classroom.train(model, rows, 4, save_steps=4, **settings | {"distributed.strategy": "fsdp"})
        checkpoint = begun.folder / "checkpoints" / "step-4"
        resume = {"experiment.resume": checkpoint}
        resumed = classroom.start(model, rows, ranks, save_steps=4, **settings | mode | resume)
        assert resumed.code == 0 and "resuming after step 4" in resumed.text, resumed.text
        train_runs.assert_same_bits(first, begun)
    refused = classroom.start(model, rows, **settings | {"model.use_dora": "false", "experiment.resume": checkpoint})
    assert refused.code == 2 and "its numbers would change" in refused.text, refused.text


def test_an_evaluation_between_steps_sees_the_magnitudes_of_that_step(classroom, rows):
    model = classroom.model("llama")
    held_out = {"data.eval_path": rows, "eval_steps": 3}
    run = classroom.train(model, rows, max_steps=6, batch_size=8, **ADAMW | DORA | held_out | dict(learning_rate=0.02))
    evaluations = [float(loss) for loss in run.column("eval_loss") if loss]
    code, text = muster(classroom, "evaluate", "-m", run.folder / "model", "--data", rows, "--device", "cpu")
    assert code == 0, text
    assert any(f"{evaluations[-1]:.3f}" in line for line in text.splitlines()), (evaluations, text)
    assert evaluations[0] != evaluations[-1]
