"""Messages read as a native speaker would write them: the turns of phrase that crept in before stay out."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [file for folder in ("src", "engine", "apps") for file in (ROOT / folder).rglob("*") if file.suffix in (".cpp", ".hpp", ".cu")]
TEXT = re.compile(r'"((?:[^"\\]|\\.)+)"')
# What is written instead: "is not a", "resumed" or "continued", "again", "invalid".
REFUSED = re.compile(r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b)|\bgone on with\b|\banew\b|\bno valid\b|\bis not told\b")


def test_messages_have_no_refused_turn_of_phrase():
    assert len(SOURCES) > 500
    found = [
        f"{file.relative_to(ROOT)}:{number}: {text}"
        for file in SOURCES
        for number, line in enumerate(file.read_text().splitlines(), 1)
        for text in TEXT.findall(line.split(" // ")[0] if not line.lstrip().startswith("//") else "")
        if REFUSED.search(text)
    ]
    assert not found, "\n".join(found)


def test_no_comment_begins_with_a_bare_of():
    folders = ("src", "engine", "apps", "python", "bench", "scripts", "cmake", "tests", "testing")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in (".cpp", ".hpp", ".cu", ".py", ".cmake", ".sh")]
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(r"(?://|#) Of ", line)
    ]
    assert not found, "\n".join(found)


def test_a_refused_turn_of_phrase_is_seen():
    assert REFUSED.search("{} is no list") and REFUSED.search("what is gone on with") and REFUSED.search("no valid JSON")
    assert not REFUSED.search("there is no file") and not REFUSED.search("it is no longer there")
