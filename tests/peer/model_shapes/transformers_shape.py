"""What transformers makes of a config.json, in shape_dump's words: the module tree on the meta device, no memory."""

import json
from pathlib import Path

import torch
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification,
                          AutoModelForTokenClassification)


def model_on_meta(config, dtype: torch.dtype):
    named = (config.architectures or [""])[0]
    kind = (AutoModelForSequenceClassification if "ForSequence" in named
            else AutoModelForTokenClassification if "ForToken" in named else AutoModelForCausalLM)
    with torch.device("meta"):
        model = kind.from_config(config, dtype=dtype)
    model.tie_weights()
    return model


def read_config(path: Path):
    """As from_pretrained reads it, but for the look at the hub."""
    values = json.loads(Path(path).read_text())
    return AutoConfig.for_model(values.pop("model_type"), **values)


def word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def tensors_of(model) -> list:
    """Parameters and buffers in the order of their modules, each module's parameters before its buffers."""
    rows, first_names = [], {}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        for name, tensor in module._parameters.items():
            if tensor is None:
                continue
            row = {"path": prefix + name, "sizes": list(tensor.shape), "type": word(tensor.dtype), "kind": "parameter"}
            first = first_names.setdefault(id(tensor), prefix + name)
            if first != prefix + name:
                row["same_as"] = first
            rows.append(row)
        for name, tensor in module._buffers.items():
            kind = "derived" if name in module._non_persistent_buffers_set else "buffer"
            rows.append({"path": prefix + name, "sizes": list(tensor.shape), "type": word(tensor.dtype), "kind": kind})
    return rows


def window_of(config) -> tuple:
    """The sliding window and which layers slide; all of them where the configuration does not tell them apart."""
    window = getattr(config, "sliding_window", None) if config.model_type != "llama" else None
    types = getattr(config, "layer_types", None) if config.model_type in ("qwen2", "qwen3") else None
    if window is None or types is None:
        return window, []
    return window, [kind == "sliding_attention" for kind in types]


def config_of(config, model) -> dict:
    """The numbers, from the configuration and, where modules know better, from them."""
    gpt2 = config.model_type == "gpt2"
    block = model.transformer.h[0] if gpt2 else model.model.layers[0]
    attention = block.attn if gpt2 else block.self_attn
    window, sliding = window_of(config)
    return {
        "family": config.model_type,
        "vocabulary": config.vocab_size,
        "hidden": config.hidden_size,
        "intermediate": (block.mlp.c_fc.weight.shape[1] if gpt2 else block.mlp.up_proj.weight.shape[0]),
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_attention_heads if gpt2 else config.num_key_value_heads,
        "head_size": attention.head_dim,
        "positions": config.max_position_embeddings,
        "tied": config.tie_word_embeddings and hasattr(model, "lm_head"),
        "dtype": word(config.dtype) if config.dtype is not None else None,
        "sliding_window": window,
        "sliding_layers": sliding,
        "dropout": [config.embd_pdrop, config.attn_pdrop, config.resid_pdrop]
        if gpt2
        else [0.0, config.attention_dropout or 0.0, 0.0],
    }


def describe(path: Path, dtype: torch.dtype) -> dict:
    config = read_config(path)
    stored = config.dtype
    model = model_on_meta(config, dtype)
    config.dtype = stored  # from_config writes the asked one into it
    return {
        "config": config_of(config, model),
        "modules": [[name, type(module).__name__] for name, module in model.named_modules()],
        "tensors": tensors_of(model),
        "whole_classes": list(type(model)._no_split_modules),
        "parameters": model.num_parameters(),
    }
