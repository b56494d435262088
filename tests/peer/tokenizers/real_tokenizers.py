"""Real tokenizers that packages of the test environment carry, as tokenizer.json files."""

import importlib.util
import json
import shutil
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, normalizers, processors

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = CONTRACTIONS + r"\p{N}{1,3}" + REST
QWEN_PATTERN = CONTRACTIONS + r"\p{N}" + REST


def package(name: str) -> Path:
    return Path(importlib.util.find_spec(name).submodule_search_locations[0])


def from_ranks(file: Path, pattern: str) -> Tokenizer:
    from transformers.convert_slow_tokenizer import TikTokenConverter

    return TikTokenConverter(str(file), pattern=pattern).converted()


def llama3(folder: Path) -> Path:
    tokenizer = from_ranks(package("llama_models") / "llama3/tokenizer.model", LLAMA3_PATTERN)
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    names += [f"<|reserved_special_token_{i}|>" for i in range(251)]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    begin = tokenizer.token_to_id(names[0])
    template = processors.TemplateProcessing(single=f"{names[0]} $A", pair=f"{names[0]} $A {names[0]} $B",
                                             special_tokens=[(names[0], begin)])
    tokenizer.post_processor = processors.Sequence([tokenizer.post_processor, template])
    return saved(tokenizer, folder / "llama3.json")


def qwen(folder: Path) -> Path:
    """As Qwen's own file is: NFC, and no token without its merges."""
    tokenizer = from_ranks(package("dashscope") / "resources/qwen.tiktoken", QWEN_PATTERN)
    tokenizer.normalizer = normalizers.NFC()
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    file = saved(tokenizer, folder / "qwen.json")
    content = json.loads(file.read_text())
    content["model"]["ignore_merges"] = False
    file.write_text(json.dumps(content, ensure_ascii=False))
    return file


def mistral(folder: Path, model: str) -> Path:
    from transformers import LlamaTokenizerFast

    source = folder / f"source-{model}"
    source.mkdir()
    shutil.copy(package("mistral_common") / "data" / model, source / "tokenizer.model")
    out = folder / f"mistral-{model}"
    LlamaTokenizerFast.from_pretrained(str(source)).save_pretrained(str(out))
    return out / "tokenizer.json"


def llama2_style(folder: Path, file: Path) -> Path:
    """The older spelling of the same: normalisers in the place of Metaspace, merges as lines."""
    content = json.loads(file.read_text())
    content["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    content["pre_tokenizer"] = None
    content["model"]["unk_token"] = "<unk>"
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    begin = {"id": "<s>", "ids": [1], "tokens": ["<s>"]}
    special = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    content["post_processor"] = {"type": "TemplateProcessing", "single": [special, text],
                                 "pair": [special, text, special, {"Sequence": {"id": "B", "type_id": 1}}],
                                 "special_tokens": {"<s>": begin}}
    older = folder / "llama2-style.json"
    older.write_text(json.dumps(content, ensure_ascii=False))
    return older


def saved(tokenizer: Tokenizer, file: Path) -> Path:
    tokenizer.save(str(file))
    return file
