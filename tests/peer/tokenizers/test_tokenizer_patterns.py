"""Regular expressions: the same matches as the tokenizers library finds, which reads them as Oniguruma does."""

import pytest
from tokenizers import Regex, pre_tokenizers

from sample_texts import Texts
from tokenizer_driver import Refused

PATTERNS = [
    r"\s+", r"\S+", r"\w+", r"\W", r"\d", r"\D+", r"\h+", r"\H", r"\p{L}+", r"\P{L}", r"\p{^N}+", r"\p{Lu}\p{Ll}*", r"\p{M}", r"\p{Han}+",
    r"\p{Hiragana}|\p{Katakana}+", r"\p{Greek}", r"\p{Cyrillic}+", r"\p{Latin}+", r"\p{Letter}", r"\p{Sc}|\p{Sm}", r"[[:alpha:]]+",
    r"[[:alnum:]]", r"[[:punct:]]", r"[^[:space:]]+", r"[[:^digit:]]+", r"[a-zA-Z_][a-zA-Z_0-9]*", r"[^\s\p{L}\p{N}]+", r"[\p{L}&&[^a-z]]+",
    r"[a-z&&[aeiou]&&[^e]]", r"[\]\[\-^]", r"[a\-z]", r"[-a]", r"[a-]", r"\x41|\x{1F642}|\u00e9", r"\t|\n|\r|\f|\v|\e|\a", r"\.\*\+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"(?i:[a-f]+)", r"(?i)the|OF", r"a(?i)b|c", r"(?i:K)", r"(?i:σ)", r"(?i:é)", r"(?i:[^a-z])", r"(?-i:a)",
    r"a|b|ab", r"ab|a", r"(?:a|ab)(?:c|bcd)?", r"(a)(b)?", r"(?<name>x)", r"a(?#a comment)b", r"a*", r"a+?", r"a??", r"a*+a", r"a++", r"a?+",
    r"\d{2}", r"\d{2,}", r"\d{,3}", r"\d{1,3}", r"\d{2,3}?", r"\d{2}?", r"\d{1,2}+", r"(?:\d{3})+", r"a{", r"a{x}", r"x{,}", r"\p{N}{1,3}(?=(?:\p{N}{3})*\b)",
    r"(?=a)", r"(?!a).", r"(?<=a)b", r"(?<!a)b", r"(?>a+)b", r"^.", r".$", r"^", r"$", r"\A.", r".\z", r".\Z", r"\b", r"\B", r"\bthe\b", r".", r"(?m:.)", r"(?m)a.b",
    r"\R", r"\s+(?!\S)", r"\s*[\r\n]+", r"[^\r\n]+", r"[\u4e00-\u9fff]", r"[一-龥぀-ゟ゠-ヿ]+", r"", r"|a", r"(?:)", r"}", r"]", r"\-\#\ ", r"(?:a|b)*?c", r"[ab]{2}*",
]
REFUSED = {
    r"(a)\1": r"\1", r"\k<n>": r"\k", r"\X": r"\X", r"\G": r"\G", r"a\Kb": r"\K", r"(?(1)a)": "(?(", r"(?x: a)": "(?x", r"[]a]": "empty class",
    r"(a": "without its", r"a)": "without its", r"[a": "without its", r"*a": "repeats nothing", r"a\\"[:-1]: "at the end", r"\p{Klingon}": "Klingon",
    r"(?i:straße)": "ß", r"(?i:ss)": "ß", r"(?~ab)": "(?~", r"(*FAIL)": "(*", r"[z-a]": "range", r"\pL": r"\p",
    "a" + "{2}" * 40: "too many", "a" * 5_000: "more than 4096", r"(?<=a*)b": "", "(" * 300 + ")" * 300: "deep", r"(?:a{1,60000}){1,60000}": "",
}


@pytest.fixture(scope="module")
def texts():
    drawn = Texts(11).texts(250) + ["", "a", "aa", "ab\nab\n", "aXbXc", "the THE The ſ 'S 'ſ K K k σς Σ É é", "12345 123 1", "a{ a{x} x{,} }]",
                                    "\r\n\n\r a\u2028b\x85c", "x x", "\n", "a\n", "\na"]
    return [text[:400] for text in drawn]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_matches_are_those_of_the_library(driver, texts, pattern):
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    stretches = driver.ask(split=pattern, texts=texts)["stretches"]
    for text, row in zip(texts, stretches, strict=True):
        coded = text.encode()
        ours = [coded[begin:end].decode() for begin, end, _ in row if end > begin]
        assert ours == [piece for piece, _ in split.pre_tokenize_str(text)], f"{pattern} on {text!r}"


@pytest.mark.parametrize("pattern", PATTERNS[:12])
def test_what_matches_is_told_from_what_lies_between(driver, texts, pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    stretches = driver.ask(split=pattern, texts=texts)["stretches"]
    for text, row in zip(texts, stretches, strict=True):
        coded = text.encode()
        ours = [coded[begin:end].decode() for begin, end, matches in row if end > begin and not matches]
        assert ours == [piece for piece, _ in split.pre_tokenize_str(text)], f"{pattern} on {text!r}"


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_not_built_is_refused_by_name(driver, pattern):
    with pytest.raises(Refused) as refusal:
        driver.ask(split=pattern, texts=[])
    assert REFUSED[pattern] in str(refusal.value)
    assert "cannot be used" in str(refusal.value)


@pytest.mark.parametrize("pattern, text", [(r"(?:a+)+b", "a" * 40), (r"(?:a|aa)+$", "a" * 60 + "b"), (r"(?:\w+\s?)*!", "word " * 40)])
def test_a_pattern_without_end_is_given_up(driver, pattern, text):
    """Where PCRE2 finds a short way, its answer is right; else the search says that it gave up. It never hangs."""
    try:
        stretches = driver.ask(split=pattern, texts=[text])["stretches"]
    except Refused as refusal:
        assert "cannot be matched" in str(refusal)
    else:
        assert stretches == [[[0, len(text), False]]]


def test_a_search_from_every_place_of_a_long_text_is_given_up_or_ends(driver):
    """No match, and each place looks at all that follows: quadratic."""
    try:
        stretches = driver.ask(split=r"a*b", texts=["a" * 60_000])["stretches"]
    except Refused as refusal:
        assert "cannot be matched" in str(refusal)
    else:
        assert stretches == [[[0, 60_000, False]]]
