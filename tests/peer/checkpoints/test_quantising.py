"""`convert` into 8 and 4 bits, against the folders that transformers and bitsandbytes make of the same weights."""

import json
import math

import bitsandbytes as bnb
import gguf
import numpy as np
import pytest
import torch
import transformers
from bitsandbytes import functional
from checkpoint_driver import Refused, same_bits
from quantised_folder import save_quantised
from safetensors.torch import load_file
from test_bitsandbytes import linears, quantized, state_of
from test_conversion import add_tokenizer
from tiny_models import model_of, write_gguf

# Sizes at which runs end within rows.
UNEVEN = {"hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 88}
MODELS = {
    "llama": {},
    "llama-uneven": UNEVEN,
    "qwen2": {"tie_word_embeddings": True},
    "gpt2": {},
    "gpt2-uneven": {"n_embd": 40, "n_inner": 100},
}


def both(driver, tmp_path, model, form, dtype=torch.bfloat16, **options):
    """Their folder and ours, made of the same plain one."""
    loaded, theirs = quantized(tmp_path, model.partition("-")[0], dtype=dtype, more=MODELS[model], **options)
    told = driver.ask(convert=str(tmp_path / "plain"), to=str(tmp_path / "ours"), form=form)
    return loaded, theirs, load_file(tmp_path / "ours/model.safetensors"), told


def state_json(tensors, name, code):
    return json.loads(bytes(tensors[f"{name}.weight.quant_state.bitsandbytes__{code}"].tolist()))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("code", ["nf4", "fp4"])
def test_four_bits_are_the_tensors_of_bitsandbytes(driver, tmp_path, model, code):
    for dtype in (torch.bfloat16, torch.float32, torch.float16):
        folder = tmp_path / str(dtype)
        folder.mkdir()
        loaded, theirs, ours, told = both(driver, folder, model, {"code": code}, dtype, load_in_4bit=True, bnb_4bit_quant_type=code)
        modules = linears(loaded, bnb.nn.Linear4bit)
        assert told["quantised"] == len(modules) and told["tensors"] == len(ours) and told["dequantised"] == []
        assert ours.keys() == theirs.keys()
        for name, tensor in theirs.items():
            if "quant_state" not in name:
                assert same_bits(ours[name], tensor), name
        for name in modules:
            assert state_json(ours, name, code) == state_json(theirs, name, code)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("code", ["nf4", "int8"])
def test_a_weight_of_several_slices_is_what_it_is_at_once(driver, tmp_path, family, code):
    """Matrices of more than 16 MiB, whose rows are no whole runs."""
    sizes = {"hidden_size": 1000, "intermediate_size": 9002, "num_hidden_layers": 1, "vocab_size": 8}
    more = sizes if family == "llama" else {"n_embd": 1000, "n_inner": 9002, "n_layer": 1, "vocab_size": 8}
    model = model_of(family, **more).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "plain")
    driver.ask(convert=str(tmp_path / "plain"), to=str(tmp_path / "ours"), form={"code": code})
    ours = load_file(tmp_path / "ours/model.safetensors")
    name = "model.layers.0.mlp.up_proj" if family == "llama" else "transformer.h.0.mlp.c_fc"
    weight = model.get_submodule(name).weight.detach()
    weight = weight if family == "llama" else weight.T.contiguous()
    assert weight.shape == (9002, 1000)
    if code == "int8":
        codes, scales, _ = functional.int8_vectorwise_quant(weight.half())
        assert same_bits(ours[f"{name}.SCB"], scales)
    else:
        codes, state = functional.quantize_4bit(weight, quant_type="nf4")
        assert same_bits(ours[f"{name}.weight.absmax"], state.absmax)
    assert same_bits(ours[f"{name}.weight"], codes)


def half_steps(scales):
    """What a scale that is quantised by itself is from its nearest code at most."""
    map = functional.create_dynamic_map(signed=True)
    offset = scales.mean()
    apart = []
    for run in (scales - offset).split(256):
        places = torch.searchsorted(map, (run / run.abs().max()).clamp(-1, 1)).clamp(1, 255)
        apart.append((map[places] - map[places - 1]) / 2 * run.abs().max())
    return torch.cat(apart)


