"""Folders of transformers whose linear layers are quantised by a test."""

import json

import torch
from safetensors.torch import load_file, save_file


def save_quantised(folder, model, quantise, settings) -> dict[str, torch.Tensor]:
    """The model with the linear layers of its blocks as `quantise` makes them: from a weight, and its name, to parts by
    name. All tensors as they are saved."""
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.startswith("model.layers.") and tensors[name].ndim == 2]:
        weight = tensors.pop(name)
        tensors.update({name.removesuffix("weight") + part: value.contiguous() for part, value in quantise(weight).items()})
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = settings
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


def parts_of(tensors, name) -> dict[str, torch.Tensor]:
    return {key.removeprefix(f"{name}."): tensor for key, tensor in tensors.items() if key.startswith(f"{name}.")}


def layers_of(tensors) -> list[str]:
    """Names of the quantised layers."""
    ends = (".weight_packed", ".weight_scale", ".qweight")
    return sorted({key.rsplit(".", 1)[0] for key in tensors if key.endswith(ends)})


def check_slices(driver, name, whole, same_bits):
    """Parts of a matrix in float32, at its edges and within."""
    rows, columns = whole.shape
    for row, count, column, width in [(0, rows, 5, 3), (3, 5, 0, columns), (rows - 1, 1, columns - 1, 1), (7, 29, 31, 70), (1, 40, 33, 1)]:
        got = driver.read(name, torch.float32, (count, width), rows=(row, count), columns=(column, width))
        assert same_bits(got, whole[row : row + count, column : column + width].contiguous())


def save_with(folder, tensors, name, value) -> None:
    """The checkpoint with another tensor of that name; without it, where the value is None."""
    others = {key: tensor for key, tensor in tensors.items() if key != name}
    save_file(others if value is None else others | {name: value}, folder / "model.safetensors", {"format": "pt"})
