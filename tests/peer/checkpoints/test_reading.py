"""What muster reads from checkpoints, against safetensors, transformers and gguf."""

import json
import shutil

import gguf
import numpy as np
import pytest
import torch
from checkpoint_driver import Refused, same_bits
from safetensors.torch import load_file, save_file
from tiny_models import CONFIGS, gguf_tensors, interleave, model_of, write_gguf

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def test_every_floating_type_is_read_as_every_other_as_torch_converts_it(driver, tmp_path):
    torch.manual_seed(1)
    numbers = torch.cat([torch.randn(5000) * 10.0**e for e in range(-9, 9)] + [torch.zeros(8), -torch.zeros(8)])
    tensors = {str(dtype): numbers.to(dtype).reshape(-1, 8) for dtype in FLOATS}
    save_file(tensors, tmp_path / "file.safetensors")
    assert set(driver.open_safetensors(tmp_path / "file.safetensors")) == set(tensors)
    for name, tensor in tensors.items():
        for dtype in FLOATS:
            assert same_bits(driver.read(name, dtype, tensor.shape), tensor.to(dtype)), (name, dtype)


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("tied", [True, False])
def test_sharded_folders_of_transformers_are_read_whole(driver, tmp_path, family, tied):
    model = model_of(family, tie_word_embeddings=tied).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "model", max_shard_size="400KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 3
    listed = driver.open(tmp_path / "model")
    wanted = dict(model.named_parameters())  # a tied one once
    assert set(listed) == set(wanted)
    for name, tensor in wanted.items():
        assert tuple(listed[name]["shape"]) == tuple(tensor.shape)
        assert same_bits(driver.read(name, torch.bfloat16, tensor.shape), tensor.detach())
    assert same_bits(
        driver.read("lm_head.weight", torch.bfloat16, model.lm_head.weight.shape), model.lm_head.weight.detach()
    )


def test_a_checkpoint_of_the_inner_model_is_read_under_the_whole_models_names(driver, tmp_path):
    model = model_of("llama", tie_word_embeddings=True)
    model.model.save_pretrained(tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    config["architectures"] = ["LlamaForCausalLM"]
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    assert "layers.0.mlp.up_proj.weight" in load_file(tmp_path / "model/model.safetensors")
    weight = model.model.layers[0].mlp.up_proj.weight.detach()
    driver.open(tmp_path / "model")
    assert same_bits(driver.read("model.layers.0.mlp.up_proj.weight", torch.float32, weight.shape), weight)


def test_slices_are_those_of_torch_and_read_only_their_bytes(driver, tmp_path):
    tensor = torch.randn(40, 96).to(torch.bfloat16)
    save_file({"t": tensor, "v": tensor[0].clone()}, tmp_path / "file.safetensors")
    driver.open_safetensors(tmp_path / "file.safetensors")
    before = 0
    for rows, columns in [((0, 20), (0, 96)), ((20, 20), (0, 96)), ((3, 5), (7, 11)), ((0, 40), (48, 48)), ((39, 1), (95, 1))]:
        got = driver.read("t", torch.bfloat16, (rows[1], columns[1]), rows=rows, columns=columns)
        assert same_bits(got, tensor[rows[0] : sum(rows), columns[0] : sum(columns)].clone())
        assert driver.bytes_read - before == rows[1] * columns[1] * 2
        before = driver.bytes_read
    assert same_bits(driver.read("v", torch.bfloat16, (10,), rows=(86, 10)), tensor[0, 86:].clone())


@pytest.mark.parametrize("form", ["folder", "gguf"])
def test_half_of_the_layers_read_about_half_of_the_bytes(driver, tmp_path, form):
    model = model_of("llama", num_hidden_layers=8, vocab_size=32)
    if form == "folder":
        model.save_pretrained(tmp_path / "model", max_shard_size="1MB")
        listed = driver.open(tmp_path / "model")
    else:
        write_gguf(tmp_path / "model.gguf", model, gguf.GGMLQuantizationType.Q8_0)
        listed = driver.open(tmp_path / "model.gguf")
    total = sum(tensor["bytes"] for tensor in listed.values())
    for name, tensor in listed.items():
        if name.startswith("model.layers.") and int(name.split(".")[2]) >= 4:
            driver.read(name, torch.bfloat16, tensor["shape"])
    assert 0.47 * total < driver.bytes_read < 0.5 * total


TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]


