"""Checkpoints quantised by bitsandbytes, against bitsandbytes and transformers."""

import json

import bitsandbytes as bnb
import pytest
import torch
import transformers
from bitsandbytes import functional
from bitsandbytes.backends.default import ops as generic
from checkpoint_driver import Refused, same_bits
from safetensors.torch import load_file, save_file
from tiny_models import model_of


FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def quantized(tmp_path, family="llama", seed=0, dtype=torch.bfloat16, more=None, **options):
    """A folder that transformers saved, its tensors, and its quantised modules by name."""
    # Weights of many sizes, so that scales differ.
    model = model_of(family, seed, **(more or {}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(torch.exp(torch.randn(parameter.shape[:1] + (1,) * (parameter.ndim - 1))))
    model.to(dtype).save_pretrained(tmp_path / "plain")
    config = transformers.BitsAndBytesConfig(**options)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "plain", quantization_config=config, dtype=dtype, device_map="cpu"
    )
    loaded.save_pretrained(tmp_path / "model")
    return loaded, load_file(tmp_path / "model/model.safetensors")


def linears(model, kind):
    found = {name: module for name, module in model.named_modules() if isinstance(module, kind)}
    assert found
    return found


def state_of(tensors, name):
    stem = f"{name}.weight."
    parts = {key.removeprefix(stem): tensor for key, tensor in tensors.items() if key.startswith(stem)}
    return functional.QuantState.from_dict(parts, torch.device("cpu"))


def four_bits(tensors, name, dtype):
    state = state_of(tensors, name)
    state.dtype = dtype
    return functional.dequantize_4bit(tensors[f"{name}.weight"], state)


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("storage", ["uint8", "bfloat16"])
def test_four_bits_are_dequantised_as_bitsandbytes_does(driver, tmp_path, kind, double, storage):
    model, tensors = quantized(
        tmp_path,
        load_in_4bit=True,
        bnb_4bit_quant_type=kind,
        bnb_4bit_use_double_quant=double,
        bnb_4bit_quant_storage=storage,
    )
    listed = driver.open(tmp_path / "model")
    modules = linears(model, bnb.nn.Linear4bit)
    for name, module in modules.items():
        assert listed[f"{name}.weight"]["stored"] == kind
        for dtype in FLOATS:
            wanted = four_bits(tensors, name, dtype)
            assert wanted.shape == (module.out_features, module.in_features)
            assert same_bits(driver.read(f"{name}.weight", dtype, wanted.shape), wanted), (name, dtype)
    for name, parameter in model.named_parameters():
        if name.removesuffix(".weight") not in modules:
            assert same_bits(driver.read(name, torch.bfloat16, parameter.shape), parameter.detach())
    assert set(listed) == {name for name, _ in model.named_parameters()}


def test_parts_of_a_matrix_are_those_of_the_whole(driver, tmp_path):
    _, tensors = quantized(
        tmp_path,
        more={"hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 88},
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
    )
    driver.open(tmp_path / "model")
    for name in ["model.layers.0.mlp.up_proj", "model.layers.1.mlp.down_proj"]:
        # Runs cross the rows of both: there bitsandbytes' own CPU kernel does not undo what its quantisation did, and its
        # generic path does.
        state = state_of(tensors, name)
        scales = functional.dequantize_blockwise(state.absmax, state.state2) + state.offset
        codes = tensors[f"{name}.weight"].reshape(-1)
        whole = generic._dequantize_4bit_compute(codes, scales, state.code, 64, state.shape, torch.float32)
        for row, rows, column, columns in [(0, 3, 0, 48), (5, 7, 1, 1), (2, 9, 3, 40), (47, 1, 0, 17), (9, 30, 47, 1)]:
            got = driver.read(f"{name}.weight", torch.float32, (rows, columns), rows=(row, rows), columns=(column, columns))
            assert same_bits(got, whole[row : row + rows, column : column + columns].contiguous())
        assert driver.packed(f"{name}.weight", 0, 1, tmp_path / "codes") is None


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("double", [False, True])
def test_codes_of_four_bits_are_handed_out_unchanged(driver, tmp_path, family, double):
    model, tensors = quantized(
        tmp_path, family, load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=double
    )
    driver.open(tmp_path / "model")
    for name, module in linears(model, bnb.nn.Linear4bit).items():
        rows, columns = module.out_features, module.in_features
        state = state_of(tensors, name)
        absmax = state.absmax
        if state.nested:
            absmax = functional.dequantize_blockwise(state.absmax, state.state2) + state.offset
        wanted = tensors[f"{name}.weight"].view(torch.uint8).reshape(rows, columns // 2)
        for first, count in [(0, rows), (1, 3), (rows - 1, 1)]:
            form, codes, scales = driver.packed(f"{name}.weight", first, count, tmp_path / "codes")
            assert form == {"code": "nf4", "run": 64, "double_quantized": double, "rows": rows, "columns": columns}
            assert torch.equal(codes.reshape(count, -1), wanted[first : first + count])
            assert same_bits(scales.reshape(count, -1), absmax.reshape(rows, -1)[first : first + count].contiguous())


def test_gpt2s_projections_come_in_the_models_orientation(driver, tmp_path):
    model, tensors = quantized(tmp_path, "gpt2", load_in_4bit=True, bnb_4bit_quant_type="nf4")
    listed = driver.open(tmp_path / "model")
    for name, module in linears(model, bnb.nn.Linear4bit).items():
        wanted = four_bits(tensors, name, torch.float32).T.contiguous()
        assert listed[f"{name}.weight"]["shape"] == list(wanted.shape)
        assert same_bits(driver.read(f"{name}.weight", torch.float32, wanted.shape), wanted)
        got = driver.read(f"{name}.weight", torch.float32, (7, 5), rows=(3, 7), columns=(11, 5))
        assert same_bits(got, wanted[3:10, 11:16].contiguous())


def test_eight_bits_are_dequantised_as_bitsandbytes_does(driver, tmp_path):
    model, tensors = quantized(tmp_path, dtype=torch.float16, load_in_8bit=True)
    listed = driver.open(tmp_path / "model")
    for name, module in linears(model, bnb.nn.Linear8bitLt).items():
        codes, scales = tensors[f"{name}.weight"], tensors[f"{name}.SCB"]
        for dtype in FLOATS:  # MatMul8bitLt's backward pass
            wanted = codes.to(dtype, copy=True).mul_(scales.unsqueeze(1).mul(1.0 / 127.0))
            assert same_bits(driver.read(f"{name}.weight", dtype, wanted.shape), wanted)
        part = driver.read(f"{name}.weight", torch.float16, (2, 3), rows=(4, 2), columns=(5, 3))
        whole = codes.to(torch.float16, copy=True).mul_(scales.unsqueeze(1).mul(1.0 / 127.0))
        assert same_bits(part, whole[4:6, 5:8].contiguous())
        assert listed[f"{name}.weight"]["stored"] == "int8"
        form, got, rows = driver.packed(f"{name}.weight", 1, 5, tmp_path / "codes")
        assert form["code"] == "int8" and (form["rows"], form["columns"]) == tuple(codes.shape)
        assert torch.equal(got.view(torch.int8).reshape(5, -1), codes[1:6])
        assert same_bits(rows, scales[1:6])


def test_what_is_read_computes_what_the_quantised_model_computes(driver, tmp_path):
    """In train mode and float32 Linear4bit multiplies with the numbers above."""
    model, _ = quantized(
        tmp_path,
        dtype=torch.float32,
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float32,
    )
    driver.open(tmp_path / "model")
    plain = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "plain", dtype=torch.float32).train()
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(driver.read(name, torch.float32, parameter.shape))
    tokens = torch.arange(24).reshape(2, 12)
    assert torch.equal(plain(tokens).logits, model.train()(tokens).logits)


def test_all_threads_together_read_the_same(driver, tmp_path):
    _, tensors = quantized(tmp_path, load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
    listed = driver.open(tmp_path / "model")
    (tmp_path / "out").mkdir()
    driver.ask(read_all="float32", threads=4, to=str(tmp_path / "out"))
    for name, tensor in listed.items():
        got = torch.frombuffer(bytearray((tmp_path / "out" / name).read_bytes()), dtype=torch.float32)
        if tensor["stored"] == "nf4":
            assert same_bits(got.reshape(tensor["shape"]), four_bits(tensors, name.removesuffix(".weight"), torch.float32))


def edit_state(tensors, name, **changes):
    key = next(key for key in tensors if key.startswith(f"{name}.weight.quant_state"))
    state = json.loads(bytes(tensors[key].tolist()))
    state.update(changes)
    state = {key: value for key, value in state.items() if value is not None}
    tensors[key] = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)


NAME = "model.layers.0.mlp.up_proj"
LIES = [
    (lambda t: edit_state(t, NAME, blocksize=63), "has 63 as its blocksize, which is not a power of two"),
    (lambda t: edit_state(t, NAME, blocksize=128), r"absmax has 2048 scales, and the state asks for \[1024\]"),
    (lambda t: edit_state(t, NAME, shape=[256, 512]), r"says that the weight is \[256,512\], and the model asks for"),
    (lambda t: edit_state(t, NAME, quant_type="fp4"), 'says that the codes are "fp4"'),
    (lambda t: edit_state(t, NAME, nested_offset="much"), 'has "much" as its nested_offset'),
    (lambda t: edit_state(t, NAME, nested_offset=1e300), "as its nested_offset"),
    (lambda t: edit_state(t, NAME, nested_dtype="float16"), "as its nested_dtype, which must be float32"),
    (lambda t: edit_state(t, NAME, nested_blocksize=None), "says nothing of nested_absmax, which is there"),
    (lambda t: edit_state(t, NAME, nested_blocksize=512), r"nested_absmax has 8 scales, and the state asks for \[4\]"),
    (lambda t: t[f"{NAME}.weight.quant_map"].mul_(2), "has -2 for the code 0, which stands for -1"),
    (lambda t: t[f"{NAME}.weight.nested_quant_map"].fill_(float("nan")), "numbers that are not from -1 to 1"),
    (lambda t: t.pop(f"{NAME}.weight.absmax"), "weight.absmax is missing"),
    (lambda t: t.pop(f"{NAME}.weight.nested_quant_map"), "nested_quant_map is missing"),
    (lambda t: t.update({f"{NAME}.weight": torch.zeros(9, 1, dtype=torch.uint8)}), "has 9 bytes, and 131072 elements of 4 bits do not"),
    (lambda t: t.update({f"{NAME}.weight.absmax": torch.zeros(2048)}), "is float32 beside nested_absmax"),
    (lambda t: t.pop("model.norm.weight"), r"model.norm.weight \[256\] is missing"),
]


@pytest.mark.parametrize("lie", range(len(LIES)))
def test_parts_that_contradict_each_other_are_refused(driver, tmp_path, lie):
    _, tensors = quantized(tmp_path, load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
    change, message = LIES[lie]
    change(tensors)
    save_file(tensors, tmp_path / "model/model.safetensors", {"format": "pt"})
    with pytest.raises(Refused, match=message):
        driver.open(tmp_path / "model")


def test_scales_of_eight_bits_are_needed_and_must_fit(driver, tmp_path):
    _, tensors = quantized(tmp_path, dtype=torch.float16, load_in_8bit=True)
    file = tmp_path / "model/model.safetensors"
    save_file({**tensors, f"{NAME}.weight_format": torch.tensor(2, dtype=torch.uint8)}, file, {"format": "pt"})
    with pytest.raises(Refused, match="weight_format is 2, an order of a GPU's"):
        driver.open(tmp_path / "model")
    save_file({**tensors, f"{NAME}.SCB": torch.zeros(7)}, file, {"format": "pt"})
    with pytest.raises(Refused, match=r"SCB is \[7\], and must be \[512\]"):
        driver.open(tmp_path / "model")
    save_file({k: v for k, v in tensors.items() if k != f"{NAME}.SCB"}, file, {"format": "pt"})
    with pytest.raises(Refused, match="SCB is missing"):
        driver.open(tmp_path / "model")
