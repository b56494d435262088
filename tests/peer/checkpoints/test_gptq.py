"""Checkpoints of GPTQ, against gptqmodel's own modules and its own dequantising of files."""

import json

import pytest
import torch
from checkpoint_driver import Refused, same_bits
from grouped_quantisers import GptqLinear, gptq_files
from quantised_folder import check_slices, layers_of, parts_of, save_quantised, save_with
from safetensors.torch import load_file, save_file
from tiny_models import model_of


def settings_of(bits=4, group=64, sym=True, desc_act=False, format="gptq", **more):
    return {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": group,
        "sym": sym,
        "desc_act": desc_act,
        "true_sequential": True,
        "damp_percent": 0.01,
        "lm_head": False,
        "checkpoint_format": format,
        **more,
    }


def quantiser(settings, seed=4, scale_type=torch.float16):
    """Packs as gptqmodel does; the first version of the format by gptqmodel's way back to it."""
    random = torch.Generator().manual_seed(seed)
    bits, group = settings["bits"], settings["group_size"]

    def quantise(weight):
        outputs, inputs = weight.shape
        size = inputs if group == -1 else group
        groups = -(-inputs // size)
        linear = torch.nn.Linear(inputs, outputs, bias=False)
        linear.weight.data = weight.float()
        packed = GptqLinear(
            bits=bits, group_size=group, sym=settings["sym"], desc_act=settings["desc_act"], in_features=inputs, out_features=outputs
        )
        spread = 0.5 + torch.rand(outputs, groups, generator=random)
        scales = (weight.abs().max() / 2 ** (bits - 1) * spread).to(scale_type).float()
        zeros = torch.randint(0, 2**bits, (outputs, groups), generator=random)
        if settings["sym"]:
            zeros.fill_(2 ** (bits - 1))
        order = torch.randperm(inputs, generator=random) if settings["desc_act"] else torch.arange(inputs)
        packed.pack_block(linear, scales, zeros, (order // size).to(torch.int32))
        parts = {name: value.clone() for name, value in packed.state_dict().items()}
        parts["scales"] = scales.T.contiguous().to(scale_type)
        if settings["checkpoint_format"] == "gptq":
            parts["qzeros"] = gptq_files._revert_gptq_v1_qzeros_correction(parts["qzeros"], bits)
        return parts

    return quantise


def theirs_of(parts, settings):
    """A module with the tensors of a file, as gptqmodel dequantises it: outputs first."""
    inputs, outputs = len(parts["g_idx"]), parts["qweight"].shape[1]
    module = GptqLinear(
        bits=settings["bits"],
        group_size=settings["group_size"],
        sym=settings["sym"],
        desc_act=settings["desc_act"],
        in_features=inputs,
        out_features=outputs,
    )
    for name, value in parts.items():
        setattr(module, name, value.clone())
    if settings["checkpoint_format"] == "gptq":
        module.qzeros = gptq_files._correct_gptq_v1_qzeros(module.qzeros, settings["bits"])
    return module.dequantize_weight().T.contiguous()


CASES = [
    dict(bits=bits, group=group, sym=sym, desc_act=desc_act, format=format)
    for bits, group, sym, desc_act, format in [
        (4, 128, True, False, "gptq"),
        (4, 128, True, True, "gptq"),
        (4, 32, False, True, "gptq"),
        (4, 64, False, False, "gptq_v2"),
        (4, -1, True, True, "gptq"),
        (4, -1, False, False, "gptq_v2"),
        (8, 64, True, False, "gptq"),
        (8, 64, False, True, "gptq_v2"),
        (3, 64, True, True, "gptq"),
        (3, 64, False, False, "gptq"),
        (3, -1, False, True, "gptq_v2"),
        (2, 16, True, False, "gptq"),
        (2, 64, False, True, "gptq"),
    ]
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(value) for value in case.values()))
def test_weights_are_those_of_gptqmodels_modules(driver, tmp_path, case):
    """In the scales' type, which the package computes in, to the last bit; float32 is rounded nowhere."""
    settings = settings_of(**case)
    tensors = save_quantised(tmp_path / "model", model_of("llama", num_hidden_layers=1), quantiser(settings), settings)
    listed = driver.open(tmp_path / "model")
    names = layers_of(tensors)
    assert len(names) == 7
    for name in names:
        wanted = theirs_of(parts_of(tensors, name), settings)
        assert wanted.dtype == torch.float16 and len(wanted.unique()) > 3
        assert same_bits(driver.read(f"{name}.weight", torch.float16, wanted.shape), wanted)
    whole = gptq_files.convert_gptq_file(tmp_path / "model/model.safetensors", torch.float32, settings, "cpu")
    for name in names:
        assert same_bits(driver.read(f"{name}.weight", torch.float32, whole[f"{name}.weight"].shape), whole[f"{name}.weight"])
    check_slices(driver, f"{name}.weight", whole[f"{name}.weight"], same_bits)
    assert listed["model.embed_tokens.weight"]["stored"] == "float32"


def test_scales_may_have_other_types(driver, tmp_path):
    settings = settings_of(sym=False, format="gptq_v2")
    for scale_type in [torch.bfloat16, torch.float32]:
        folder = tmp_path / str(scale_type)
        tensors = save_quantised(folder, model_of("llama", num_hidden_layers=1), quantiser(settings, scale_type=scale_type), settings)
        driver.open(folder)
        for name in layers_of(tensors):
            wanted = theirs_of(parts_of(tensors, name), settings)
            assert same_bits(driver.read(f"{name}.weight", scale_type, wanted.shape), wanted)


def test_every_way_to_slice_three_bits(driver, tmp_path):
    """Codes and zero points of 3 bits cross words, at other places in each of three words."""
    settings = settings_of(bits=3, group=32, sym=False, desc_act=True)
    tensors = save_quantised(tmp_path / "model", model_of("llama", num_hidden_layers=1), quantiser(settings), settings)
    driver.open(tmp_path / "model")
    name = "model.layers.0.self_attn.k_proj"
    whole = theirs_of(parts_of(tensors, name), settings).float()
    for first in range(0, 34):
        for row, column in [(first, 3), (5, first)]:
            got = driver.read(f"{name}.weight", torch.float16, (3, 12), rows=(row, 3), columns=(column, 12))
            assert same_bits(got.float(), whole[row : row + 3, column : column + 12].contiguous())


def test_transposed_projections_of_gpt2(driver, tmp_path):
    settings = settings_of(group=32, sym=False, desc_act=True)
    folder = tmp_path / "model"
    model = model_of("gpt2", n_layer=1)
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    quantise = quantiser(settings)
    wanted = {}
    for name in [name for name in tensors if ".c_" in name and name.endswith("weight")]:
        parts = quantise(tensors.pop(name).T.contiguous())  # as optimum packs transformers' Conv1D
        wanted[name] = theirs_of(parts, settings).T.contiguous()
        tensors.update({name.removesuffix("weight") + part: value for part, value in parts.items()})
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    driver.open(folder)
    assert len(wanted) == 4
    for name, weight in wanted.items():
        assert same_bits(driver.read(name, torch.float16, weight.shape), weight)


def test_modules_that_were_left_out_and_a_head_that_was_not(driver, tmp_path):
    """The files say which modules have codes, whatever the settings list."""
    settings = settings_of(lm_head=True, modules_in_block_to_quantize=[["self_attn.q_proj", "mlp.down_proj"]])
    model = model_of("llama", num_hidden_layers=1)
    quantise = quantiser(settings)
    folder = tmp_path / "model"
    tensors = save_quantised(folder, model, lambda weight: {"weight": weight}, settings)
    wanted = {}
    for name in ["model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj", "lm_head"]:
        parts = quantise(tensors.pop(f"{name}.weight"))
        wanted[name] = theirs_of(parts, settings)
        tensors.update({f"{name}.{part}": value for part, value in parts.items()})
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    listed = driver.open(folder)
    for name, weight in wanted.items():
        assert same_bits(driver.read(f"{name}.weight", torch.float16, weight.shape), weight)
        assert listed[f"{name}.weight"]["stored"] == "int4"
    up = "model.layers.0.mlp.up_proj.weight"
    assert same_bits(driver.read(up, torch.float32, tensors[up].shape), tensors[up])


@pytest.mark.parametrize("file", ["model.safetensors", "gptq_model-4bit-64g.safetensors"])
def test_old_folders_have_their_settings_in_a_file_of_their_own(driver, tmp_path, file):
    settings = settings_of(desc_act=True)
    folder = tmp_path / "model"
    tensors = save_quantised(folder, model_of("llama", num_hidden_layers=1), quantiser(settings), settings)
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").rename(folder / file)
    with pytest.raises(Refused):
        driver.open(folder)
    del settings["quant_method"], settings["checkpoint_format"]
    (folder / "quantize_config.json").write_text(json.dumps(settings))
    name = "model.layers.0.self_attn.q_proj"
    wanted = theirs_of(parts_of(tensors, name), settings_of(desc_act=True))
    for path in [folder, folder / file]:
        driver.open(path)
        assert same_bits(driver.read(f"{name}.weight", torch.float16, wanted.shape), wanted)
    (folder / "quantize_config.json").write_text(json.dumps({**settings, "bits": 5}))
    with pytest.raises(Refused, match=r"quantize_config.json: bits: is 5.*accepted: 2, 3, 4, 8"):
        driver.open(folder)


def test_groups_that_cannot_be_are_refused(driver, tmp_path):
    settings = settings_of(desc_act=True)
    tensors = save_quantised(tmp_path / "model", model_of("llama", num_hidden_layers=1), quantiser(settings), settings)
    index = tensors["model.layers.0.mlp.down_proj.g_idx"]
    for wrong in (8, -1, 2**31 - 1, -(2**31)):
        index[100] = wrong
        save_file(tensors, tmp_path / "model/model.safetensors", {"format": "pt"})
        with pytest.raises(Refused, match=f"down_proj.g_idx puts input 100 into group {wrong} of 8"):
            driver.open(tmp_path / "model")
    index.fill_(-1)
    save_file(tensors, tmp_path / "model/model.safetensors", {"format": "pt"})
    with pytest.raises(Refused, match="puts input 0 into group -1 of 8"):
        driver.open(tmp_path / "model")


def test_parts_are_needed_and_must_fit(driver, tmp_path):
    settings = settings_of(desc_act=True)
    tensors = save_quantised(tmp_path / "model", model_of("llama", num_hidden_layers=1), quantiser(settings), settings)
    name = "model.layers.0.self_attn.k_proj"
    for part, value, message in [
        ("scales", None, "k_proj.scales is missing"),
        ("qzeros", None, "k_proj.qzeros is missing"),
        ("qweight", None, "k_proj.qweight is missing"),
        ("g_idx", None, "k_proj.g_idx is missing"),
        ("qweight", torch.zeros(31, 128, dtype=torch.int32), r"qweight is \[31, 128\], and must be \[32, 128\]"),
        ("qweight", torch.zeros(32, 128), "qweight is float32, and must be int32"),
        ("qzeros", torch.zeros(4, 17, dtype=torch.int32), r"qzeros is \[4, 17\], and must be \[4, 16\]"),
        ("scales", torch.ones(5, 128), r"scales is \[5, 128\], and must be \[4, 128\]"),
        ("g_idx", torch.zeros(255, dtype=torch.int32), r"g_idx is \[255\], and must be \[256\]"),
        ("g_idx", torch.zeros(256, dtype=torch.int64), "g_idx is int64, and must be int32"),
    ]:
        save_with(tmp_path / "model", tensors, f"{name}.{part}", value)
        with pytest.raises(Refused, match=message):
            driver.open(tmp_path / "model")
    for key in [key for key in tensors if key.endswith(".g_idx")]:
        del tensors[key]
    save_file(tensors, tmp_path / "model/model.safetensors", {"format": "pt"})
    with pytest.raises(Refused, match="g_idx is missing"):
        driver.open(tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    config["quantization_config"]["desc_act"] = False
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    driver.open(tmp_path / "model")
