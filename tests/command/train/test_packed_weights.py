"""Weights in 8 and 4 bits, and low-rank adapters trained beside them, against PEFT over bitsandbytes on the CPU.

bitsandbytes changes its own scales where a model is in eval mode, so that the oracle stays in train mode, without dropout.
"""

import json
import subprocess

import model_cases
import numpy
import pytest
import torch
import torch_training
import train_runs
import transformers
from adapter_steps import assert_refused_over_a_changed_base
from peft_oracle import CROSSING, adapted_over, assert_adapters_equal

FOUR = dict(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32)
# What muster is asked for, and bitsandbytes.
FORMS = {
    "nf4": ({"model.load_in_4bit": "true"}, FOUR | dict(bnb_4bit_quant_type="nf4")),
    "fp4": ({"model.load_in_4bit": "true", "model.bnb_4bit_quant_type": "fp4"}, FOUR | dict(bnb_4bit_quant_type="fp4")),
    "int8": ({"model.load_in_8bit": "true"}, dict(load_in_8bit=True, llm_int8_threshold=0.0)),
    "skipped": ({"model.load_in_4bit": "true", "model.llm_int8_skip_modules": "[lm_head,down_proj]"},
                FOUR | dict(bnb_4bit_quant_type="nf4", llm_int8_skip_modules=["lm_head", "down_proj"])),
}
ADAMW = dict(learning_rate=2e-3, weight_decay=0.1, adam_beta2=0.98, adam_epsilon=1e-5, lr_scheduler="cosine")
STEPS = 10


@pytest.fixture(scope="module")
def rows(classroom):
    return classroom.data(train_runs.pairs(30))


@pytest.fixture(scope="module")
def models(classroom):
    """Folders of plain models by name; runs of one of them end with its rows, those of the others do not."""
    cases = {"odd": ("llama", CROSSING), "qwen2": ("qwen2", CROSSING),
             "even": ("llama", dict(hidden_size=64, intermediate_size=128))}  # fmt: skip
    return {name: classroom.model_of(model_cases.Case(f"{family}-{name}", family, model_cases.SMALL | sizes))
            for name, (family, sizes) in cases.items()}


def quantized(folder, **options):
    config = transformers.BitsAndBytesConfig(**options)
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=config, dtype=torch.float32, device_map="cpu", attn_implementation="eager").train()


def train_oracle(oracle, lessons):
    trained = [parameter for parameter in oracle.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-3, weight_decay=0.1, betas=(0.9, 0.98), eps=1e-5)
    return torch_training.train(oracle, lessons, optimizer, torch_training.cosine(optimizer, 0, len(lessons)))


@pytest.mark.parametrize("name, form", [("odd", "nf4"), ("even", "nf4"), ("odd", "fp4"), ("odd", "int8"), ("qwen2", "nf4"),
                                        ("even", "skipped")])
def test_steps_give_the_adapters_of_peft_over_bitsandbytes(classroom, rows, models, tmp_path, name, form):
    words, options = FORMS[form]
    oracle = adapted_over(quantized(models[name], **options))
    oracle.save_pretrained(tmp_path / "begin")
    run = classroom.train(models[name], rows, ranks=2, max_steps=STEPS, batch_size=8,
                          **ADAMW | words | {"model.adapters": tmp_path / "begin"})
    lessons = torch_training.lessons_of(classroom.samples(models[name], rows, steps=STEPS, batch_size=8))
    losses, norms = train_oracle(oracle, lessons)
    numpy.testing.assert_allclose(run.losses(), losses, atol=1e-5)
    numpy.testing.assert_allclose([float(norm) for norm in run.column("gradient_norm")], norms, rtol=1e-4)
    assert_adapters_equal(run.folder / "model", oracle, 2e-5)
    plain = classroom.train(models[name], rows, max_steps=1, batch_size=8, **ADAMW | {"model.adapters": tmp_path / "begin"})
    assert abs(plain.losses()[0] - losses[0]) > 1e-3  # codes lose something


@pytest.mark.parametrize("double", [False, True])
def test_a_checkpoint_that_has_codes_is_trained_beside_as_it_is(classroom, rows, models, tmp_path, double):
    model = quantized(models["even"], **FOUR, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=double)
    model.save_pretrained(tmp_path / "codes")
    classroom.add_tokenizer(tmp_path / "codes")
    oracle = adapted_over(model)
    oracle.save_pretrained(tmp_path / "begin")
    run = classroom.train(tmp_path / "codes", rows, max_steps=STEPS, batch_size=8,
                          **ADAMW | {"model.adapters": tmp_path / "begin"})
    losses, _ = train_oracle(oracle, torch_training.lessons_of(classroom.samples(models["even"], rows, steps=STEPS, batch_size=8)))
    numpy.testing.assert_allclose(run.losses(), losses, atol=1e-5)
    assert_adapters_equal(run.folder / "model", oracle, 2e-5)


SETTINGS = dict(max_steps=8, batch_size=12, learning_rate=2e-3, lr_scheduler="cosine", warmup_steps=2, deterministic="true")
QLORA = {"model.load_in_4bit": "true", "model.bnb_4bit_use_double_quant": "true", "model.use_lora": "true", "model.lora_r": 4,
         "model.lora_dropout": 0.2}


