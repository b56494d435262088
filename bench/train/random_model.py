"""Folders of models with random weights: a shape, and a tokenizer with as many tokens as the shape has. Its first 256 tokens are the
bytes, the next ends a text, and no text has the others."""

import json
import pathlib


def byte_letters() -> list[str]:
    """What byte-level tokenizers write for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def write_model(folder: pathlib.Path, shape: dict) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    count, end = shape["vocab_size"], "<|endoftext|>"
    words = [*byte_letters(), end, *(f"token{number}" for number in range(257, count))]
    end_id = 256
    (folder / "config.json").write_text(json.dumps(shape | {"bos_token_id": None, "eos_token_id": end_id}))
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [{"id": end_id, "content": end, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                          "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": {word: at for at, word in enumerate(words)}, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end,
                                                              "pad_token": end, "add_bos_token": False}))
    return folder
