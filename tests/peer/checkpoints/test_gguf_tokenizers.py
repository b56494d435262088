"""The tokenizer.json that muster makes of a GGUF file's metadata, against transformers' tokenizer of the same file."""

import json
import pathlib
import re

import gguf
import pytest
from checkpoint_driver import Refused
from real_model import FILE, FOLDER
from tokenizers import Tokenizer
from transformers import AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[3]
LINES = [
    line
    for name in ["README.md", "docs/architecture.md", "docs/memory-model.md", "src/system/socket.cpp", "LICENSE", "test"]
    for line in (ROOT / name).read_text().splitlines(keepends=True)
] + [
    "Hello, wörld! don't 🙂 12345\n",
    "naïve café — “quotes” … 日本語のテキスト и русский текст العربية",
    "\t\ttabs\r\nand\u00a0no-break  spaces   \n\n\n",
    "<|im_start|>user\nhi<|im_end|>\n",
    "👩‍👩‍👧‍👦 e\u0301 \x00 \u200b",
]


@pytest.fixture(scope="module")
def theirs():
    return AutoTokenizer.from_pretrained(FOLDER, gguf_file=FILE.name)


def ours(driver, file) -> Tokenizer:
    return Tokenizer.from_str(driver.ask(tokenizer_json=str(file))["text"])


def test_smollm2_is_tokenized_as_by_transformers(driver, theirs):
    """Where blanks precede a digit, transformers' reading of the file misses that the model's own pre-tokenizer cuts off
    every digit first, and llama.cpp does so, too: those are compared with that one part taken from ours."""
    tokenizer = ours(driver, FILE)
    assert tokenizer.get_vocab() == theirs.get_vocab()
    assert tokenizer.get_added_tokens_decoder().keys() == theirs.added_tokens_decoder.keys()
    plain = [line for line in LINES if not re.search(r"\s\s\d", line)]
    assert len(plain) > 500
    for line in plain:
        ids = tokenizer.encode(line, add_special_tokens=False).ids
        assert ids == theirs(line, add_special_tokens=False).input_ids, line
    theirs.backend_tokenizer.pre_tokenizer = tokenizer.pre_tokenizer
    for line in LINES:
        ids = tokenizer.encode(line).ids
        assert ids == theirs(line).input_ids, line
        assert tokenizer.decode(ids, skip_special_tokens=False) == line
    assert len(tokenizer.encode("a  12").ids) == 4  # a, two blanks, 1, 2


def test_the_configuration_names_special_tokens_and_template(driver, theirs):
    config = json.loads(driver.ask(tokenizer_config_json=str(FILE))["text"])
    assert config["chat_template"] == theirs.chat_template
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        assert config[name] == getattr(theirs, name)
    assert config["add_bos_token"] is False


