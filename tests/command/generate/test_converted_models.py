"""What `muster model convert --to` wrote scores as the model that is quantised while it is loaded, and as transformers has it."""

import json
import pathlib
import subprocess

import pytest
import torch
import transformers
from generate_runs import PROGRAM, TINY, Generate

SIZES = {"vocab_size": 400, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2}
MODELS = {
    "llama": transformers.LlamaConfig(**SIZES, tie_word_embeddings=False),
    "qwen2": transformers.Qwen2Config(**SIZES, tie_word_embeddings=True),
    "gpt2": transformers.GPT2Config(vocab_size=400, n_positions=128, n_embd=64, n_layer=2, n_head=4, initializer_range=0.2,
                                    attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0),
}
# What convert is asked for, and what says the same of loading.
FORMS = {
    "nf4": (("--to", "nf4"), ("model.load_in_4bit=true",)),
    "fp4": (("--to", "fp4", "--double-quant"),
            ("model.load_in_4bit=true", "model.bnb_4bit_quant_type=fp4", "model.bnb_4bit_use_double_quant=true")),
    "int8": (("--to", "int8"), ("model.load_in_8bit=true",)),
    "skipped": (("--to", "nf4", "--skip-modules", "down_proj,mlp.c_proj"),
                ("model.load_in_4bit=true", "model.llm_int8_skip_modules=[down_proj,mlp.c_proj]")),
}
PAIRS = [{"prompt": prompt, "completion": " and then some more"} for prompt in ("The capital of France", "Grüße", "1", "def f(x): return x")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("converted")
    generate = Generate(folder)
    generate.prompts("pairs.jsonl", *PAIRS)
    for name, config in MODELS.items():
        generate.text()
        (folder / "tiny").rename(folder / name)
        torch.manual_seed(0)
        transformers.AutoModelForCausalLM.from_config(config).to(torch.float32).save_pretrained(folder / name)
        (folder / name / "generation_config.json").unlink(missing_ok=True)
    return folder


@pytest.fixture
def generate(folder: pathlib.Path) -> Generate:
    return Generate(folder)


def convert(generate: Generate, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, "model", "convert", *words], env=generate.environment, cwd=generate.folder,
                          capture_output=True, text=True, timeout=120)


def scores(generate: Generate, *words: str) -> list[dict]:
    result = generate(*words, "--device", "cpu", "-p", "pairs.jsonl", "--score", "--logprobs")
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def scores_of_transformers(folder: pathlib.Path) -> list[float]:
    """In train mode its layers multiply with the numbers that the codes stand for."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu").train()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = []
    for pair in PAIRS:
        prompt = tokenizer(pair["prompt"])["input_ids"]
        both = prompt + tokenizer(pair["completion"], add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([both])).logits[0].double().log_softmax(-1)
        found.append(sum(logits[i - 1, both[i]].item() for i in range(len(prompt), len(both))))
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_the_model_that_is_quantised_while_it_is_loaded(generate: Generate, name: str, form: str):
    words, settings = FORMS[form]
    done = convert(generate, name, f"{name}-{form}", *words)
    assert done.returncode == 0, done.stderr
    assert f"as {words[1]} (" in done.stdout and "the rest as float32" in done.stdout
    assert "dequantised" not in done.stdout
    written = scores(generate, "-m", f"{name}-{form}")
    assert written == scores(generate, "-m", name, *settings)
    assert written != scores(generate, "-m", name)
    expected = scores_of_transformers(generate.folder / f"{name}-{form}")
    assert [row["logprob"] for row in written] == pytest.approx(expected, abs=2e-4)


def test_a_type_of_all_weights_is_the_same_under_both_options(generate: Generate):
    for folder, *words in (("first", "--to", "bfloat16"), ("second", "--dtype", "bf16")):
        done = convert(generate, "llama", folder, *words)
        assert done.returncode == 0 and "parameters as bfloat16" in done.stdout, done.stderr
    first, second = ((generate.folder / folder / "model.safetensors").read_bytes() for folder in ("first", "second"))
    assert first == second


def test_what_stays_wide_and_what_was_coded_are_of_the_type_that_is_named(generate: Generate):
    assert convert(generate, "llama", "half", "--to", "nf4", "--dtype", "bfloat16").returncode == 0
    assert convert(generate, "llama", "narrow", "--dtype", "bfloat16").returncode == 0
    settings = ("model.load_in_4bit=true", "model.dtype=float32")
    assert scores(generate, "-m", "half", "model.dtype=float32") == scores(generate, "-m", "narrow", *settings)


def test_codes_of_another_kind_are_dequantised_and_it_is_said(generate: Generate):
    assert convert(generate, "qwen2", "eight", "--to", "int8").returncode == 0
    done = convert(generate, "eight", "four", "--to", "nf4")
    assert done.returncode == 0 and "weights in int8 were dequantised first" in done.stdout, done.stderr
    back = convert(generate, "eight", "plain", "--to", "float32")
    assert back.returncode == 0 and "weights in int8 were dequantised first" in back.stdout
    assert scores(generate, "-m", "plain") == scores(generate, "-m", "eight")


class TestMistakes:
    @pytest.mark.parametrize("words, told", [
        (("--to", "int3"), ["--to int3", "accepted: int8, nf4, fp4, float32, bfloat16, float16"]),
        (("--to", "auto"), ["--to auto"]),
        (("--to", "float16", "--dtype", "float32"), ["--to float16 and --dtype float32", "keep one"]),
        (("--to", "int8", "--double-quant"), ["--double-quant is for the scales of 4 bits", "--to nf4 --double-quant"]),
        (("--double-quant",), ["no --to asks for", "--to nf4"]),
        (("--to", "bfloat16", "--skip-modules", "lm_head"), ["--skip-modules is for weights in codes"]),
        (("--to", "nf4", "--skip-modules", "a)(b"), ["a)(b", "is not a pattern"]),
        (("--to", "nf4", "--skip-modules", "model.layers"), ["leaves no module of llama to quantise"]),
    ])
    def test_are_told_before_anything_is_written(self, generate: Generate, words: tuple, told: list):
        done = convert(generate, "llama", "out", *words)
        assert done.returncode == 2
        for text in told:
            assert text in done.stderr
        assert not (generate.folder / "out").exists()

    def test_a_model_that_has_the_codes_already_is_told(self, generate: Generate):
        assert convert(generate, "gpt2", "coded", "--to", "nf4").returncode == 0
        done = convert(generate, "coded", "out", "--to", "nf4")
        assert done.returncode == 2 and "coded has its weights in nf4 already" in done.stderr

    def test_a_folder_that_is_there_stays_as_it_is(self, generate: Generate):
        (generate.folder / "taken").mkdir(exist_ok=True)
        done = convert(generate, "llama", "taken", "--to", "nf4")
        assert done.returncode == 2 and "taken is already there" in done.stderr
        assert list((generate.folder / "taken").iterdir()) == []

    def test_a_configuration_without_weights_is_refused(self, generate: Generate):
        generate.model(**TINY)
        done = convert(generate, "tiny", "out", "--to", "nf4")
        assert done.returncode == 2 and "a configuration without weights" in done.stderr
