"""`convert`: a GGUF file as a folder that transformers loads, against its own reading of the same file."""

import json

import gguf
import numpy as np
import pytest
import torch
import transformers
from checkpoint_driver import Refused, same_bits
from real_model import FILE, FOLDER
from test_gguf_tokenizers import BYTES
from tiny_models import model_of, with_llama3_factors, write_gguf

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]


def test_smollm2_becomes_a_folder_with_the_numbers_that_transformers_reads_from_the_file(driver, tmp_path):
    folder = tmp_path / "smollm2"
    driver.ask(convert=str(FILE), to=str(folder), **{"as": "float32"})
    ours, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert ours.dtype == torch.float32
    theirs = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=FILE.name, dtype=torch.float32)
    for name, tensor in theirs.state_dict().items():
        assert same_bits(ours.state_dict()[name], tensor), name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        assert same_bits(ours(**prompt).logits, theirs(**prompt).logits)
        answer = ours.generate(**prompt, max_new_tokens=12, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(answer, skip_special_tokens=True) == "The capital of France is Paris."
    assert (folder / "chat_template.jinja").read_text() == tokenizer.chat_template
    assert ours.generation_config.eos_token_id == 2


def add_tokenizer(writer):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(BYTES[:96])
    writer.add_token_merges([])
    writer.add_eos_token_id(5)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gpt2"])
@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_every_family_is_converted_to_the_logits_of_its_numbers(driver, tmp_path, family, kind):
    more = {"rope_parameters": {"rope_type": "default", "rope_theta": 31000.0}} if family != "gpt2" else {}
    if family == "llama":
        more["attention_bias"] = True
    model = model_of(family, tie_word_embeddings=family == "gpt2", **more)
    file = tmp_path / "m.gguf"

    def edit(writer):
        add_tokenizer(writer)
        if family == "gpt2":
            return
        writer.add_rope_dimension_count(64)

    write_gguf(file, model, gguf.GGMLQuantizationType[kind], np.random.default_rng(1), edit)
    driver.ask(convert=str(file), to=str(tmp_path / "ours"), shard_bytes=700_000, **{"as": "float32"})
    assert len(list((tmp_path / "ours").glob("*.safetensors"))) > 1
    ours, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    driver.open(file)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(driver.read(name, torch.float32, parameter.shape))
        ids = torch.arange(40).reshape(1, -1) % 96
        assert torch.allclose(ours(ids).logits, model(ids).logits, atol=1e-6, rtol=0)  # epsilon went through float32


def test_llama3s_factors_become_its_rope_scaling(driver, tmp_path):
    model, factors = with_llama3_factors()

    def edit(writer):
        add_tokenizer(writer)
        writer.add_tensor("rope_freqs.weight", factors, raw_dtype=gguf.GGMLQuantizationType.F32)

    write_gguf(tmp_path / "m.gguf", model, edit=edit)
    driver.ask(convert=str(tmp_path / "m.gguf"), to=str(tmp_path / "ours"), **{"as": "float32"})
    ours = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert same_bits(ours.model.rotary_emb.inv_freq, model.model.rotary_emb.inv_freq)


def test_the_type_is_the_files_own_unless_one_is_named(driver, tmp_path):
    model = model_of("llama")
    for kind, dtype in [("BF16", "bfloat16"), ("F32", "float32"), ("Q5_0", "float16")]:
        write_gguf(tmp_path / "m.gguf", model, gguf.GGMLQuantizationType[kind], edit=add_tokenizer)
        driver.ask(convert=str(tmp_path / "m.gguf"), to=str(tmp_path / kind))
        assert json.loads((tmp_path / kind / "config.json").read_text())["torch_dtype"] == dtype


def test_what_cannot_be_converted_is_refused_and_leaves_nothing(driver, tmp_path):
    model = model_of("llama")
    write_gguf(tmp_path / "bare.gguf", model)
    with pytest.raises(Refused, match="ggml.model: is missing: the file carries no tokenizer"):
        driver.ask(convert=str(tmp_path / "bare.gguf"), to=str(tmp_path / "new/ours"))
    (tmp_path / "there").mkdir()
    write_gguf(tmp_path / "m.gguf", model, edit=add_tokenizer)
    with pytest.raises(Refused, match="there is already there"):
        driver.ask(convert=str(tmp_path / "m.gguf"), to=str(tmp_path / "there"))
    with open(tmp_path / "m.gguf", "r+b") as opened:
        opened.truncate(opened.seek(0, 2) - 4)
    with pytest.raises(Refused, match="cut off: tensor"):
        driver.ask(convert=str(tmp_path / "m.gguf"), to=str(tmp_path / "new/ours"))
    assert not (tmp_path / "new").exists()
