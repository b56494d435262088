"""What muster writes, against what safetensors and transformers write and load."""

import json
import shutil

import pytest
import torch
import transformers
from checkpoint_driver import Refused, same_bits
from safetensors.torch import load_file, save_file
from tiny_models import CONFIGS, model_of


def test_a_file_of_many_types_is_that_of_safetensors_byte_by_byte(driver, tmp_path):
    torch.manual_seed(0)
    tensors = {
        f"{name}.{kind}": (torch.randn(size) * 100).to(kind)
        for name, size in [("b", (3, 5)), ("a", (7,)), ("ünï", (2, 3, 4)), ("scalar", ()), ("none", (0, 4))]
        for kind in [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.int16]
        + [torch.int8, torch.uint8, torch.bool]
    }
    save_file(tensors, tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    driver.open_safetensors(tmp_path / "theirs.safetensors")
    driver.ask(copy=str(tmp_path / "ours"), shard_bytes=10**9, **{"as": "stored"})
    assert [file.name for file in (tmp_path / "ours").iterdir()] == ["model.safetensors"]
    assert (tmp_path / "ours/model.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()


@pytest.mark.parametrize("family", CONFIGS)
def test_shards_load_in_transformers_unchanged(driver, tmp_path, family):
    model = model_of(family)
    model.save_pretrained(tmp_path / "theirs", max_shard_size=500_000)
    driver.open(tmp_path / "theirs")
    driver.ask(copy=str(tmp_path / "ours"), shard_bytes=500_000, **{"as": "float32"})
    shutil.copy(tmp_path / "theirs/config.json", tmp_path / "ours")
    files = sorted(file.name for file in (tmp_path / "ours").glob("*.safetensors"))
    assert files == sorted(file.name for file in (tmp_path / "theirs").glob("*.safetensors")) and len(files) > 3
    for file in files:
        assert (tmp_path / "ours" / file).read_bytes() == (tmp_path / "theirs" / file).read_bytes()
    ours, theirs = (json.loads((tmp_path / f / "model.safetensors.index.json").read_text()) for f in ("ours", "theirs"))
    assert ours["weight_map"] == theirs["weight_map"]
    assert ours["metadata"]["total_size"] == theirs["metadata"]["total_size"]
    loaded, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    for name, tensor in model.state_dict().items():
        assert same_bits(loaded.state_dict()[name], tensor)


def test_rounding_to_bfloat16_is_torchs(driver, tmp_path):
    tensors = {"t": torch.randn(300, 77)}
    save_file(tensors, tmp_path / "f.safetensors")
    driver.open_safetensors(tmp_path / "f.safetensors")
    driver.ask(copy=str(tmp_path / "ours"), shard_bytes=10**9, **{"as": "bfloat16"})
    assert same_bits(load_file(tmp_path / "ours/model.safetensors")["t"], tensors["t"].to(torch.bfloat16))


def test_a_folder_that_is_there_is_refused_and_not_touched(driver, tmp_path):
    save_file({"t": torch.zeros(3)}, tmp_path / "f.safetensors")
    driver.open_safetensors(tmp_path / "f.safetensors")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/precious").write_text("kept")
    with pytest.raises(Refused, match="ours is already there"):
        driver.ask(copy=str(tmp_path / "ours"), shard_bytes=10**9, **{"as": "stored"})
    assert [file.name for file in (tmp_path / "ours").iterdir()] == ["precious"]


def test_nothing_stays_when_a_source_fails_on_the_way(driver, tmp_path):
    save_file({"a": torch.zeros(5000), "b": torch.zeros(5000)}, tmp_path / "f.safetensors")
    driver.open_safetensors(tmp_path / "f.safetensors")
    with open(tmp_path / "f.safetensors", "r+b") as opened:
        opened.truncate(21000)
    with pytest.raises(Refused, match="now ends at byte 21000"):
        driver.ask(copy=str(tmp_path / "new" / "ours"), shard_bytes=10**9, **{"as": "stored"})
    assert list((tmp_path / "new").iterdir()) == []
