"""Letters in the other case, and what is printable, as Python has them."""

import pathlib
import unicodedata

TABLES = pathlib.Path(__file__).resolve().parents[3] / "engine/chat/letter_tables.cpp"


def code_points():
    """All of them where this Python knows the Unicode of the tables, else those that no version has changed."""
    same = f"Unicode {unicodedata.unidata_version};" in TABLES.read_text()
    return [point for point in range(1, 0x110000 if same else 0x250) if not 0xD800 <= point < 0xE000]


def test_every_letter_has_the_other_case_that_python_gives_it(driver):
    letters = [chr(point) for point in code_points()]
    template = "{% for c in cs %}{{ c.upper() }}|{{ c.lower() }}|{{ c.title() }}|{{ c.capitalize() }}|{{ c.isalpha() }}{{ c.isdigit() }}{{ c.isspace() }}{{ c.isupper() }}{{ c.islower() }}{{ c.isprintable() }}\x00{% endfor %}"
    checked = 0
    for begin in range(0, len(letters), 50000):
        part = [letter for letter in letters[begin : begin + 50000] if letter.isprintable() or letter.isspace() or ord(letter) < 0x3000]
        if not part:
            continue
        text = driver(template, {"cs": part})["text"].split("\x00")
        for letter, told in zip(part, text):
            flags = [letter.isalpha(), letter.isdigit(), letter.isspace(), letter.isupper(), letter.islower(), letter.isprintable()]
            assert told == f"{letter.upper()}|{letter.lower()}|{letter.title()}|{letter.capitalize()}|{''.join(map(str, flags))}", hex(ord(letter))
            checked += 1
    assert checked > 500