def test_every_layout_gives_the_same_bits_and_what_shards_saved_is_resumed(classroom, rows, models):
    for name in ("odd", "even"):
        alone = classroom.train(models[name], rows, **SETTINGS | QLORA)
        for ranks, mode in ((2, {}), (3, {"distributed.strategy": "fsdp"}),
                            (2, {"distributed.strategy": "fsdp", "distributed.fsdp_cpu_offload": "true"})):
            train_runs.assert_same_bits(alone, classroom.train(models[name], rows, ranks, micro_batch_size=2,
                                                               gradient_checkpointing="full", **SETTINGS | QLORA | mode))
        for ranks, mode in ((1, {}), (2, {"distributed.strategy": "ddp"}), (3, {"distributed.strategy": "fsdp"})):
            begun = classroom.train(models[name], rows, 4, save_steps=5, **SETTINGS | QLORA | {"distributed.strategy": "fsdp"})
            checkpoint = {"experiment.resume": begun.folder / "checkpoints/step-5"}
            resumed = classroom.start(models[name], rows, ranks, save_steps=5, **SETTINGS | QLORA | mode | checkpoint)
            assert resumed.code == 0 and "resuming after step 5" in resumed.text, resumed.text
            train_runs.assert_same_bits(alone, begun)


def test_a_checkpoint_is_refused_over_another_base_or_the_base_in_another_form(classroom, rows, models):
    begun = classroom.train(models["even"], rows, save_steps=4, **SETTINGS | QLORA)
    resume = {"experiment.resume": begun.folder / "checkpoints/step-4"}
    for words in ({"model.bnb_4bit_quant_type": "fp4"}, {"model.bnb_4bit_use_double_quant": "false"},
                  {"model.load_in_4bit": "false", "model.bnb_4bit_use_double_quant": "false"},
                  {"model.llm_int8_skip_modules": "[down_proj]"}):
        refused = classroom.start(models["even"], rows, **SETTINGS | QLORA | words | resume)
        assert refused.code == 2 and "its numbers would change" in refused.text, refused.text
    assert_refused_over_a_changed_base(classroom, model_cases.load(models["even"], torch.float32), rows, SETTINGS | QLORA, resume)


def generate(classroom, model, prompts, *words):
    command = [str(train_runs.PROGRAM), "generate", "-m", str(model), "--device", "cpu", "-p", str(prompts), *words]
    done = subprocess.run(command, env=classroom.environment, cwd=classroom.folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name, form", [("odd", "nf4"), ("even", "fp4"), ("even", "int8")])
def test_scores_are_those_of_bitsandbytes_however_the_codes_came(classroom, models, tmp_path, name, form):
    words, options = FORMS[form]
    model = quantized(models[name], **options)
    model.save_pretrained(tmp_path / "codes")
    classroom.add_tokenizer(tmp_path / "codes")
    tokenizer = transformers.AutoTokenizer.from_pretrained(models[name])
    pairs = train_runs.pairs(6)
    prompts = tmp_path / "pairs.jsonl"
    prompts.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    expected = []
    for pair in pairs:
        prompt = tokenizer(pair["prompt"])["input_ids"]
        both = prompt + tokenizer(pair["completion"], add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([both])).logits[0].double().log_softmax(-1)
        expected.append(sum(logits[i - 1, both[i]].item() for i in range(len(prompt), len(both))))
    settings = [f"{key}={value}" for key, value in words.items()]
    scored = generate(classroom, models[name], prompts, "--score", *settings)
    assert [row["logprob"] for row in scored] == pytest.approx(expected, abs=1e-3)
    assert generate(classroom, tmp_path / "codes", prompts, "--score") == scored
    suffix = "-8bit" if form == "int8" else "-4bit"
    if form != "fp4":
        assert generate(classroom, f"{models[name]}{suffix}", prompts, "--score") == scored


def test_weights_in_few_bits_are_not_trained_themselves(classroom, rows, models):
    run = classroom.start(models["odd"], rows, max_steps=1, batch_size=2, **{"model.load_in_4bit": "true"})
    assert run.code == 2 and "model.use_lora=true" in run.text
    run = classroom.start(models["odd"], rows, max_steps=1, batch_size=2, **QLORA | {"model.llm_int8_skip_modules": "[q_proj]"})
    assert run.code == 2 and "k_proj" in run.text, run.text


@pytest.fixture
def adapter(models, tmp_path):
    """One for the model whose runs end with its rows, which it names."""
    adapted_over(model_cases.load(models["even"], torch.float32)).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_the_end_of_an_adapters_name_says_how_its_model_is_held(classroom, models, adapter, tmp_path):
    prompts = tmp_path / "pairs.jsonl"
    prompts.write_text("".join(json.dumps(pair) + "\n" for pair in train_runs.pairs(4)))
    named = generate(classroom, f"{adapter}-4bit", prompts, "--score")
    assert named == generate(classroom, models["even"], prompts, "--score", "--adapter", str(adapter), "model.load_in_4bit=true")
    assert named != generate(classroom, adapter, prompts, "--score")


def test_merging_over_codes_is_merging_over_the_numbers_that_they_stand_for(classroom, models, adapter, tmp_path):
    for words in (("convert", models["even"], tmp_path / "codes", "--to", "nf4"),
                  ("convert", tmp_path / "codes", tmp_path / "numbers", "--to", "float32"),
                  ("merge", adapter, tmp_path / "over-codes", "-m", tmp_path / "codes"),
                  ("merge", adapter, tmp_path / "over-numbers", "-m", tmp_path / "numbers")):  # fmt: skip
        done = subprocess.run([str(train_runs.PROGRAM), "model", *map(str, words)], env=classroom.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    ours, theirs = train_runs.read_tensors(tmp_path / "over-codes"), train_runs.read_tensors(tmp_path / "over-numbers")
    assert train_runs.furthest(ours, theirs) == 0
    config = json.loads((tmp_path / "over-codes/config.json").read_text())
    assert "quantization_config" not in config
