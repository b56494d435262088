"""What muster's checker calls equal and different, against math-verify (sympy) over some thousand pairs."""

import functools
import logging

import answer_pairs
import math_verify
import pytest

PAIRS = 2400

# Where math-verify says that equal answers differ.
JUDGED = {
    ("i", r"\sqrt{-1}"): "it looks for complex numbers in each text by itself",
    ("3 + 4i", "(2+i)^2"): "it does not multiply out",
    ("x > 3", "2x > 6"): "it does not divide inequalities",
    ("1 < x < 2", "2 > x > 1"): "it does not turn chains round",
}


@functools.lru_cache(maxsize=None)
def read(text):
    return math_verify.parse(f"${text}$", parsing_timeout=None)


def is_equal(right, given):
    return math_verify.verify(read(right), read(given), timeout_seconds=None)


@pytest.mark.limit(1200)
def test_verdicts_agree(driver):
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    pairs = answer_pairs.answer_pairs(PAIRS)
    assert len(set(pairs)) > 2000
    decided, disagreements, false_equal, unknown = 0, [], [], []
    for kind, right, given in pairs:
        verdict = driver.verdict(right, given)
        if verdict == "unknown":
            unknown.append((kind, right, given))
            continue
        decided += 1
        theirs = is_equal(right, given)
        if (verdict == "equal") == theirs or (right, given) in JUDGED:
            continue
        disagreements.append(f"{kind}: {right} | {given}: {verdict}")
        if verdict == "equal":
            false_equal.append(disagreements[-1])
    listed = "\n".join(disagreements)
    print(f"{len(pairs)} pairs, {decided} decided, {len(disagreements)} otherwise than math-verify, {len(unknown)} unknown\n{listed}")
    print("\n".join(map(str, unknown)))
    assert false_equal == []
    assert len(disagreements) <= 0.01 * decided, listed
    assert len(unknown) <= 0.02 * len(pairs), unknown


@pytest.mark.parametrize("text", [r"So the answer is $\boxed{\frac{3}{4}}$.", "The final answer is $0.75$. I hope it is correct.", "Answer: 3/4",
                                  "it follows that $x = 0.75$", "We get $1 - 0.25 = 0.75$"])
def test_answers_are_found_in_the_same_texts(driver, text):
    assert math_verify.verify(math_verify.parse(r"$\frac{3}{4}$", parsing_timeout=None), math_verify.parse(text, parsing_timeout=None), timeout_seconds=None)
    assert driver.verdict_of_text(r"$\frac{3}{4}$", text) == "equal"
    assert driver.verdict_of_text(r"$\frac{3}{5}$", text) == "different"
