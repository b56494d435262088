"""What is known of each code point is what the installed library knows. The tables as a whole are compared by
scripts/unicode_tables.py --check, which takes a minute."""

import json

import pytest
from tokenizers import Regex, normalizers, pre_tokenizers

from sample_texts import Texts

EVERY = "".join(chr(p) for p in range(0x110000) if not 0xD800 <= p <= 0xDFFF)
CLASSES = [r"\p{L}", r"\p{N}", r"\s", r"\w", r"\d", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Lu}", r"\p{Ll}", r"\p{Lo}", r"\p{Han}",
           r"[[:punct:]]", r"[[:alpha:]]", r"\p{Cn}"]


@pytest.mark.parametrize("pattern", CLASSES)
def test_a_class_holds_the_code_points_that_the_library_sees_in_it(driver, pattern):
    rest = normalizers.Replace(Regex(pattern), "").normalize_str(EVERY)
    coded = EVERY.encode()
    (stretches,) = driver.ask(split=pattern + "+", texts=[EVERY])["stretches"]
    assert b"".join(coded[begin:end] for begin, end, matches in stretches if not matches).decode() == rest


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD", "Lowercase"])
def test_a_normal_form_is_that_of_the_library(driver, form):
    """Every code point among its neighbours, and marks in every order behind characters that take them in."""
    drawn = Texts(22)
    marks = "\u0301\u0323\u0300\u0308\u0345\u093c\u05bc\u3099\u1161\u11a8\u11a7\u0338\u0327"
    texts = [EVERY] + ["".join(drawn.random.choice([drawn.character(), drawn.random.choice(marks), drawn.random.choice("aeEoкが가\u1100")])
                               for _ in range(60)) for _ in range(1_000)]
    ours = driver.ask(normalize=form, texts=texts)["texts"]
    normalizer = getattr(normalizers, form)()
    for text, mine in zip(texts, ours, strict=True):
        assert mine == normalizer.normalize_str(text)


def test_digits_are_those_of_the_library(driver, tmp_path):
    """In the text of a tokenizer that knows every code point as one word or another."""
    content = {"model": {"type": "BPE", "vocab": {"none": 0}, "merges": [], "unk_token": "none", "fuse_unk": True},
               "pre_tokenizer": {"type": "Digits", "individual_digits": False}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    driver.load(tmp_path)
    digits = pre_tokenizers.Digits(individual_digits=False)
    texts = ["a" + EVERY[i:i + 16] for i in range(0, len(EVERY), 16)]
    counts = [len(ids) for ids in driver.encode(texts, False)]
    assert counts == [len(digits.pre_tokenize_str(text)) for text in texts]
