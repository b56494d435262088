"""Writes a model of transformers as a GGUF file: its metadata by transformers' own table of keys, its tensors as zeros."""

import struct
from pathlib import Path

from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

U32, TEXT, ARRAY, FLOAT32 = 4, 8, 9, 6
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2), "Q8_0": (8, 32, 34)}  # number, elements, bytes
PARTS = {
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "q_norm": "attn_q_norm", "k_norm": "attn_k_norm",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "c_attn": "attn_qkv", "c_fc": "ffn_up",
}  # fmt: skip


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def metadata_of(config) -> dict:
    """GGUF's key → value, by the table that transformers reads GGUF files with."""
    family = config.model_type
    keys = {}
    for key, name in GGUF_CONFIG_MAPPING[family].items():
        value = getattr(config, name, None) if name else None
        if isinstance(value, int) and not isinstance(value, bool):
            keys[f"{family}.{key}"] = value
    if family == "gpt2":
        keys["gpt2.context_length"] = config.n_positions  # the table names n_ctx, which is no longer written
        keys["gpt2.feed_forward_length"] = config.n_inner or 4 * config.n_embd
    else:
        keys[f"{family}.attention.key_length"] = config.head_dim
    keys.pop(f"{family}.vocab_size", None)  # the length of the list of tokens tells it
    return keys


def gguf_name(name: str) -> str:
    """model.layers.3.self_attn.q_proj.weight → blk.3.attn_q.weight"""
    *path, kind = name.split(".")
    number = next((part for part in path if part.isdigit()), None)
    part = path[-1]
    if part == "c_proj":
        part = "attn_output" if path[-2] == "attn" else "ffn_down"
    else:
        part = PARTS[part]
    return f"blk.{number}.{part}.{kind}" if number else f"{part}.{kind}"


def write(path: Path, model, config, matrices: str) -> int:
    """Matrices in the named type, vectors in F32. Returns the bytes of all tensors."""
    values = text("general.architecture") + struct.pack("<I", TEXT) + text(config.model_type)
    metadata = metadata_of(config)
    for key, value in metadata.items():
        values += text(key) + struct.pack("<II", U32, value)
    tokens = b"".join(text(f"token {i}") for i in range(config.vocab_size))
    values += text("tokenizer.ggml.tokens") + struct.pack("<IIQ", ARRAY, TEXT, config.vocab_size) + tokens
    scores = struct.pack(f"<{config.vocab_size}f", *[0.0] * config.vocab_size)
    values += text("tokenizer.ggml.scores") + struct.pack("<IIQ", ARRAY, FLOAT32, config.vocab_size) + scores
    infos, offset, total, count = b"", 0, 0, 0
    for name, tensor in model.named_parameters():
        sizes = list(tensor.shape)
        if config.model_type == "gpt2" and len(sizes) == 2 and ".h." in name:
            sizes.reverse()  # Conv1D stores inputs first, GGUF outputs
        number, elements, size = TYPES[matrices if len(sizes) == 2 else "F32"]
        length = tensor.numel() // elements * size
        infos += text(gguf_name(name)) + struct.pack("<I", len(sizes))
        infos += struct.pack(f"<{len(sizes)}Q", *reversed(sizes)) + struct.pack("<IQ", number, offset)
        offset += -(-length // 32) * 32
        total += length
        count += 1
    header = b"GGUF" + struct.pack("<IQQ", 3, count, len(metadata) + 3) + values + infos
    header += bytes(-len(header) % 32)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + offset)
    return total