@pytest.mark.parametrize("kind", TYPES)
def test_every_block_type_is_unpacked_as_gguf_does_bit_by_bit(driver, tmp_path, kind):
    model = model_of("qwen2")  # its rows keep their order
    held = write_gguf(tmp_path / "model.gguf", model, gguf.GGMLQuantizationType[kind], np.random.default_rng(3))
    listed = driver.open(tmp_path / "model.gguf")
    assert listed["model.layers.1.mlp.down_proj.weight"]["stored"] == kind
    for name, gguf_name in [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight"),
        ("model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"),
        ("model.layers.1.self_attn.k_proj.bias", "blk.1.attn_k.bias"),
    ]:
        wanted = torch.from_numpy(held[gguf_name])
        assert same_bits(driver.read(name, torch.float32, wanted.shape), wanted)
        assert same_bits(driver.read(name, torch.bfloat16, wanted.shape), wanted.to(torch.bfloat16))
        assert same_bits(driver.read(name, torch.float16, wanted.shape), wanted.to(torch.float16))


def test_random_bits_are_unpacked_as_gguf_does(driver, tmp_path):
    """Scales and minima of every size, infinite ones and NaN, too."""
    random = np.random.default_rng(11)
    for kind in (gguf.GGMLQuantizationType[word] for word in TYPES[3:]):
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        rows, columns = 64, 512
        packed = random.integers(0, 256, (rows, columns // elements * size), dtype=np.uint8)
        model = model_of("llama", num_hidden_layers=1, hidden_size=512, vocab_size=rows, num_attention_heads=8)
        held = replace_embedding(tmp_path / "m.gguf", model, packed, kind)
        driver.open(tmp_path / "m.gguf")
        got = driver.read("model.embed_tokens.weight", torch.float32, (rows, columns))
        wanted = torch.from_numpy(held)
        assert torch.equal(got.isnan(), wanted.isnan())
        assert same_bits(got.nan_to_num(0, 1, -1), wanted.nan_to_num(0, 1, -1)), kind.name


def replace_embedding(path, model, packed, kind):
    original = gguf.GGUFWriter.add_tensor

    def add(writer, name, array, raw_dtype=None):
        if name == "token_embd.weight":
            return original(writer, name, packed, raw_dtype=kind)
        return original(writer, name, array, raw_dtype=raw_dtype)

    gguf.GGUFWriter.add_tensor = add
    try:
        write_gguf(path, model)
    finally:
        gguf.GGUFWriter.add_tensor = original
    with np.errstate(all="ignore"):
        return gguf.dequantize(packed, kind)


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q6_K"])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_rows_and_columns_of_gguf_tensors_come_in_transformers_order(driver, tmp_path, family, kind):
    model = model_of(family, **({"attention_bias": True} if family == "llama" else {}))
    held = write_gguf(tmp_path / "m.gguf", model, gguf.GGMLQuantizationType[kind], np.random.default_rng(5))
    driver.open(tmp_path / "m.gguf")
    originals = gguf_tensors(model)
    random = np.random.default_rng(9)
    for (name, parameter), gguf_name in zip(
        model.named_parameters(), gguf_names_in_order(model, originals), strict=True
    ):
        whole = torch.from_numpy(restore(model, name, held[gguf_name]))
        assert whole.shape == parameter.shape
        if kind == "F32":
            assert same_bits(whole, parameter.detach())
        assert same_bits(driver.read(name, torch.float32, whole.shape), whole), name
        for _ in range(3):
            first = int(random.integers(whole.shape[0]))
            rows = int(random.integers(whole.shape[0] - first + 1))
            part = dict(rows=(first, rows))
            wanted = whole[first : first + rows]
            if whole.ndim == 2:
                start = int(random.integers(whole.shape[1]))
                count = int(random.integers(whole.shape[1] - start + 1))
                part["columns"] = (start, count)
                wanted = wanted[:, start : start + count]
            if wanted.numel():
                assert same_bits(driver.read(name, torch.float32, wanted.shape, **part), wanted.clone()), (name, part)


def restore(model, name, array):
    config = model.config
    if config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        pairs = array.shape[0] // heads // 2
        array = array.reshape(heads, pairs, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
    if config.model_type == "gpt2" and array.ndim == 2 and ".c_" in name:
        array = array.T
    return np.ascontiguousarray(array)


def gguf_names_in_order(model, tensors):
    """gguf_tensors goes through the state dict, whose order is that of the parameters; a tied head is in neither."""
    names = list(tensors)
    assert len(names) == len(list(model.parameters()))
    return names


def test_interleaving_is_undone_by_what_transformers_does():
    from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

    weight = np.arange(256 * 3, dtype=np.float32).reshape(256, 3)
    back = LlamaTensorProcessor()._reverse_permute_weights(interleave(weight, 4), 4, 4)
    assert np.array_equal(back, weight)


def test_a_row_slice_of_blocks_reads_only_its_blocks(driver, tmp_path):
    model = model_of("qwen2")
    write_gguf(tmp_path / "m.gguf", model, gguf.GGMLQuantizationType.Q4_0)
    driver.open(tmp_path / "m.gguf")
    driver.read("model.layers.0.mlp.up_proj.weight", torch.float32, (100, 256), rows=(200, 100))
    assert driver.bytes_read == 100 * 256 // 32 * 18
    before = driver.bytes_read
    driver.read("model.layers.0.mlp.up_proj.weight", torch.float32, (512, 64), columns=(70, 64))
    assert driver.bytes_read - before == 512 * 3 * 18


def test_reading_with_threads_gives_the_same_bytes(driver, tmp_path):
    model = model_of("llama", vocab_size=40000)  # an embedding that is split among threads
    model.save_pretrained(tmp_path / "model", max_shard_size="9MB")
    driver.open(tmp_path / "model")
    for threads in (1, 3):
        folder = tmp_path / f"out{threads}"
        folder.mkdir()
        driver.ask(read_all="bfloat16", threads=threads, to=str(folder))
        for name, tensor in model.named_parameters():
            got = torch.frombuffer(bytearray((folder / name).read_bytes()), dtype=torch.bfloat16)
            assert same_bits(got.reshape(tensor.shape), tensor.detach().to(torch.bfloat16)), name


def test_views_are_the_stored_bytes_and_gguf_blocks_have_none(driver, tmp_path):
    model = model_of("llama", vocab_size=4000).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "model", max_shard_size="1MB")
    driver.open(tmp_path / "model")
    for name, tensor in model.named_parameters():
        assert same_bits(driver.read(name, torch.bfloat16, tensor.shape, view=True), tensor.detach())
    write_gguf(tmp_path / "m.gguf", model_of("llama"))
    driver.open(tmp_path / "m.gguf")
    with pytest.raises(Refused, match="no view of"):
        driver.read("model.norm.weight", torch.float32, (256,), view=True)


def test_wrong_slices_types_and_names_are_refused(driver, tmp_path):
    save_file({"t": torch.zeros(4, 8), "i": torch.zeros(3, dtype=torch.int64)}, tmp_path / "f.safetensors")
    driver.open_safetensors(tmp_path / "f.safetensors")
    for rows in [(0, 5), (4, 1), (-1, 2), (5, 0)]:
        with pytest.raises(Refused, match="are not within its 4"):
            driver.read("t", torch.float32, (), rows=rows)
    with pytest.raises(Refused, match="columns from 7 on are not within its 8"):
        driver.read("t", torch.float32, (), columns=(7, 2))
    with pytest.raises(Refused, match="stored as int64 and cannot be read as float32"):
        driver.read("i", torch.float32, ())
    assert torch.equal(driver.read("i", torch.int64, (3,)), torch.zeros(3, dtype=torch.int64))


def test_a_file_that_shrinks_while_it_is_open_is_an_error_and_no_crash(driver, tmp_path):
    file = tmp_path / "f.safetensors"
    save_file({"a": torch.ones(4096), "b": torch.ones(4096)}, file)
    driver.open_safetensors(file)
    with open(file, "r+b") as opened:
        opened.truncate(20000)
    assert driver.read("a", torch.float32, (4096,)).sum() == 4096
    with pytest.raises(Refused, match="now ends at byte 20000"):
        driver.read("b", torch.float32, (4096,))


def test_a_configuration_without_weights_and_a_damaged_folder_are_refused(driver, tmp_path):
    model = model_of("llama")
    model.save_pretrained(tmp_path / "model", max_shard_size="600KB")
    with pytest.raises(Refused, match="a configuration without weights"):
        driver.open(tmp_path / "model" / "config.json")
    with pytest.raises(Refused, match="no model 'nobody/nothing'"):
        driver.open("nobody/nothing")
    shards = sorted((tmp_path / "model").glob("*.safetensors"))
    index = tmp_path / "model/model.safetensors.index.json"
    listing = json.loads(index.read_text())
    outside = tmp_path / shards[0].name
    shutil.copy(shards[0], outside)
    name = next(iter(listing["weight_map"]))
    for file in (f"../{shards[0].name}", str(outside)):
        changed = {**listing, "weight_map": {**listing["weight_map"], name: file}}
        index.write_text(json.dumps(changed))
        with pytest.raises(Refused, match="not a .safetensors file beside it"):
            driver.open(tmp_path / "model")
    index.write_text(json.dumps(listing))
    with open(shards[0], "r+b") as opened:
        opened.truncate(shards[0].stat().st_size - 1)
    with pytest.raises(Refused, match="of .* bytes of data"):
        driver.open(tmp_path / "model")
