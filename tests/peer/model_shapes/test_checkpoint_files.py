"""Checkpoints that other programs wrote, read by muster: safetensors by save_pretrained, GGUF by transformers' table."""

import json
import random

import gguf_file
import pytest
import torch
from random_configs import FAMILIES, random_config
from safetensors.torch import load_file, save_file
from shape_programs import dump
from transformers import AutoModelForCausalLM
from transformers_shape import describe, model_on_meta, read_config, tensors_of

RUNS = 4


def saved_models(family: str, tmp_path, shard: str | None):
    """Folders that save_pretrained wrote, each with its model."""
    chance = random.Random(f"checkpoints of {family}")
    for i in range(RUNS):
        source = tmp_path / f"{i}.json"
        source.write_text(json.dumps(random_config(chance, family)))
        config = read_config(source)
        model = AutoModelForCausalLM.from_config(config, dtype=chance.choice((torch.float32, torch.bfloat16)))
        folder = tmp_path / str(i)
        model.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
        yield folder, model


@pytest.mark.parametrize("shard", (None, "30KB"), ids=("whole", "in parts"))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_is_read_as_it_is(family, shard, tmp_path):
    for folder, model in saved_models(family, tmp_path, shard):
        read = dump([folder])[0]
        assert "error" not in read, read
        assert len(list(folder.glob("*.safetensors"))) > 1 or shard is None
        assert read["dtype"] == str(model.dtype).removeprefix("torch.")
        assert read["parameters"] == model.num_parameters()
        assert read["checkpoint_bytes"] == model.num_parameters() * model.dtype.itemsize
        assert read["tensors"] == tensors_of(model)
        assert read["notes"] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_without_its_configuration_is_told_from_its_tensors(family, tmp_path):
    path = tmp_path / "config.json"
    values = {"model_type": family, "vocab_size": 300, "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
    if family != "gpt2":
        values |= {"num_key_value_heads": 2, "intermediate_size": 100, "head_dim": 64, "tie_word_embeddings": True}
    path.write_text(json.dumps(values))
    model = AutoModelForCausalLM.from_config(read_config(path), dtype=torch.bfloat16)
    model.save_pretrained(tmp_path / "saved")
    (tmp_path / "saved/config.json").unlink()
    for source in (tmp_path / "saved", tmp_path / "saved/model.safetensors"):
        read = dump([source])[0]
        assert "error" not in read, read
        parameters = [row for row in read["tensors"] if row["kind"] == "parameter"]
        assert parameters == [row for row in tensors_of(model) if row["kind"] == "parameter"]
        assert read["config"]["family"] == ("llama" if family == "mistral" else family)
        assert any("assumed" in note for note in read["notes"])


def test_a_missing_part_a_changed_size_and_a_foreign_tensor_are_named(tmp_path):
    folder, _ = next(saved_models("llama", tmp_path, "30KB"))
    part = sorted(folder.glob("*.safetensors"))[-1]
    whole = part.read_bytes()
    part.unlink()
    assert f"{part.name}, which is not there" in dump([folder])[0]["error"]
    part.write_bytes(whole[:-1])
    assert part.name in dump([folder])[0]["error"]
    part.write_bytes(whole)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": config["vocab_size"] + 1}))
    assert "model.embed_tokens.weight is [" in dump([folder])[0]["error"]


def test_every_element_type_of_the_safetensors_package_is_read(tmp_path):
    folder, _ = next(saved_models("gpt2", tmp_path, None))
    tensors = load_file(folder / "model.safetensors")
    kinds = (torch.float64, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8,
             torch.uint8, torch.bool)  # fmt: skip
    extra = {f"extra.{i}": torch.zeros(i, 2, dtype=kind) for i, kind in enumerate(kinds)}
    extra["scalar"] = torch.zeros((), dtype=torch.float16)
    save_file(tensors | extra, folder / "model.safetensors", metadata={"format": "pt"})
    read = dump([folder])[0]
    assert "error" not in read, read
    assert any(f"{len(extra)} tensors" in note for note in read["notes"])


@pytest.mark.parametrize("matrices", ("F16", "BF16", "F32", "Q8_0"))
@pytest.mark.parametrize("family", ("llama", "qwen2", "qwen3", "gpt2"))
@pytest.mark.parametrize("tied", (True, False), ids=("tied", "untied"))
def test_a_gguf_file_has_the_shape_of_the_model_it_was_made_from(family, matrices, tied, tmp_path):
    path = tmp_path / "config.json"
    values = {"model_type": family, "vocab_size": 352, "hidden_size": 128, "num_attention_heads": 4,
              "num_hidden_layers": 2, "max_position_embeddings": 96, "tie_word_embeddings": tied}  # fmt: skip
    if family != "gpt2":
        values |= {"num_key_value_heads": 2, "intermediate_size": 160, "head_dim": 64}
    path.write_text(json.dumps(values))
    config = read_config(path)
    total = gguf_file.write(tmp_path / "m.gguf", model_on_meta(config, torch.float32), config, matrices)
    read = dump([tmp_path / "m.gguf"], "float32")[0]
    assert "error" not in read, read
    expected = describe(path, torch.float32)
    for part in ("modules", "tensors", "parameters"):
        assert read[part] == expected[part]
    assert read["checkpoint_bytes"] == total
    assert {key: read["config"][key] for key in ("heads", "kv_heads", "head_size", "positions")} == {
        key: expected["config"][key] for key in ("heads", "kv_heads", "head_size", "positions")
    }
    assert any("Q8_0" in note for note in read["notes"]) == (matrices == "Q8_0")