@pytest.mark.parametrize("model", MODELS)
def test_scales_in_eight_bits_are_the_nearest_of_the_librarys_map(driver, tmp_path, model):
    options = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    loaded, theirs, ours, _ = both(
        driver, tmp_path, model, {"code": "nf4", "double_quantized": True}, bnb_4bit_use_double_quant=True, **options
    )
    assert ours.keys() == theirs.keys()
    (tmp_path / "exact").mkdir()
    _, plain = quantized(tmp_path / "exact", model.partition("-")[0], more=MODELS[model], **options)
    for name in linears(loaded, bnb.nn.Linear4bit):
        assert same_bits(ours[f"{name}.weight"], theirs[f"{name}.weight"])
        assert same_bits(ours[f"{name}.weight.nested_quant_map"], theirs[f"{name}.weight.nested_quant_map"])
        state, exact = state_of(ours, name), plain[f"{name}.weight.absmax"]
        # Their mean is torch's, ours the exact one: both are in the file.
        assert state.offset.item() == pytest.approx(exact.double().mean().item(), rel=1e-6)
        torch.testing.assert_close(ours[f"{name}.weight.nested_absmax"], theirs[f"{name}.weight.nested_absmax"], rtol=1e-5, atol=1e-7)
        read = functional.dequantize_blockwise(state.absmax, state.state2) + state.offset
        assert ((read - exact).abs() <= half_steps(exact) + 1e-6 * exact.max()).all(), name
        their_state, our_json = state_of(theirs, name), state_json(ours, name, "nf4")
        their_json = state_json(theirs, name, "nf4")
        assert our_json.pop("nested_offset") == pytest.approx(their_json.pop("nested_offset"), rel=1e-6)
        assert our_json == their_json
        away = functional.dequantize_blockwise(their_state.absmax, their_state.state2) + their_state.offset
        assert ((read - away).abs() <= 3 * half_steps(exact) + 1e-6 * exact.max()).all()  # one step of codes


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_eight_bits_are_the_tensors_of_bitsandbytes(driver, tmp_path, model, dtype):
    loaded, theirs, ours, _ = both(driver, tmp_path, model, {"code": "int8"}, dtype, load_in_8bit=True)
    assert linears(loaded, bnb.nn.Linear8bitLt)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert same_bits(ours[name], tensor), name


@pytest.mark.parametrize(
    "form, options",
    [
        ({"code": "nf4"}, {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
        ({"code": "fp4", "double_quantized": True}, {"load_in_4bit": True, "bnb_4bit_use_double_quant": True}),
        ({"code": "int8"}, {"load_in_8bit": True, "bnb_4bit_quant_type": "fp4"}),
    ],
)
def test_the_configuration_is_what_transformers_writes(driver, tmp_path, form, options):
    both(driver, tmp_path, "llama", form, bnb_4bit_compute_dtype=torch.bfloat16, **options)
    written = [json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("ours", "model")]
    assert written[0]["quantization_config"] == written[1]["quantization_config"]
    assert transformers.AutoConfig.from_pretrained(tmp_path / "ours").dtype == torch.bfloat16


@pytest.mark.parametrize("skipped", [["down_proj"], ["model.layers.0"], ["model.layers.1.self_attn", r"model\.layers\.\d\.mlp.up_proj"]])
@pytest.mark.parametrize("tied", [False, True])
def test_skipped_modules_are_those_that_transformers_leaves(driver, tmp_path, skipped, tied):
    model = model_of("llama", tie_word_embeddings=tied)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "plain")
    driver.ask(convert=str(tmp_path / "plain"), to=str(tmp_path / "ours"), form={"code": "nf4", "skipped": skipped})
    named = json.loads((tmp_path / "ours/config.json").read_text())["quantization_config"]["llm_int8_skip_modules"]
    assert named == [*skipped, "lm_head"]
    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", llm_int8_skip_modules=[*skipped, "lm_head"])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "plain", quantization_config=config, dtype=torch.bfloat16, device_map="cpu"
    )
    theirs.save_pretrained(tmp_path / "theirs")
    assert load_file(tmp_path / "ours/model.safetensors").keys() == load_file(tmp_path / "theirs/model.safetensors").keys()
    loaded = loaded_from(tmp_path / "ours", torch.bfloat16)
    assert linears(loaded, bnb.nn.Linear4bit).keys() == linears(theirs, bnb.nn.Linear4bit).keys()


def loaded_from(folder, dtype):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, device_map="cpu", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model


