"""What a checkpoint has in codes is planned as codes, and never coded anew in silence."""

import json
import pathlib
import subprocess

import pytest
import torch
import transformers
from generate_runs import PROGRAM, Generate

# For each kind: what convert is asked for, and what says the same of loading.
FORMS = {
    "nf4": (("--to", "nf4"), ("model.load_in_4bit=true",)),
    "double": (("--to", "nf4", "--double-quant"), ("model.load_in_4bit=true", "model.bnb_4bit_use_double_quant=true")),
    "int8": (("--to", "int8"), ("model.load_in_8bit=true",)),
    "skipped": (("--to", "nf4", "--skip-modules", "down_proj"),
                ("model.load_in_4bit=true", "model.llm_int8_skip_modules=[down_proj]")),
}
ADAPTERS = ("model.use_lora=true", "training.sequence_length=32", "training.max_steps=1", "training.batch_size=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("codes")
    generate = Generate(folder)
    generate.text()
    generate.prompts("p.txt", "one", "two")
    (folder / "data.jsonl").write_text('{"prompt": "a", "completion": "b"}\n' * 4)
    (folder / "gpus.yaml").write_text("gpus: [{count: 2, memory_total: 24GiB}]\n")
    (folder / "tiny").rename(folder / "llama")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=400, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=128)  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "llama")
    for form, (words, _) in FORMS.items():
        done = run(generate, "model", "convert", "llama", f"llama-{form}", *words)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def generate(folder: pathlib.Path) -> Generate:
    return Generate(folder)


def run(generate: Generate, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *words], env=generate.environment, cwd=generate.folder, capture_output=True, text=True, timeout=120)


def parts(generate: Generate, *words: str) -> dict:
    """Bytes of each component of the first rank, and what the plan says."""
    done = run(generate, *words, "--json")
    assert done.stdout, done.stderr
    plan = json.loads(done.stdout)
    return plan["ranks"][0]["components"] | {"dtype": plan.get("dtype"), "text": json.dumps(plan.get("reasons", []) + plan.get("notes", []))}


def held(components: dict) -> int:
    return components["weights"] + components["quantization"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", [
    ("generate", "--device", "cpu", "-p", "p.txt", "--max-new-tokens", "16", "--dry-run"),
    ("plan", "--gpus-from", "gpus.yaml", "--implementation", "muster"),
    ("plan", "--gpus-from", "gpus.yaml", "--implementation", "transformers"),
    ("train", "--device", "cpu", "--data", "data.jsonl", "--dry-run", *ADAPTERS),
], ids=["generate", "plan", "transformers", "train"])  # fmt: skip
def test_a_folder_of_codes_takes_what_the_model_takes_that_is_quantised_while_it_is_loaded(generate, form, command):
    of_folder = parts(generate, command[0], "-m", f"llama-{form}", *command[1:])
    asked = parts(generate, command[0], "-m", "llama", *command[1:], *FORMS[form][1])
    plain = parts(generate, command[0], "-m", "llama", *command[1:])
    assert held(of_folder) == held(asked) < held(plain)
    assert "dequantised" not in of_folder["text"]


def test_scales_that_are_quantised_take_four_bytes_each_in_musters_engine(generate):
    command = ("plan", "--gpus-from", "gpus.yaml", "-m")
    ours = [held(parts(generate, *command, f"llama-{form}", "--implementation", "muster")) for form in ("nf4", "double")]
    theirs = [held(parts(generate, *command, f"llama-{form}")) for form in ("nf4", "double")]
    assert ours[0] == ours[1] and theirs[0] > theirs[1]


def test_weights_that_are_trained_themselves_are_plain(generate):
    words = ("train", "--device", "cpu", "--data", "data.jsonl", "--dry-run", *ADAPTERS[1:])
    assert held(parts(generate, *words, "-m", "llama-nf4")) == held(parts(generate, *words, "-m", "llama"))


def test_a_configuration_alone_says_what_its_checkpoint_will_hold(generate):
    alone = generate.folder / "alone"
    alone.mkdir(exist_ok=True)
    for form in FORMS:
        (alone / "config.json").write_text((generate.folder / f"llama-{form}/config.json").read_text())
        words = ("plan", "--gpus-from", "gpus.yaml", "-m")
        assert held(parts(generate, *words, "alone")) == held(parts(generate, *words, f"llama-{form}"))


@pytest.mark.parametrize("suffix, setting", [("-4bit", "model.load_in_4bit=true"), ("-8bit", "model.load_in_8bit=true")])
def test_the_end_of_a_name_means_the_same_in_plans(generate, suffix, setting):
    command = ("plan", "--gpus-from", "gpus.yaml", "-m")
    named, asked = parts(generate, *command, f"llama{suffix}"), parts(generate, *command, "llama", setting)
    assert named == asked and named["dtype"] == {"-4bit": "int4", "-8bit": "int8"}[suffix]


@pytest.mark.parametrize("model, setting, told", [
    ("llama-nf4", "model.load_in_8bit=true", "llama-nf4 has its weights in nf4 already, and model.load_in_8bit asks for int8"),
    ("llama-int8", "model.load_in_4bit=true", "llama-int8 has its weights in int8 already, and model.load_in_4bit asks for nf4"),
    ("llama-nf4", "model.bnb_4bit_quant_type=fp4", "asks for fp4"),
    ("llama-nf4", "model.llm_int8_skip_modules=[down_proj]", "leaves model.layers.0.mlp.down_proj.weight as it is"),
])  # fmt: skip
def test_codes_that_are_there_are_not_made_anew(generate, model, setting, told):
    settings = (setting,) if "load_in" in setting else ("model.load_in_4bit=true", setting)
    for command in (("generate", "--device", "cpu", "-p", "p.txt"), ("plan", "--gpus-from", "gpus.yaml"),
                    ("train", "--device", "cpu", "--data", "data.jsonl", *ADAPTERS)):  # fmt: skip
        done = run(generate, command[0], "-m", model, *command[1:], *settings)
        assert done.returncode == 2 and told in done.stderr, done.stdout + done.stderr
        assert "muster model convert" in done.stderr


def test_what_is_asked_for_may_be_what_is_there(generate):
    words = ("generate", "--device", "cpu", "-p", "p.txt", "--max-new-tokens", "16", "--dry-run", "-m", "llama-nf4")
    assert parts(generate, *words, "model.load_in_4bit=true") == parts(generate, *words)


def test_merging_takes_the_name_of_plain_weights(generate):
    done = run(generate, "model", "merge", "nothing", "out", "-m", "llama-4bit")
    assert done.returncode == 2 and "asks for weights in 4 bits" in done.stderr and "muster model convert llama FOLDER --to nf4" in done.stderr
    assert not (generate.folder / "out").exists()
