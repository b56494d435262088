"""Checkpoints of 8-bit floats, against transformers and torch."""

import pytest
import torch
import transformers
from checkpoint_driver import Refused, same_bits
from quantised_folder import save_quantised
from safetensors.torch import save_file
from tiny_models import model_of
from transformers.integrations import finegrained_fp8

FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def spread(scales, block_rows, block_columns, shape):
    whole = scales.repeat_interleave(block_rows, 0).repeat_interleave(block_columns, 1)
    return whole[: shape[0], : shape[1]]


def blocks(weight, rows=128, columns=128, form=torch.float8_e4m3fn, scale_type=torch.float32):
    down, across = -(-weight.shape[0] // rows), -(-weight.shape[1] // columns)
    padded = torch.nn.functional.pad(weight.float(), (0, across * columns - weight.shape[1], 0, down * rows - weight.shape[0]))
    largest = padded.reshape(down, rows, across, columns).abs().amax((1, 3))
    scales = largest / torch.finfo(form).max
    if scale_type == torch.float8_e8m0fnu:
        scales = torch.exp2(torch.ceil(torch.log2(scales)))
    codes = (weight.float() / spread(scales, rows, columns, weight.shape)).to(form)
    return {"weight": codes, "weight_scale_inv": scales.to(scale_type)}


SETTINGS = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


@pytest.mark.parametrize("scale_type", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu])
def test_blocks_are_dequantised_as_transformers_does(driver, tmp_path, scale_type):
    model = model_of("qwen3").to(torch.bfloat16)
    tensors = save_quantised(tmp_path / "model", model, lambda weight: blocks(weight, scale_type=scale_type), SETTINGS)
    listed = driver.open(tmp_path / "model")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "model",
        quantization_config=transformers.FineGrainedFP8Config(dequantize=True),
        dtype=torch.bfloat16,
        device_map="cpu",
    )
    assert set(listed) == {name for name, _ in loaded.named_parameters()}
    dequantize = finegrained_fp8.Fp8Dequantize(None)._dequantize_one
    for name, parameter in loaded.named_parameters():
        assert same_bits(driver.read(name, parameter.dtype, parameter.shape), parameter.detach()), name
        if listed[name]["stored"] == "float8":
            for dtype in FLOATS:
                wanted = dequantize(tensors[name], tensors[f"{name}_scale_inv"], dtype)
                assert same_bits(driver.read(name, dtype, wanted.shape), wanted), (name, dtype)


@pytest.mark.parametrize("form", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_edge_blocks_are_short(driver, tmp_path, form):
    """transformers' dequantisation knows only whole blocks: the formula, by torch."""
    model = model_of("llama", hidden_size=200, num_attention_heads=4, intermediate_size=333)
    tensors = save_quantised(tmp_path / "model", model, lambda weight: blocks(weight, 64, 48, form), {**SETTINGS, "weight_block_size": [64, 48]})
    driver.open(tmp_path / "model")
    for name in ["self_attn.q_proj", "mlp.up_proj", "mlp.down_proj"]:
        name = f"model.layers.1.{name}.weight"
        codes, scales = tensors[name], tensors[f"{name}_scale_inv"]
        wanted = codes.float() * spread(scales, 64, 48, codes.shape)
        for dtype in FLOATS:
            assert same_bits(driver.read(name, dtype, wanted.shape), wanted.to(dtype))
        for row, rows, column, columns in [(60, 9, 40, 60), (0, 1, 47, 2), (63, 66, 0, 200), (199, 1, 199, 1)]:
            got = driver.read(name, torch.float32, (rows, columns), rows=(row, rows), columns=(column, columns))
            assert same_bits(got, wanted[row : row + rows, column : column + columns].contiguous())


@pytest.mark.parametrize("word", ["weight_scale", "weight_scale_inv"])
@pytest.mark.parametrize("shape", [(), (1,), (-1,), (-1, 1)])
@pytest.mark.parametrize("settings", [{"weight_block_size": None}, {"weight_block_size": [128, 128]}])
def test_one_scale_and_a_scale_for_each_row(driver, tmp_path, word, shape, settings):
    def quantize(weight):
        largest = weight.abs().amax(1, keepdim=True) if -1 in shape else weight.abs().amax().reshape(1, 1)
        codes = (weight / (largest / 448)).to(torch.float8_e4m3fn)
        return {"weight": codes, word: (largest / 448).reshape(shape).contiguous(), "input_scale": torch.ones(())}

    tensors = save_quantised(tmp_path / "model", model_of("llama", num_hidden_layers=1), quantize, {**SETTINGS, **settings})
    if len(shape) == 2 and settings["weight_block_size"]:
        with pytest.raises(Refused, match=r"is \[512, 1\], and must be \[4, 2\]"):
            driver.open(tmp_path / "model")
        return
    driver.open(tmp_path / "model")
    for name in ["model.layers.0.mlp.up_proj", "model.layers.0.self_attn.o_proj"]:
        codes, scale = tensors[f"{name}.weight"], tensors[f"{name}.{word}"]
        wanted = codes.float() * (scale.reshape(-1, 1))
        assert same_bits(driver.read(f"{name}.weight", torch.bfloat16, wanted.shape), wanted.to(torch.bfloat16))


@pytest.mark.parametrize("form", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_every_byte_means_what_torch_says(driver, tmp_path, form):
    def quantize(weight):
        every = torch.arange(256, dtype=torch.uint8).repeat(weight.numel() // 256).reshape(weight.shape)
        return {"weight": every.view(form), "weight_scale": torch.ones(())}

    save_quantised(tmp_path / "model", model_of("llama", num_hidden_layers=1), quantize, SETTINGS)
    driver.open(tmp_path / "model")
    got = driver.read("model.layers.0.mlp.up_proj.weight", torch.float32, (1, 256), rows=(3, 1))
    wanted = torch.arange(256, dtype=torch.uint8).view(form).float().reshape(1, 256)
    assert torch.equal(got.isnan(), wanted.isnan())
    assert same_bits(got.nan_to_num(0, 1, -1), wanted.nan_to_num(0, 1, -1))


def test_scales_are_needed_and_must_fit(driver, tmp_path):
    tensors = save_quantised(tmp_path / "model", model_of("llama"), blocks, SETTINGS)
    file, name = tmp_path / "model/model.safetensors", "model.layers.1.mlp.down_proj.weight_scale_inv"
    save_file({key: value for key, value in tensors.items() if key != name}, file, {"format": "pt"})
    with pytest.raises(Refused, match="down_proj.weight_scale_inv is missing"):
        driver.open(tmp_path / "model")
    save_file({**tensors, name: torch.ones(4, 2)}, file, {"format": "pt"})
    with pytest.raises(Refused, match=r"scale_inv is \[4, 2\], and must be \[2, 4\]"):
        driver.open(tmp_path / "model")
    save_file({**tensors, name: torch.ones(2, 4, dtype=torch.int32)}, file, {"format": "pt"})
    with pytest.raises(Refused, match="scale_inv is int32, and must be float32 or"):
        driver.open(tmp_path / "model")
    weight = name.removesuffix("_scale_inv")
    save_file({**tensors, weight: tensors[weight][:100].contiguous()}, file, {"format": "pt"})
    with pytest.raises(Refused, match=r"down_proj.weight is \[100, 512\], and must be \[256, 512\]"):
        driver.open(tmp_path / "model")
