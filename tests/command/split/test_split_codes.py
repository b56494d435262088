"""A model in 8 or 4 bits, with adapters beside it, that is split over CPU ranks gives the bytes of one process."""

import json
import pathlib

import peft
import pytest
import torch
import transformers
from split_models import FAMILIES, Generate, plan_of, written

SAMPLED = ("--max-new-tokens", "12", "--temperature", "0.8", "--samples", "2", "--seed", "3", "--logprobs")
FORMS = {
    "nf4": ("model.load_in_4bit=true",),
    "double": ("model.load_in_4bit=true", "model.bnb_4bit_use_double_quant=true"),
    "int8": ("model.load_in_8bit=true",),
}
TARGETS = {"llama": ["q_proj", "down_proj"], "gpt2": ["c_attn"]}


@pytest.fixture(scope="module")
def adapters(folder: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Two for each model: beside all layers, and beside some."""
    for name, targets in TARGETS.items():
        for word, chosen in (("all", "all-linear"), ("some", targets)):
            torch.manual_seed(len(word))
            base = transformers.AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32)
            config = peft.LoraConfig(r=4, lora_alpha=8, init_lora_weights=False, target_modules=chosen, task_type="CAUSAL_LM")
            peft.get_peft_model(base, config).save_pretrained(folder / f"{name}-{word}")
    return {name: (f"{name}-all", f"{name}-some") for name in TARGETS}


def answers(generate: Generate, model: str, *words: str, prompts: str = "p.txt") -> bytes:
    return written(generate("-m", model, "--device", "cpu", "-p", prompts, "-o", "out.jsonl", *SAMPLED, *words), generate)


@pytest.mark.parametrize("model", list(FAMILIES))
@pytest.mark.parametrize("form", FORMS)
def test_answers_are_those_of_one_process(generate: Generate, model: str, form: str):
    alone = answers(generate, model, *FORMS[form])
    assert answers(generate, model, *FORMS[form], "--ranks", "2", "--device-map", "balanced") == alone
    if form != "double":
        assert alone != answers(generate, model)


@pytest.mark.parametrize("model", ["llama", "gpt2"])
def test_scores_are_those_of_one_process(generate: Generate, model: str):
    prompts = (generate.folder / "p.txt").read_text().splitlines()
    generate.prompts("pairs.jsonl", *[{"prompt": prompt, "completion": " and " + prompt[::-1]} for prompt in prompts])
    score = ("-m", model, "--device", "cpu", "--score", "--logprobs", "-p", "pairs.jsonl", "-o", "out.jsonl", *FORMS["nf4"])
    alone = written(generate(*score), generate)
    for words in (("--ranks", "3", "--device-map", "balanced"), ("--ranks", "2")):
        assert written(generate(*score, *words), generate) == alone


def test_replicas_of_a_split_model_give_the_same_bytes(generate: Generate):
    words = ("--batch-size", "4", "--ranks", "4", *FORMS["nf4"])
    whole = plan_of(generate, "-m", "llama", "--device", "cpu", "-p", "p.txt", *SAMPLED, *words)
    too_little = whole["ranks"][0]["total_bytes"] - 1
    split = (*words, "--max-memory", ",".join(f"{rank}={too_little}" for rank in range(4)))
    plan = plan_of(generate, "-m", "llama", "--device", "cpu", "-p", "p.txt", *SAMPLED, *split)
    assert [(rank["layers"]["first"], rank["layers"]["end"]) for rank in plan["ranks"]] == [(0, 3), (3, 6)] * 2
    assert answers(generate, "llama", *split) == answers(generate, "llama", *FORMS["nf4"])


@pytest.mark.parametrize("model", TARGETS)
def test_several_adapters_beside_codes_give_the_bytes_of_one_process(generate: Generate, adapters, model: str):
    both = adapters[model]
    rows = [{"prompt": prompt, "adapter": adapter} for prompt in ("The capital of France", "Grüße", "1") for adapter in (*both, "")]
    generate.prompts("mixed.jsonl", *rows)
    words = (*FORMS["nf4"], *(word for adapter in both for word in ("--adapter", adapter)))
    alone = answers(generate, model, *words, prompts="mixed.jsonl")
    for ranks in ("2", "3"):
        assert answers(generate, model, *words, "--ranks", ranks, "--device-map", "balanced", prompts="mixed.jsonl") == alone
    texts = [json.loads(line)["text"] for line in alone.decode().splitlines()]
    assert len(set(texts[:6])) > 2  # each adapter answers in its own way


def test_a_file_is_not_resumed_in_another_form_or_with_other_adapters(generate: Generate, adapters):
    before = answers(generate, "llama", *FORMS["nf4"])
    resume = ("-m", "llama", "--device", "cpu", "-p", "p.txt", "-o", "out.jsonl", *SAMPLED, "--resume")
    for words, told in (
        ((*FORMS["nf4"], "model.bnb_4bit_quant_type=fp4"), 'weights.packing.code was "nf4" and is "fp4"'),
        (FORMS["double"], "weights.packing.double_quantized was false and is true"),
        ((*FORMS["nf4"], "model.llm_int8_skip_modules=[down_proj]"), 'weights.skipped was [] and is ["down_proj"]'),
        ((), "and is null"),
        ((*FORMS["nf4"], "--adapter", adapters["llama"][0]), 'adapters was [] and is ["llama-all"]'),
    ):
        result = generate(*resume, *words)
        assert result.returncode == 2 and told in result.stderr, result.stderr
    assert (generate.folder / "out.jsonl").read_bytes() == before
    assert generate(*resume, *FORMS["nf4"]).returncode == 0
