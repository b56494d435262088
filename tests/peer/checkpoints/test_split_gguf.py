"""GGUF models in several files, as gguf's own writer splits them."""

import shutil

import gguf
import pytest
import torch
import transformers
from checkpoint_driver import Refused, same_bits
from test_conversion import add_tokenizer
from tiny_models import model_of, with_llama3_factors, write_gguf


def write_parts(folder, tensors=6, model=None, edit=add_tokenizer, **more):
    """The names of the parts."""
    folder.mkdir(exist_ok=True)
    write_gguf(folder / "m.gguf", model or model_of("llama"), edit=edit, split_max_tensors=tensors, **more)
    return sorted(file.name for file in folder.glob("*.gguf"))


def change(file, old: bytes, new: bytes):
    held = file.read_bytes()
    assert held.count(old) == 1 and len(old) == len(new)
    file.write_bytes(held.replace(old, new))


@pytest.mark.parametrize("small_first", [False, True])
def test_parts_are_read_as_the_whole(driver, tmp_path, small_first):
    model = model_of("llama")
    parts = write_parts(tmp_path / "model", model=model, small_first_shard=small_first)
    assert parts[0] == "m-00001-of-0000%d.gguf" % len(parts) and len(parts) >= 4
    write_gguf(tmp_path / "whole.gguf", model, edit=add_tokenizer)
    whole = driver.open(tmp_path / "whole.gguf")
    numbers = {name: driver.read(name, torch.float32, entry["shape"]) for name, entry in whole.items()}
    for path in [tmp_path / "model" / parts[0], tmp_path / "model"]:
        assert driver.open(path) == whole
        for name, entry in whole.items():
            assert same_bits(driver.read(name, torch.float32, entry["shape"]), numbers[name]), name


def test_a_name_in_the_store_may_be_of_parts(driver, tmp_path):
    (tmp_path / "models").mkdir()
    write_parts(tmp_path / "models/small")
    assert "model.embed_tokens.weight" in driver.open("small")


def test_parts_are_converted(driver, tmp_path):
    model, factors = with_llama3_factors()

    def edit(writer):
        add_tokenizer(writer)
        writer.add_tensor("rope_freqs.weight", factors, raw_dtype=gguf.GGMLQuantizationType.F32)

    parts = write_parts(tmp_path / "model", model=model, edit=edit, small_first_shard=True)
    driver.ask(convert=str(tmp_path / "model" / parts[0]), to=str(tmp_path / "ours"), **{"as": "float32"})
    ours = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    for (name, parameter), other in zip(model.named_parameters(), ours.parameters(), strict=True):
        assert same_bits(parameter.detach(), other.detach()), name
    assert same_bits(ours.model.rotary_emb.inv_freq, model.model.rotary_emb.inv_freq)


def test_parts_that_are_missing_or_misplaced_are_refused(driver, tmp_path):
    folder = tmp_path / "model"
    parts = write_parts(folder)
    count = len(parts)
    first = folder / parts[0]
    with pytest.raises(Refused, match=rf"is part 2 of {count}\n  try: name the first: .*{parts[0]}"):
        driver.open(folder / parts[1])
    (folder / parts[2]).rename(tmp_path / "kept")
    for path in [first, folder]:
        with pytest.raises(Refused, match=f"{parts[2]}: is missing, and the model is in {count} files"):
            driver.open(path)
    shutil.copy(folder / parts[1], folder / parts[2])
    with pytest.raises(Refused, match=f"{parts[2]}: holds part 2 of {count}, and must hold part 3 of {count}"):
        driver.open(first)
    shutil.copy(tmp_path / "kept", folder / parts[2])
    driver.open(first)
    first.rename(folder / "renamed.gguf")
    with pytest.raises(Refused, match=f"is the first of {count} parts, and its name does not end in -00001-of-0000{count}.gguf"):
        driver.open(folder / "renamed.gguf")
    with pytest.raises(Refused, match="name the file"):
        driver.open(folder)


def test_parts_of_different_models_are_refused(driver, tmp_path):
    parts = write_parts(tmp_path / "model")
    other = write_parts(tmp_path / "other", tensors=5, model=model_of("llama", num_hidden_layers=1))
    assert len(other) < len(parts)
    shutil.copy(tmp_path / "other" / other[1], tmp_path / "model" / parts[1])
    with pytest.raises(Refused, match=rf"{parts[1]}: holds part 2 of {len(other)}, and must hold part 2 of {len(parts)}"):
        driver.open(tmp_path / "model")
    more = write_parts(tmp_path / "biased", tensors=8, model=model_of("llama", attention_bias=True))
    assert len(more) == len(parts)
    shutil.copy(tmp_path / "biased" / more[1], tmp_path / "model" / parts[1])
    with pytest.raises(Refused, match=rf"{parts[1]}: is a part of another model than {parts[0]}"):
        driver.open(tmp_path / "model")


def test_wrong_counts_and_tensors_in_two_parts_are_refused(driver, tmp_path):
    for wrong, message in [("count", r"parts hold 21 tensors, and split.tensors.count is 22"), ("twice", "which a part before it holds, too")]:
        parts = write_parts(tmp_path / wrong)
        for part in parts:
            file = tmp_path / wrong / part
            if wrong == "count":
                key = b"split.tensors.count" + (5).to_bytes(4, "little")
                change(file, key + (21).to_bytes(4, "little"), key + (22).to_bytes(4, "little"))
        if wrong == "twice":
            file = tmp_path / wrong / parts[-1]
            names = [tensor.name for tensor in gguf.GGUFReader(tmp_path / wrong / parts[0]).tensors]
            last = next(tensor.name for tensor in gguf.GGUFReader(file).tensors if tensor.name.startswith("blk.1."))
            twin = next(name for name in names if len(name) == len(last))
            change(file, last.encode(), twin.encode())
        with pytest.raises(Refused, match=message):
            driver.open(tmp_path / wrong)
