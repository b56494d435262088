"""Checkpoints of compressed-tensors, against the package itself."""

import pytest
import torch
from checkpoint_driver import Refused, same_bits
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from quantised_folder import check_slices, layers_of, parts_of, save_quantised, save_with
from safetensors.torch import save_file
from tiny_models import model_of


FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def settings_of(format, scheme, **more):
    return {
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": scheme.model_dump(mode="json")},
        **more,
    }


def grid(args, shape):
    """How many scales a weight has."""
    rows, columns = shape
    return {
        "tensor": (1,),
        "channel": (rows, 1),
        "group": (rows, columns // (args.group_size or columns)),
        "block": tuple(-(-size // block) for size, block in zip(shape, args.block_structure or (1, 1))),
    }[args.strategy]


def quantiser(format, scheme, scale_type):
    args = scheme.weights
    largest = {"int": 2 ** (args.num_bits - 1) - 0.5, "float": 448}[args.type]
    random = torch.Generator().manual_seed(4)

    def quantise(weight):
        sizes = grid(args, weight.shape)
        spread = 0.5 + torch.rand(sizes, generator=random)
        parts = {"weight": weight, "weight_scale": (weight.abs().max() / largest * spread).to(scale_type)}
        if not args.symmetric:
            half = 2 ** (args.num_bits - 1)
            parts["weight_zero_point"] = torch.randint(-half, half, sizes, generator=random).to(torch.int8)
        return BaseCompressor.get_value_from_registry(format).compress(parts, scheme)

    return quantise


def scheme_of(**weights):
    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))


CASES = [
    ("pack-quantized", dict(num_bits=4, strategy="group", group_size=64)),
    ("pack-quantized", dict(num_bits=4, strategy="group", group_size=64, symmetric=False)),
    ("pack-quantized", dict(num_bits=4, strategy="channel", symmetric=False)),
    ("pack-quantized", dict(num_bits=8, strategy="channel")),
    ("pack-quantized", dict(num_bits=8, strategy="group", group_size=32, symmetric=False)),
    ("pack-quantized", dict(num_bits=3, strategy="group", group_size=32, symmetric=False)),
    ("pack-quantized", dict(num_bits=2, strategy="group", group_size=16)),
    ("pack-quantized", dict(num_bits=5, strategy="channel")),
    ("pack-quantized", dict(num_bits=4, strategy="tensor")),
    ("int-quantized", dict(num_bits=8, strategy="channel")),
    ("int-quantized", dict(num_bits=8, strategy="tensor", symmetric=False)),
    ("int-quantized", dict(num_bits=8, strategy="channel", symmetric=False)),
    ("int-quantized", dict(num_bits=4, strategy="group", group_size=32)),
    ("naive-quantized", dict(num_bits=8, strategy="tensor", type="float")),
    ("float-quantized", dict(num_bits=8, strategy="tensor", type="float")),
    ("float-quantized", dict(num_bits=8, strategy="channel", type="float")),
    ("float-quantized", dict(num_bits=8, strategy="block", type="float", block_structure=[128, 128])),
]


@pytest.mark.parametrize("scale_type", FLOATS)
@pytest.mark.parametrize("format,weights", CASES)
def test_weights_are_decompressed_as_the_package_does(driver, tmp_path, format, weights, scale_type):
    """In the scales' type, which the package computes in, to the last bit; float32 is rounded nowhere."""
    scheme = scheme_of(**weights)
    tensors = save_quantised(
        tmp_path / "model", model_of("llama", num_hidden_layers=1), quantiser(format, scheme, scale_type), settings_of(format, scheme)
    )
    listed = driver.open(tmp_path / "model")
    compressor = BaseCompressor.get_value_from_registry(format)
    names = layers_of(tensors)
    assert len(names) == 7
    for name in names:
        parts = parts_of(tensors, name)
        wanted = compressor.decompress(parts, scheme)["weight"]
        assert wanted.dtype == scale_type
        assert same_bits(driver.read(f"{name}.weight", scale_type, wanted.shape), wanted)
        parts["weight_scale"] = parts["weight_scale"].float()
        exact = compressor.decompress(parts, scheme)["weight"]
        assert same_bits(driver.read(f"{name}.weight", torch.float32, wanted.shape), exact)
    check_slices(driver, f"{name}.weight", exact, same_bits)
    assert all(driver.packed(f"{name}.weight", 0, 1, tmp_path / "codes") is None for name in names)
    assert listed["model.embed_tokens.weight"]["stored"] == "float32"


def test_floats_of_four_bits_are_decompressed_as_the_package_does(driver, tmp_path):
    """In float32 as well, where the package's numbers are exact: scales are powers of two."""
    scheme = scheme_of(num_bits=4, type="float", strategy="group", group_size=32)
    random = torch.Generator().manual_seed(6)
    compressor = BaseCompressor.get_value_from_registry("mxfp4-pack-quantized")

    def quantise(weight):
        rows, columns = weight.shape
        return {
            "weight_packed": torch.randint(0, 256, (rows, columns // 2), dtype=torch.uint8, generator=random),
            "weight_scale": torch.randint(100, 140, (rows, columns // 32), dtype=torch.uint8, generator=random),
        }

    tensors = save_quantised(
        tmp_path / "model", model_of("llama", num_hidden_layers=1), quantise, settings_of("mxfp4-pack-quantized", scheme)
    )
    listed = driver.open(tmp_path / "model")
    names = layers_of(tensors)
    assert len(names) == 7
    for name in names:
        wanted = compressor.decompress(parts_of(tensors, name), scheme)["weight"]
        assert same_bits(driver.read(f"{name}.weight", torch.bfloat16, wanted.shape), wanted.bfloat16())
        assert same_bits(driver.read(f"{name}.weight", torch.float32, wanted.shape), wanted.float())
        assert listed[f"{name}.weight"]["stored"] == "float4"
    check_slices(driver, f"{name}.weight", wanted.float(), same_bits)


def test_short_blocks_at_the_edges(driver, tmp_path):
    scheme = scheme_of(num_bits=8, strategy="block", type="float", block_structure=[128, 128])
    tensors = save_quantised(
        tmp_path / "model",
        model_of("llama", hidden_size=200, num_attention_heads=4, intermediate_size=333),
        quantiser("float-quantized", scheme, torch.float32),
        settings_of("float-quantized", scheme),
    )
    driver.open(tmp_path / "model")
    compressor = BaseCompressor.get_value_from_registry("float-quantized")
    for name in layers_of(tensors):
        wanted = compressor.decompress(parts_of(tensors, name), scheme)["weight"]
        assert same_bits(driver.read(f"{name}.weight", torch.float32, wanted.shape), wanted)
    check_slices(driver, f"{name}.weight", wanted, same_bits)


def test_groups_in_the_order_of_activation(driver, tmp_path):
    """The package dropped weight_g_idx in 2026, and files with it are about: the formula, by torch."""
    scheme = scheme_of(num_bits=4, strategy="group", group_size=64)
    quantise = quantiser("pack-quantized", scheme, torch.float16)
    random = torch.Generator().manual_seed(7)

    def shuffled(weight):
        order = torch.randperm(weight.shape[1], generator=random)
        return {**quantise(weight), "weight_g_idx": (order // 64).to(torch.int32)}

    settings = settings_of("pack-quantized", scheme)
    settings["config_groups"]["group_0"]["weights"]["actorder"] = "group"
    tensors = save_quantised(tmp_path / "model", model_of("llama"), shuffled, settings)
    driver.open(tmp_path / "model")
    name = "model.layers.1.mlp.down_proj"
    parts = parts_of(tensors, name)
    ones = {**parts, "weight_scale": torch.ones_like(parts["weight_scale"])}
    codes = BaseCompressor.get_value_from_registry("pack-quantized").decompress(ones, scheme)["weight"]
    wanted = codes.float() * parts["weight_scale"].float()[:, parts["weight_g_idx"].long()]
    assert same_bits(driver.read(f"{name}.weight", torch.float32, wanted.shape), wanted)
    check_slices(driver, f"{name}.weight", wanted, same_bits)
    index = tensors[f"{name}.weight_g_idx"]
    for wrong in (8, -1, 2**31 - 1):
        index[100] = wrong
        save_file(tensors, tmp_path / "model/model.safetensors", {"format": "pt"})
        with pytest.raises(Refused, match=f"weight_g_idx puts input 100 into group {wrong} of 8"):
            driver.open(tmp_path / "model")


def test_parts_are_needed_and_must_fit(driver, tmp_path):
    scheme = scheme_of(num_bits=4, strategy="group", group_size=64, symmetric=False)
    tensors = save_quantised(
        tmp_path / "model", model_of("llama"), quantiser("pack-quantized", scheme, torch.float16), settings_of("pack-quantized", scheme)
    )
    name = "model.layers.0.self_attn.k_proj"
    for part, value, message in [
        ("weight_scale", None, "k_proj.weight_scale is missing"),
        ("weight_zero_point", None, "k_proj.weight_zero_point is missing"),
        ("weight_packed", torch.zeros(128, 33, dtype=torch.int32), r"weight_packed is \[128, 33\], and must be \[128, 32\]"),
        ("weight_scale", torch.ones(128, 5), r"weight_scale is \[128, 5\], and must be \[128, 4\]"),
        ("weight_shape", torch.tensor([128, 255]), r"weight_shape says \[128, 255\], and the model asks for \[128, 256\]"),
        ("weight_zero_point", torch.zeros(128, 4, dtype=torch.int32), r"weight_zero_point is \[128, 4\], and must be \[16, 4\]"),
    ]:
        save_with(tmp_path / "model", tensors, f"{name}.{part}", value)
        with pytest.raises(Refused, match=message):
            driver.open(tmp_path / "model")


def test_groups_must_divide_the_inputs(driver, tmp_path):
    scheme = scheme_of(num_bits=4, strategy="group", group_size=64)
    settings = settings_of("pack-quantized", scheme)
    settings["config_groups"]["group_0"]["weights"]["group_size"] = 96
    save_quantised(tmp_path / "model", model_of("llama"), quantiser("pack-quantized", scheme, torch.float16), settings)
    with pytest.raises(Refused, match="has 256 columns, which runs of 96 do not divide"):
        driver.open(tmp_path / "model")
