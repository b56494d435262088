"""The byte tokenizer's files, as transformers reads them."""

import json

import pytest
from hypothesis import given, settings, strategies
from transformers import AutoTokenizer, PreTrainedTokenizerFast

BEGIN, END, PADDING = 256, 257, 258


@pytest.fixture(scope="module")
def folder(driver, tmp_path_factory):
    folder = tmp_path_factory.mktemp("byte-tokenizer")
    assert driver.order(write_byte_tokenizer=str(folder)) == {}
    return folder


@pytest.fixture(scope="module")
def peer(folder):
    return AutoTokenizer.from_pretrained(folder)


def test_transformers_loads_the_files_beside_any_model_config(folder, peer, tmp_path):
    assert PreTrainedTokenizerFast.from_pretrained(folder).get_vocab() == peer.get_vocab()
    assert (peer.bos_token_id, peer.eos_token_id, peer.pad_token_id, len(peer)) == (BEGIN, END, PADDING, 259)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}))
    beside = AutoTokenizer.from_pretrained(tmp_path)
    assert beside("12+34=").input_ids == [BEGIN, *b"12+34="]
    assert beside.decode([*b"46", END], skip_special_tokens=True) == "46"


@settings(max_examples=200, deadline=None)
@given(text=strategies.text())
def test_every_text_is_its_bytes_and_comes_back(peer, text):
    if "<|" in text:  # written special tokens are tokens
        return
    ids = peer(text).input_ids
    assert ids == [BEGIN, *text.encode()]
    assert peer.decode(ids, skip_special_tokens=True) == text


def test_muster_and_transformers_give_the_same_tokens(driver, folder, peer):
    texts = ["12+34=", " leading", "Grüße, 世界 👩‍🚀\n\ttab", "a<|end|>b", "<|begin|>", "\x00\x7f é"]
    for model in ("bytes", folder):
        samples = driver.prepare(model, [{"text": text} for text in texts])["samples"]
        for text, sample in zip(texts, samples, strict=True):
            assert sample["tokens"] == peer(text).input_ids + [END]