def write(path, model, tokens, kinds=None, scores=None, merges=None, pre=None, **values):
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(8)
    writer.add_block_count(1)
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    if kinds is not None:
        writer.add_token_types(kinds)
    if scores is not None:
        writer.add_token_scores(scores)
    if merges is not None:
        writer.add_token_merges(merges)
    if pre:
        writer.add_tokenizer_pre(pre)
    for key, value in values.items():
        key = f"tokenizer.ggml.{key}"
        writer.add_bool(key, value) if isinstance(value, bool) else writer.add_uint32(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def sentencepiece_pieces(file: pathlib.Path):
    """(piece, score, kind) of a SentencePiece model: repeated messages of field 1."""

    def varint(data, at):
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    def fields(data):
        at = 0
        while at < len(data):
            key, at = varint(data, at)
            if key & 7 == 2:
                size, at = varint(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            elif key & 7 == 5:
                yield key >> 3, data[at : at + 4]
                at += 4
            elif key & 7 == 1:
                at += 8
            else:
                value, at = varint(data, at)
                yield key >> 3, value

    import struct

    for number, message in fields(file.read_bytes()):
        if number == 1:
            piece = dict(fields(message))
            yield piece[1].decode(), struct.unpack("<f", piece[2])[0], piece.get(3, 1)


@pytest.mark.parametrize("add_begin", [None, False])
def test_a_real_sentencepiece_vocabulary_is_tokenized_as_by_transformers(driver, tmp_path, add_begin):
    import importlib.util

    folder = pathlib.Path(importlib.util.find_spec("mistral_common").submodule_search_locations[0]) / "data"
    pieces = list(sentencepiece_pieces(sorted(folder.glob("*.model*"))[0]))
    assert len(pieces) >= 32000
    values = {} if add_begin is None else {"add_bos_token": add_begin}
    file = write(
        tmp_path / "m.gguf",
        "llama",
        [piece for piece, _, _ in pieces],
        [kind for _, _, kind in pieces],
        [score for _, score, _ in pieces],
        bos_token_id=1,
        eos_token_id=2,
        unknown_token_id=0,
        **values,
    )
    tokenizer = ours(driver, file)
    assert (1 in tokenizer.encode("x").ids) == (add_begin is None)
    if add_begin is not None:
        return
    theirs = AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    mine, other = (json.loads(t.to_str())["model"] for t in (tokenizer, theirs.backend_tokenizer))
    assert mine["vocab"] == other["vocab"] and mine["merges"] == other["merges"]
    for line in LINES:
        ids = tokenizer.encode(line, add_special_tokens=False).ids
        assert ids == theirs(line, add_special_tokens=False).input_ids, line
        assert tokenizer.decode(ids) == theirs.decode(ids)


BYTES = [chr(c) for c in range(33, 127)] + [chr(c) for c in range(161, 256) if c != 173] + [chr(256 + c) for c in range(68)]


@pytest.mark.parametrize("pre", ["gpt-2", "default", None, "llama-bpe", "llama3", "llama-v3", "qwen2", "tekken", "smollm"])
def test_every_known_pre_tokenizer_word_loads_and_cuts_as_transformers_does(driver, tmp_path, pre):
    merges = ["l l", "h e", "he ll", "hell o", "Ġ hello", "1 2", "12 3", "Ġ Ġ"]
    tokens = BYTES + [merge.replace(" ", "") for merge in merges] + ["<end>", "<tool>", "<｜begin｜>"]
    kinds = [1] * (len(tokens) - 3) + [3, 4, 3]
    file = write(
        tmp_path / "m.gguf", "gpt2", tokens, kinds, None, merges, pre, bos_token_id=len(tokens) - 1, eos_token_id=len(tokens) - 3
    )
    tokenizer = ours(driver, file)
    theirs = AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    assert tokenizer.token_to_id("<｜begin｜>") == len(tokens) - 1
    assert tokenizer.get_vocab_size() == len(tokens)
    if pre != "smollm":
        for line in LINES + ["hello hello 1234 123", "<end><tool>hello<tool>", "e\u0301"]:
            if pre == "qwen2" and "\u0301" in line:
                continue  # Qwen2 composes first
            assert (
                tokenizer.encode(line, add_special_tokens=False).ids == theirs(line, add_special_tokens=False).input_ids
            ), line
    begins = tokenizer.encode("hello").ids[0] == len(tokens) - 1
    assert begins == (pre in ("llama-bpe", "llama3", "llama-v3", "tekken"))
    assert tokenizer.encode("<tool>x<end>").special_tokens_mask[-1] == 0


def test_words_and_models_that_are_not_known_are_refused_by_name(driver, tmp_path):
    with pytest.raises(Refused, match=r'tokenizer.ggml.pre "wonder" is not known(.|\n)*known: default, gpt-2, llama-bpe'):
        ours(driver, write(tmp_path / "a.gguf", "gpt2", BYTES, merges=["a b"], pre="wonder"))
    with pytest.raises(Refused, match='tokenizer.ggml.model "bert" is not known'):
        ours(driver, write(tmp_path / "b.gguf", "bert", BYTES))


def test_damaged_vocabularies_are_refused_with_the_key(driver, tmp_path):
    def refused(text, *arguments, **values):
        with pytest.raises(Refused, match=text):
            ours(driver, write(tmp_path / "m.gguf", *arguments, **values))

    refused("tokenizer.ggml.tokens: has \"a\" twice", "gpt2", ["a", "a"], merges=["a a"])
    refused("eos_token_id: is 300, and there are 256 tokens", "gpt2", BYTES, merges=["a b"], eos_token_id=300)
    refused("token_type: has 2 whole numbers for 256 tokens", "gpt2", BYTES, [1, 1], merges=["a b"])
    refused("token_type: of token 0 is 9", "gpt2", BYTES, [9] * 256, merges=["a b"])
    refused("scores: has 1 numbers for 256 tokens", "llama", BYTES, None, [0.5])
    refused("merges has \"a b\", which does not make a token", "gpt2", BYTES, merges=["a b"])
    refused("merges has \"ab\", which does not make a token", "gpt2", BYTES + ["ab"], merges=["ab"])
    refused("scores and tokenizer.ggml.merges are missing", "llama", BYTES)
    refused("scores holds something that is not a number", "llama", BYTES, None, [float("nan")] * 256)