@pytest.mark.parametrize("model", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize("code", ["nf4", "fp4", "int8"])
@pytest.mark.parametrize("shard_bytes", [1 << 40, 150_000])
def test_transformers_computes_with_the_folder_what_the_numbers_that_are_read_give(driver, tmp_path, model, code, shard_bytes):
    """In train mode and float32 its linear layers multiply with the dequantised weights."""
    plain = model_of(model, **MODELS[model]).train()
    plain.config.attention_dropout = plain.config.attn_pdrop = 0.0
    plain.save_pretrained(tmp_path / "plain")
    form = {"code": code, "double_quantized": code == "fp4"}
    driver.ask(convert=str(tmp_path / "plain"), to=str(tmp_path / "ours"), form=form, shard_bytes=shard_bytes)
    assert (len(list((tmp_path / "ours").glob("*.safetensors"))) > 1) == (shard_bytes < 1 << 20)
    theirs = loaded_from(tmp_path / "ours", torch.float32).train()
    for module in theirs.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    driver.open(tmp_path / "ours")
    for module in plain.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(driver.read(name, torch.float32, parameter.shape))
    tokens = torch.arange(24).reshape(2, 12)
    difference = (plain(tokens).logits - theirs(tokens).logits).abs().max().item()
    assert difference <= (0 if code != "int8" and model != "gpt2" else 1e-5), difference


def dequantised_and_coded(driver, source, folder, shape_of):
    """What was written of each matrix is bitsandbytes' quantisation of the numbers that are read from the source."""
    told = driver.ask(convert=str(source), to=str(folder), form={"code": "nf4"}, **{"as": "float32"})
    ours = load_file(folder / "model.safetensors")
    names = [name for name in ours if name.endswith("_proj.weight")]
    assert told["quantised"] == len(names)
    driver.open(source)
    for name in names:
        codes, state = functional.quantize_4bit(driver.read(name, torch.float32, shape_of(name)), quant_type="nf4")
        assert same_bits(ours[name], codes) and same_bits(ours[f"{name}.absmax"], state.absmax), name
    return told["dequantised"]


def test_blocks_of_gguf_are_dequantised_first(driver, tmp_path):
    model = model_of("llama")
    write_gguf(tmp_path / "m.gguf", model, gguf.GGMLQuantizationType.Q8_0, np.random.default_rng(1), add_tokenizer)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert dequantised_and_coded(driver, tmp_path / "m.gguf", tmp_path / "ours", shapes.get) == ["Q8_0"]
    assert (tmp_path / "ours/tokenizer.json").exists()
    loaded_from(tmp_path / "ours", torch.float32)


def test_codes_of_another_kind_are_dequantised_first(driver, tmp_path):
    model, _ = quantized(tmp_path, dtype=torch.float16, load_in_8bit=True)
    shapes = {f"{name}.weight": (module.out_features, module.in_features) for name, module in linears(model, bnb.nn.Linear8bitLt).items()}
    assert dequantised_and_coded(driver, tmp_path / "model", tmp_path / "ours", shapes.get) == ["int8"]


def test_eight_bit_floats_are_dequantised_first(driver, tmp_path):
    model = model_of("llama")

    def quantise(weight):
        scale = weight.abs().max() / 448
        return {"weight": (weight / scale).to(torch.float8_e4m3fn), "weight_scale_inv": scale.float().reshape(1, 1)}

    save_quantised(tmp_path / "source", model, quantise, {"quant_method": "fp8", "weight_block_size": [512, 512]})
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    found = dequantised_and_coded(driver, tmp_path / "source", tmp_path / "ours", shapes.get)
    assert len(found) == 1 and "float8" in found[0]


def test_codes_become_plain_weights_again(driver, tmp_path):
    model, tensors = quantized(tmp_path, load_in_4bit=True, bnb_4bit_quant_type="nf4")
    told = driver.ask(convert=str(tmp_path / "model"), to=str(tmp_path / "ours"))
    assert told["dequantised"] == ["nf4"] and told["quantised"] == 0
    assert "quantization_config" not in json.loads((tmp_path / "ours/config.json").read_text())
    ours = load_file(tmp_path / "ours/model.safetensors")
    for name in linears(model, bnb.nn.Linear4bit):
        assert same_bits(ours[f"{name}.weight"], functional.dequantize_4bit(tensors[f"{name}.weight"], state_of(tensors, name)))
    loaded_from(tmp_path / "ours", torch.bfloat16)


def test_what_cannot_be_quantised_is_refused_and_leaves_nothing(driver, tmp_path):
    quantized(tmp_path, load_in_4bit=True, bnb_4bit_quant_type="nf4")
    with pytest.raises(Refused, match="has its weights in nf4 already"):
        driver.ask(convert=str(tmp_path / "model"), to=str(tmp_path / "new/ours"), form={"code": "nf4"})
    with pytest.raises(Refused, match="leaves no module of .* to quantise"):
        driver.ask(convert=str(tmp_path / "plain"), to=str(tmp_path / "new/ours"), form={"code": "nf4", "skipped": ["model.layers"]})
    with pytest.raises(Refused, match="missing"):
        driver.ask(convert=str(tmp_path / "plain"), to=str(tmp_path / "new/ours"), form={"code": "nf4", "skipped": ["(a"]})
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "plain", dtype=torch.bfloat16)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 5] = math.inf
    model.save_pretrained(tmp_path / "plain")
    for code in ("nf4", "int8"):
        with pytest.raises(Refused, match="layers.1.mlp.up_proj.weight has infinite numbers"):
            driver.ask(convert=str(tmp_path / "plain"), to=str(tmp_path / "new/ours"), form={"code": code})
    assert not (tmp_path / "new/ours").exists() and list((tmp_path / "new").iterdir()) == []
