"""Low-rank adapters beside a model, one or several in a batch, held against PEFT."""

import json
import pathlib

import peft
import pytest
import torch
import transformers
from generate_runs import TINY, Generate

PROMPTS = ["The capital of France", "Grüße", "def f(x): return x", "1", "2 and 3"]
CPU = ("-m", "model", "--device", "cpu")
GREEDY = (*CPU, "--temperature", "0", "--max-new-tokens", "12")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model, and adapters for it: of all layers, of two, with magnitudes, and with whole modules."""
    folder = tmp_path_factory.mktemp("adapters")
    generate = Generate(folder)
    generate.text()
    (folder / "tiny").rename(folder / "model")
    sizes = {name: value for name, value in TINY.items() if name not in ("model_type", "architectures")}
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, initializer_range=0.4)).save_pretrained(folder / "model")
    (folder / "model" / "generation_config.json").unlink(missing_ok=True)
    write_adapter(folder, "all", seed=1, r=4, target_modules="all-linear")
    write_adapter(folder, "some", seed=2, r=2, lora_alpha=9, target_modules=["q_proj", "down_proj"])
    write_adapter(folder, "scaled", seed=3, r=4, target_modules=["q_proj", "v_proj", "up_proj"], use_dora=True)
    write_adapter(folder, "whole", seed=4, r=2, target_modules=["q_proj"], use_dora=True,
                  modules_to_save=["embed_tokens", "lm_head", "norm"])
    return folder


def write_adapter(folder: pathlib.Path, name: str, seed: int, **options: object) -> None:
    torch.manual_seed(seed)
    base = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    config = peft.LoraConfig(**{"lora_alpha": 8, "init_lora_weights": False, "task_type": "CAUSAL_LM", **options})
    model = peft.get_peft_model(base, config)
    with torch.no_grad():
        for name_of, parameter in model.named_parameters():
            if "magnitude" in name_of or "modules_to_save" in name_of:
                parameter.mul_(1 + 0.3 * torch.rand_like(parameter))
    model.save_pretrained(folder / name)


@pytest.fixture
def generate(folder: pathlib.Path) -> Generate:
    return Generate(folder)


def rows(result) -> list[dict]:
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def loaded(folder: pathlib.Path, adapter: str):
    base = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    return (peft.PeftModel.from_pretrained(base, folder / adapter) if adapter else base).eval()


def scores(model, tokenizer, pairs: list[dict]) -> list[float]:
    found = []
    for pair in pairs:
        prompt = tokenizer(pair["prompt"])["input_ids"]
        completion = tokenizer(pair["completion"], add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + completion])).logits[0].double().log_softmax(-1)
        found.append(sum(logits[len(prompt) - 1 + i, token].item() for i, token in enumerate(completion)))
    return found


def beside(*adapters: str) -> list[str]:
    return [word for adapter in adapters for word in ("--adapter", adapter)]


class TestScores:
    def test_are_those_of_peft_whatever_is_in_the_batch(self, generate, folder):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
        pairs = [{"prompt": prompt, "completion": " and then some", "adapter": adapter}
                 for prompt in PROMPTS for adapter in ("all", "some", "scaled", "")]
        prompts = generate.prompts("pairs.jsonl", *pairs)
        found = [row["logprob"] for row in rows(generate(
            *CPU, "-p", prompts, "--score", *beside("all", "some", "scaled"), "--batch-size", "4"))]
        for adapter in ("all", "some", "scaled", ""):
            own = [i for i, pair in enumerate(pairs) if pair["adapter"] == adapter]
            expected = scores(loaded(folder, adapter), tokenizer, [pairs[i] for i in own])
            assert [found[i] for i in own] == pytest.approx(expected, abs=2e-4)
        assert len({round(score, 3) for score in found[:4]}) == 4

    @pytest.mark.parametrize("form", [[], ["model.dtype=bfloat16"]], ids=["float32", "bfloat16"])
    def test_with_whole_modules_are_those_of_peft(self, generate, folder, form):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
        pairs = [{"prompt": prompt, "completion": " and then some"} for prompt in PROMPTS]
        found = [row["logprob"] for row in rows(generate(
            *CPU, "-p", generate.prompts("plain.jsonl", *pairs), "--score", "--adapter", "whole", *form))]
        expected = scores(loaded(folder, "whole"), tokenizer, pairs)
        assert found == pytest.approx(expected, **(dict(rel=0.05) if form else dict(abs=2e-4)))
        assert expected != pytest.approx(scores(loaded(folder, ""), tokenizer, pairs), rel=0.05)


class TestAnswers:
    def test_have_the_same_bits_alone_and_beside_others(self, generate):
        mixed = generate.prompts("mixed.jsonl", *[{"prompt": prompt, "adapter": adapter}
                                                  for prompt in PROMPTS for adapter in ("some", "", "all", "scaled")])
        together = rows(generate(*GREEDY, "-p", mixed, *beside("all", "some", "scaled"), "--logprobs"))
        plain = generate.prompts("plain.txt", *PROMPTS)
        answers = lambda found: [(row["tokens"], row["logprobs"]) for row in found]
        for place, adapter in enumerate(("some", "", "all", "scaled")):
            words = ("--adapter", adapter) if adapter else ()
            assert answers(together[place::4]) == answers(rows(generate(*GREEDY, "-p", plain, "--logprobs", *words)))

    def test_two_stages_give_the_answers_of_one(self, generate):
        mixed = generate.prompts("mixed.jsonl", *[{"prompt": prompt, "adapter": adapter}
                                                  for prompt in PROMPTS for adapter in ("some", "all")])
        words = (*GREEDY, "-p", mixed, *beside("all", "some"))
        split = generate(*words, "--ranks", "2", 'model.device_map={"model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0, '
                         '"model.layers.1": 1, "model.norm": 1, "lm_head": 1}')
        assert [row["tokens"] for row in rows(split)] == [row["tokens"] for row in rows(generate(*words))]

    @pytest.mark.parametrize("adapter", ["scaled", "whole"])
    def test_weights_in_the_host_s_memory_and_stages_give_the_same(self, generate, adapter):
        words = (*GREEDY, "-p", generate.prompts("plain.txt", *PROMPTS), "--adapter", adapter)
        expected = [row["tokens"] for row in rows(generate(*words))]
        for device in (1, "disk"):
            device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0, "model.layers.1": device,
                          "model.norm": 0 if device == "disk" else 1, "lm_head": device}
            ranks = ("--ranks", "2") if device == 1 else ()
            found = generate(*words, *ranks, f"model.device_map={json.dumps(device_map)}")
            assert [row["tokens"] for row in rows(found)] == expected

    def test_the_first_adapter_is_taken_where_a_prompt_names_none(self, generate):
        plain = generate.prompts("plain.txt", *PROMPTS)
        both = rows(generate(*GREEDY, "-p", plain, *beside("some", "all")))
        assert both == rows(generate(*GREEDY, "-p", plain, "--adapter", "some"))

    def test_the_folder_of_an_adapter_may_stand_for_its_model(self, generate, folder):
        config = json.loads((folder / "all/adapter_config.json").read_text())
        config["base_model_name_or_path"] = str(folder / "model")
        (folder / "all/adapter_config.json").write_text(json.dumps(config))
        plain = generate.prompts("plain.txt", *PROMPTS)
        words = ("-p", plain, "--temperature", "0", "--max-new-tokens", "12", "--device", "cpu")
        assert rows(generate("-m", "all", *words)) == rows(generate("-m", "model", "--adapter", "all", *words))


class TestMistakes:
    def test_a_name_that_no_adapter_has_is_told_with_its_line(self, generate):
        prompts = generate.prompts("wrong.jsonl", {"prompt": "a"}, {"prompt": "b", "adapter": "som"})
        result = generate(*CPU, "-p", prompts, *beside("all", "some"))
        assert result.returncode == 2
        assert "wrong.jsonl:2" in result.stderr and '"som"' in result.stderr and "all, some" in result.stderr

    def test_an_adapter_for_another_model_is_refused(self, generate, folder):
        generate.model(hidden_size=64)
        result = generate("-m", "tiny", "model.init=random", "--device", "cpu", "a", "--adapter", "all")
        assert result.returncode == 2 and "for this model" in result.stderr, result.stderr

    def test_two_adapters_of_one_name_are_refused(self, generate, folder):
        (folder / "other").mkdir(exist_ok=True)
        if not (folder / "other/all").exists():
            (folder / "other/all").symlink_to(folder / "all")
        result = generate(*CPU, "a", *beside("all", "other/all"))
        assert result.returncode == 2 and "two adapters are called all" in result.stderr

    def test_whole_modules_are_not_shared_with_other_adapters_or_the_model_alone(self, generate):
        result = generate(*CPU, "a", *beside("all", "whole"))
        assert result.returncode == 2 and "embed_tokens" in result.stderr and "--adapter whole" in result.stderr
        prompts = generate.prompts("alone.jsonl", {"prompt": "a"}, {"prompt": "b", "adapter": ""})
        result = generate(*CPU, "-p", prompts, "--adapter", "whole")
        assert result.returncode == 2 and "alone.jsonl:2" in result.stderr, result.stderr

    def test_a_folder_that_is_no_adapter_is_refused(self, generate):
        result = generate(*CPU, "a", "--adapter", "model")
        assert result.returncode == 2 and "adapter_config.json" in result.stderr
