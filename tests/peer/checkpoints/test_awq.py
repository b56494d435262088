"""Checkpoints of AWQ, against AutoAWQ's own packing and dequantising. It can dequantise its gemm layout alone without a GPU:
weights packed in the gemv layout must be those that it makes of the same ones packed in the other."""

import json

import pytest
import torch
from checkpoint_driver import Refused, same_bits
from grouped_quantisers import AwqGemmLinear, AwqGemvLinear, dequantize_gemm
from quantised_folder import check_slices, layers_of, save_quantised
from safetensors.torch import save_file
from tiny_models import model_of


def settings_of(version="gemm", group=64, zero_point=True, **more):
    return {
        "quant_method": "awq",
        "bits": 4,
        "group_size": group,
        "zero_point": zero_point,
        "version": version,
        "modules_to_not_convert": None,
        **more,
    }


class Quantiser:
    """Packs weights of a model in the layout of the settings, and keeps what AutoAWQ makes of them."""

    def __init__(self, settings, model):
        self.settings = settings
        self.weights = dict(model.named_parameters())
        self.random = torch.Generator().manual_seed(4)
        self.wanted = {}

    def __call__(self, weight):
        outputs, inputs = weight.shape
        group = inputs if self.settings["group_size"] == -1 else self.settings["group_size"]
        linear = torch.nn.Linear(inputs, outputs, bias=False)
        linear.weight.data = weight.float()
        shape = (inputs // group, outputs)
        zeros = torch.randint(0, 16, shape, generator=self.random).float()
        if not self.settings["zero_point"]:
            zeros.fill_(8)
        scales = (weight.abs().max() / 8 * (0.9 + torch.rand(shape, generator=self.random))).half()
        # Their packing does not keep codes within 4 bits: weights that fit.
        codes = torch.randint(0, 16, (inputs, outputs), generator=self.random).float()
        spread = [value.repeat_interleave(group, 0) for value in (zeros, scales.float())]
        linear.weight.data = ((codes - spread[0]) * spread[1]).T.contiguous()
        gemm = AwqGemmLinear.from_linear(linear, 4, group, False, scales, zeros)
        name = next(name for name, original in self.weights.items() if torch.equal(original, weight))
        self.wanted[name] = dequantize_gemm(gemm.qweight, gemm.qzeros, gemm.scales, 4, group).T.contiguous()
        packed = gemm
        if self.settings["version"].lower() == "gemv":
            packed = AwqGemvLinear.from_linear(linear, 4, group, False, scales.T.contiguous(), zeros.T.contiguous())
        return dict(packed.state_dict())


CASES = [
    dict(version="gemm", group=128),
    dict(version="GEMM", group=64, zero_point=False),
    dict(version="gemm", group=32),
    dict(version="gemm", group=-1),
    dict(version="gemv", group=128),
    dict(version="gemv", group=64),
    dict(version="GEMV", group=32, zero_point=False),
    dict(version="gemv", group=-1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(value) for value in case.values()))
def test_weights_are_those_of_autoawq(driver, tmp_path, case):
    settings = settings_of(**case)
    model = model_of("llama", num_hidden_layers=1)
    quantise = Quantiser(settings, model)
    save_quantised(tmp_path / "model", model, quantise, settings)
    listed = driver.open(tmp_path / "model")
    assert len(quantise.wanted) == 7
    for name, wanted in quantise.wanted.items():
        assert wanted.dtype == torch.float16 and len(wanted.unique()) > 20
        assert same_bits(driver.read(name, torch.float16, wanted.shape), wanted)
        exact = driver.read(name, torch.float32, wanted.shape)
        assert same_bits(exact.half(), wanted)
        check_slices(driver, name, exact, same_bits)
        assert listed[name]["stored"] == "int4"


@pytest.mark.parametrize("version", ["gemm", "gemv"])
def test_modules_that_were_not_converted_are_as_they_are(driver, tmp_path, version):
    settings = settings_of(version, modules_to_not_convert=["mlp.up_proj"])
    model = model_of("llama", num_hidden_layers=1)
    quantise = Quantiser(settings, model)
    up = model.model.layers[0].mlp.up_proj.weight
    tensors = save_quantised(
        tmp_path / "model", model, lambda weight: {"weight": weight} if torch.equal(weight, up) else quantise(weight), settings
    )
    assert len(layers_of(tensors)) == 6
    listed = driver.open(tmp_path / "model")
    name = "model.layers.0.mlp.up_proj.weight"
    assert listed[name]["stored"] == "float32"
    assert same_bits(driver.read(name, torch.float32, up.shape), up.detach())


def test_old_folders_have_their_settings_in_a_file_of_their_own(driver, tmp_path):
    settings = settings_of()
    folder = tmp_path / "model"
    model = model_of("llama", num_hidden_layers=1)
    save_quantised(folder, model, Quantiser(settings, model), settings)
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "quant_config.json").write_text(json.dumps({"zero_point": True, "q_group_size": 64, "w_bit": 4, "version": "GEMM"}))
    driver.open(folder)


@pytest.mark.parametrize(
    "version,part,value,message",
    [
        ("gemm", "scales", None, "k_proj.scales is missing"),
        ("gemm", "qzeros", None, "k_proj.qzeros is missing"),
        ("gemm", "qweight", None, "k_proj.qweight is missing"),
        ("gemm", "qweight", torch.zeros(128, 32, dtype=torch.int32), r"qweight is \[128, 32\], and must be \[256, 16\]"),
        ("gemm", "qzeros", torch.zeros(4, 32, dtype=torch.int32), r"qzeros is \[4, 32\], and must be \[4, 16\]"),
        ("gemm", "scales", torch.ones(8, 128), r"scales is \[8, 128\], and must be \[4, 128\]"),
        ("gemv", "qweight", torch.zeros(256, 16, dtype=torch.int32), r"qweight is \[256, 16\], and must be \[128, 32\]"),
        ("gemv", "qzeros", torch.zeros(128, 1, dtype=torch.int32), r"qzeros is \[128, 1\], and must be \[128, 2\]"),
        ("gemv", "scales", torch.ones(128, 4), r"scales is \[128, 4\], and must be \[128, 16\]"),
    ],
)
def test_parts_are_needed_and_must_fit(driver, tmp_path, version, part, value, message):
    settings = settings_of(version)
    model = model_of("llama", num_hidden_layers=1)
    tensors = save_quantised(tmp_path / "model", model, Quantiser(settings, model), settings)
    name = f"model.layers.0.self_attn.k_proj.{part}"
    del tensors[name]
    if value is not None:
        tensors[name] = value
    save_file(tensors, tmp_path / "model/model.safetensors", {"format": "pt"})
    with pytest.raises(Refused, match=message):
        driver.open(tmp_path / "model")


def test_groups_must_divide_the_inputs_and_suit_the_layout(driver, tmp_path):
    for version, group, message in [
        ("gemm", 96, "has 256 columns, which runs of 96 do not divide"),
        ("gemv", 16, "qzeros is of runs of 16, and gemv has runs of 32, of 64, and from 128 on"),
    ]:
        settings = settings_of(version)
        model = model_of("llama", num_hidden_layers=1)
        save_quantised(tmp_path / version, model, Quantiser(settings, model), settings)
        config = json.loads((tmp_path / version / "config.json").read_text())
        config["quantization_config"]["group_size"] = group
        (tmp_path / version / "config.json").write_text(json.dumps(config))
        with pytest.raises(Refused, match=message):
            driver.open(tmp_path / version)
