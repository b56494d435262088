"""What a tokenizer.json holds beyond what is built is refused by name, never skipped."""

import copy
import json

import pytest

from tokenizer_driver import Refused

SMALL = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": 3, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"String": "x"}, "content": "y"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": False},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                       "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
    "decoder": {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
              "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
}


def changed(path: str, value) -> str:
    content = copy.deepcopy(SMALL)
    place = content
    *folders, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    for key in folders:
        place = place[key]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return json.dumps(content)


# Where, what stands there, a word of the refusal.
REFUSALS = [
    ("truncation", {"max_length": 5}, "truncation"), ("padding", {"strategy": "BatchLongest"}, "padding"), ("version", "2.0", "version"),
    ("extra", 1, '"extra" is not known'), ("model/type", "Unigram", '"Unigram" is not built'), ("model/type", "WordPiece", "WordPiece"),
    ("model/extra", 1, "extra"), ("model/dropout", 0.1, "dropout"), ("model/continuing_subword_prefix", "##", "continuing_subword_prefix"),
    ("model/end_of_word_suffix", "</w>", "end_of_word_suffix"), ("model/unk_token", "<unk>", "<unk>"), ("model/fuse_unk", "yes", "fuse_unk"),
    ("model/vocab", KeyError, "vocab"), ("model/vocab", [["a", 0.5]], "vocab"), ("model/merges", KeyError, "merges"), ("model/vocab", {"a": -1}, '\\"a\\"'),
    ("model/vocab", {"a": 1e9}, '\\"a\\"'), ("model/vocab", {"a": 99999999}, '\\"a\\"'), ("model/vocab", {"a": 0, "b": 0}, "twice"), ("model/merges", ["a"], "entry 1"),
    ("model/merges", ["a b c"], "entry 1"), ("model/merges", [["a", "b", "c"]], "entry 1"), ("model/merges", [1], "entry"),
    ("model/merges", [["a", "c"]], "not in the vocabulary"), ("model/merges", [["b", "a"]], "not in the vocabulary"), ("model", 5, "an object"), ("model", KeyError, "model"),
    ("normalizer/type", "Precompiled", "Precompiled"), ("normalizer/normalizers/0/type", "BertNormalizer", "normalizers[0]"),
    ("normalizer/normalizers/0/extra", 1, "extra"), ("normalizer/normalizers/1/pattern", {"Glob": "*"}, "Glob"),
    ("normalizer/normalizers/1/content", KeyError, "content"), ("pre_tokenizer/type", "BertPreTokenizer", "BertPreTokenizer"),
    ("pre_tokenizer/pretokenizers/0/behavior", "Sideways", "Sideways"), ("pre_tokenizer/pretokenizers/0/invert", KeyError, "invert"),
    ("pre_tokenizer/pretokenizers/0/pattern", {"Regex": "(a)\\1"}, "pretokenizers[0]"), ("pre_tokenizer/pretokenizers/1/replacement", "ab", "one character"),
    ("pre_tokenizer/pretokenizers/1/prepend_scheme", "sometimes", "sometimes"), ("pre_tokenizer/pretokenizers/1/add_prefix_space", False, "prepend_scheme"),
    ("post_processor/type", "Magic", "Magic"), ("post_processor/single", [], "leaves the text out"),
    ("post_processor/single/0/SpecialToken/id", "<x>", "<x>"), ("post_processor/special_tokens", {}, "<s>"), ("post_processor/single/1/Sequence/id", "B", "once"),
    ("post_processor/special_tokens/<s>/ids", [77], "the id 77"), ("normalizer/normalizers", [{"type": "NFC"}] * 65, "64 steps"),
    ("pre_tokenizer/pretokenizers", [{"type": "Digits", "individual_digits": True}] * 65, "64 steps"),
    ("decoder", {"type": "Sequence", "decoders": [{"type": "Fuse"}] * 65}, "64 steps"), ("decoder/type", "CTC", "CTC"), ("decoder/start", -1, "start"), ("decoder/extra", None, "extra"), ("added_tokens/0/id", 7, "the id 7"),
    ("added_tokens/0/content", "", "content"), ("added_tokens/0/special", KeyError, "special"), ("added_tokens/0/shiny", True, "shiny"), ("added_tokens", {}, "a list"),
]


def write(folder, text):
    file = folder / "tokenizer.json"
    file.write_text(text)
    return file


def test_the_file_that_the_refusals_start_from_is_accepted(driver, tmp_path):
    assert driver.load(write(tmp_path, json.dumps(SMALL))) == 4
    assert driver.load(tmp_path) == 4  # the folder will do


@pytest.mark.parametrize("path, value, word", REFUSALS)
def test_what_is_not_built_is_refused_by_name(driver, tmp_path, path, value, word):
    with pytest.raises(Refused) as refusal:
        driver.load(write(tmp_path, changed(path, value)))
    assert word.replace('\\"', '"') in str(refusal.value)
    assert "tokenizer.json" in str(refusal.value)


def test_all_problems_are_told_at_once(driver, tmp_path):
    content = json.loads(changed("decoder/type", "CTC"))
    content["normalizer"] = {"type": "Nmt"}
    with pytest.raises(Refused) as refusal:
        driver.load(write(tmp_path, json.dumps(content)))
    assert "CTC" in str(refusal.value) and "Nmt" in str(refusal.value)


@pytest.mark.parametrize("text, word", [("", "JSON"), ("[]", "object"), ("{", "JSON"), ('{"a": 1, "a": 2}', "twice"), ("[" * 100, "deeper"), ('{"model": {"vocab": {}, "vocab": {}}}', "twice"),
                                        ('{"model": {"vocab": {"a": 0, "a": 1}}}', "twice"), ('{"model": 1e999}', "JSON"), ('{"\\ud800": 1}', "JSON")])
def test_what_is_no_such_file_is_refused_with_the_reason(driver, tmp_path, text, word):
    with pytest.raises(Refused) as refusal:
        driver.load(write(tmp_path, text))
    assert word in str(refusal.value)


def test_a_folder_without_the_file_and_a_missing_file_are_named(driver, tmp_path):
    with pytest.raises(Refused, match="has no tokenizer.json"):
        driver.load(tmp_path)
    with pytest.raises(Refused, match="nothing.json"):
        driver.load(tmp_path / "nothing.json")


DOUBLING = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 60


def test_a_text_that_grows_without_bound_is_given_up(driver, tmp_path):
    driver.load(write(tmp_path, changed("normalizer/normalizers", DOUBLING)))
    assert len(driver.encode(["b"], False)[0]) == 1
    with pytest.raises(Refused, match="makes more than"):
        driver.encode(["a"], False)


def test_an_added_token_that_grows_without_bound_is_refused(driver, tmp_path):
    content = json.loads(changed("normalizer/normalizers", DOUBLING))
    content["added_tokens"][0].update(content="<a>", normalized=True)
    content["post_processor"] = None
    with pytest.raises(Refused, match="makes more than"):
        driver.load(write(tmp_path, json.dumps(content)))
