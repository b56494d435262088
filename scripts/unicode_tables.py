"""Writes engine/tokenizer/unicode_tables.cpp: unicode_tables.py [--check].

What counts is what the installed `tokenizers` library does with each code point, so the library itself is asked: its regular
expressions, its own character tests, its lower-casing and its normal forms, each of which follows a Unicode version of its
own. With --check nothing is written; the exit status is 1 where the file differs.
"""

import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

DESTINATION = Path(__file__).resolve().parent.parent / "engine" / "tokenizer" / "unicode_tables.cpp"
POINTS = [p for p in range(0x110000) if not 0xD800 <= p <= 0xDFFF]
EVERY = "".join(map(chr, POINTS))

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
# Name in the table, pattern that asks the library for it.
PATTERN_CLASSES = {"word": r"\w", "space": r"\s", "digit": r"\d", "xdigit": r"\h", "alpha": r"[[:alpha:]]",
                   "blank": r"[[:blank:]]", "punct": r"[[:punct:]]"}
SCRIPTS = ("Arabic Armenian Bengali Bopomofo Common Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul "
           "Hebrew Hiragana Inherited Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Sinhala Tamil Telugu Thai "
           "Tibetan").split()
SEPARATOR = "\n"  # a starter that neither composes, decomposes nor has another case


def matching(pattern: str) -> set[int]:
    """The code points a pattern of one character matches."""
    rest = set(map(ord, normalizers.Replace(Regex(pattern), "").normalize_str(EVERY)))
    return {p for p in POINTS if p not in rest}


def ranges(members: set[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for point in sorted(members):
        # No text holds a surrogate, so that a range may run across them.
        if found and (found[-1][1] + 1 == point or (found[-1][1] == 0xD7FF and point == 0xE000)):
            found[-1] = (found[-1][0], point)
        else:
            found.append((point, point))
    return found


def mapped(normalizer) -> dict[int, str]:
    """What a normaliser makes of each code point alone, where that is something else."""
    points = [p for p in POINTS if chr(p) != SEPARATOR]
    texts = normalizer.normalize_str(SEPARATOR.join(map(chr, points))).split(SEPARATOR)
    assert len(texts) == len(points)
    return {p: text for p, text in zip(points, texts) if text != chr(p)}


def all_mapped(normalizer, texts: list[str]) -> list[str]:
    results = normalizer.normalize_str(SEPARATOR.join(texts)).split(SEPARATOR)
    assert len(results) == len(texts)
    return results


def numeric() -> set[int]:
    """char::is_numeric, as the pre-tokenizer Digits uses it."""
    members: set[int] = set()
    pieces = pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str(EVERY)
    for index, (text, _) in enumerate(pieces):
        if index % 2 == 1:  # runs alternate; the first is none of digits
            members.update(map(ord, text))
    assert ord("7") in members and 0 not in members
    return members


def stripped() -> set[int]:
    """char::is_whitespace, as the normaliser Strip uses it."""
    strip = normalizers.Strip()
    return {p for p in POINTS if not strip.normalize_str(chr(p))}


def added_token_classes() -> tuple[set[int], set[int]]:
    """White space and word characters around added tokens."""
    def recognised(text: str, **options) -> dict[int, int]:
        tokenizer = Tokenizer(models.BPE({"?": 0}, [], unk_token="?"))
        tokenizer.add_tokens([AddedToken("<t>", normalized=False, **options)])
        token = tokenizer.token_to_id("<t>")
        encoding = tokenizer.encode(text, add_special_tokens=False)
        return {start: end for id, (start, end) in zip(encoding.ids, encoding.offsets) if id == token}

    after = recognised("".join("<t>" + chr(p) for p in POINTS), rstrip=True)
    spaces = {p for i, p in enumerate(POINTS) if after[4 * i] == 4 * i + 4}
    alone = recognised("".join(chr(p) + "<t> " for p in POINTS), single_word=True)
    words = {p for i, p in enumerate(POINTS) if 5 * i + 1 not in alone}
    return spaces, words


def combining_classes() -> dict[int, int]:
    """Places in the canonical order. Which of two marks goes first tells which class is lower."""
    nfd = normalizers.NFD()
    low, high = "\u0334", "\u0345"  # overlays: class 1, iota subscript: class 240
    above_low = all_mapped(nfd, ["a" + chr(p) + low if chr(p) != SEPARATOR else "a" for p in POINTS])
    below_high = all_mapped(nfd, ["a" + high + chr(p) if chr(p) != SEPARATOR else "a" for p in POINTS])
    decomposed = set(mapped(nfd))
    marks = [p for p, up, down in zip(POINTS, above_low, below_high)
             if p not in decomposed and (up == "a" + low + chr(p) or down == "a" + chr(p) + high) and chr(p) not in low]
    marks += [ord(low), ord(high)]
    marks = sorted(set(marks))
    # Sorted by insertion among one representative of each class.
    classes: list[list[int]] = []

    def order(left: int, right: int) -> int:
        if nfd.normalize_str("a" + chr(left) + chr(right)) != "a" + chr(left) + chr(right):
            return 1  # left goes after right
        if nfd.normalize_str("a" + chr(right) + chr(left)) != "a" + chr(right) + chr(left):
            return -1
        return 0

    for mark in marks:
        first, last = 0, len(classes)
        while first < last:
            middle = (first + last) // 2
            comparison = order(mark, classes[middle][0])
            if comparison == 0:
                classes[middle].append(mark)
                break
            if comparison > 0:
                first = middle + 1
            else:
                last = middle
        else:
            classes.insert(first, [mark])
    return {mark: place + 1 for place, members in enumerate(classes) for mark in members}


def is_hangul(point: int) -> bool:
    return 0xAC00 <= point < 0xAC00 + 11172


def decompositions() -> tuple[list[tuple[int, str, bool]], list[tuple[int, str]]]:
    """Canonical ones, one step at a time and with whether the step is undone by composition; compatibility ones, whole."""
    canonical, compatible = mapped(normalizers.NFD()), mapped(normalizers.NFKD())
    nfc = normalizers.NFC()
    composed = {text: p for p, text in canonical.items() if nfc.normalize_str(text) == chr(p)}
    steps = []
    for point, text in sorted(canonical.items()):
        if is_hangul(point):
            continue
        first = composed.get(text[:-1])
        step = chr(first) + text[-1] if len(text) > 2 and first is not None else text
        undone = len(step) == 2 and nfc.normalize_str(step) == chr(point)
        steps.append((point, step, undone))
    whole = [(p, text) for p, text in sorted(compatible.items()) if not is_hangul(p) and canonical.get(p) != text]
    return steps, whole


def case_groups(lower: dict[int, str]) -> list[list[int]]:
    """Characters that stand for each other where case does not count, as the library's patterns see it."""
    partner: dict[int, set[int]] = {}
    for point in POINTS:
        character = chr(point)
        for other in (character.lower(), character.upper(), character.casefold(), lower.get(point, character)):
            if len(other) == 1 and other != character:
                partner.setdefault(point, set()).add(ord(other))
                partner.setdefault(ord(other), set()).add(point)
    candidates = sorted(partner)
    text = SEPARATOR.join(map(chr, candidates))
    groups: dict[int, list[int]] = {}
    for point in candidates:
        rest = normalizers.Replace(Regex(f"(?i:\\x{{{point:X}}})"), "").normalize_str(text).split(SEPARATOR)
        members = [p for p, left in zip(candidates, rest) if not left]
        if len(members) > 1:
            groups[point] = members
    for point, members in groups.items():
        assert all(groups[member] == members for member in members), hex(point)
    return sorted({tuple(members) for members in groups.values()})


def wrapped(items: list[str], indent: str = "    ") -> str:
    lines, line = [], indent
    for item in items:
        if len(line) + len(item) + 2 > 118:
            lines.append(line.rstrip())
            line = indent
        line += item + ", "
    return "\n".join(lines + [line.rstrip()])


def range_table(name: str, members: set[int]) -> str:
    items = [f"{{{first:#x}, {last:#x}}}" for first, last in ranges(members)]
    return f"constexpr CodePointRange {name}[] = {{\n{wrapped(items)}}};\n"


def category_table() -> str:
    category = [len(CATEGORIES) - 1] * 0x110000
    for index, name in enumerate(CATEGORIES[:-1]):
        for point in matching(rf"\p{{{name}}}"):
            assert category[point] == len(CATEGORIES) - 1
            category[point] = index
    items, previous = [], None
    for point in POINTS:
        if category[point] != previous:
            items.append(f"{{{point:#x}, {category[point]}}}")
            previous = category[point]
    return f"constexpr CategoryRun category_runs[] = {{\n{wrapped(items)}}};\n"


def lower_table(lower: dict[int, str]) -> str:
    """Runs of the same distance; a run takes every code point or every second one."""
    single = {p: ord(text) for p, text in lower.items() if len(text) == 1}
    runs: list[list[int]] = []  # first, last, step, lower of the first
    for point, target in sorted(single.items()):
        if runs and target - point == runs[-1][3] - runs[-1][0]:
            first, last, step, _ = runs[-1]
            if (last == first and point - last in (1, 2)) or (last > first and point - last == step):
                runs[-1][1], runs[-1][2] = point, point - last
                continue
        runs.append([point, point, 1, target])
    items = [f"{{{first:#x}, {last:#x}, {step}, {target:#x}}}" for first, last, step, target in runs]
    text = f"constexpr LowerRun lower_runs[] = {{\n{wrapped(items)}}};\n"
    longer = {p: t for p, t in lower.items() if len(t) > 1}
    assert longer == {0x130: "i\u0307"}, longer
    return text


def numbers(name: str, values: list[int]) -> str:
    return f"constexpr char32_t {name}[] = {{\n{wrapped([f'{value:#x}' for value in values])}}};\n"


def mark_table() -> str:
    marks = combining_classes()
    items, previous = [], None
    for point in sorted(marks):
        if previous and previous[1] + 1 == point and previous[2] == marks[point]:
            previous[1] = point
            items[-1] = f"{{{previous[0]:#x}, {point:#x}, {previous[2]}}}"
        else:
            previous = [point, point, marks[point]]
            items.append(f"{{{point:#x}, {point:#x}, {marks[point]}}}")
    return f"constexpr MarkRun mark_runs[] = {{\n{wrapped(items)}}};\n"


def decomposition_tables() -> str:
    steps, whole = decompositions()
    canonical, compatible = [], []
    for point, step, undone in steps:
        canonical += [point, len(step) | (0x100 if undone else 0), *map(ord, step)]
    for point, text in whole:
        compatible += [point, len(text), *map(ord, text)]
    return numbers("canonical_steps", canonical) + numbers("compatible_texts", compatible)


def fold_tables(lower: dict[int, str]) -> str:
    groups, several = [], []
    for members in case_groups(lower):
        groups += [len(members), *members]
    for point in POINTS:
        folded = chr(point).casefold()
        if len(folded) > 1:
            several += [point, len(folded), *map(ord, folded)]
    return numbers("case_groups", groups) + numbers("case_sequences", several)


def check_derived_classes() -> None:
    """Classes that character_class.cpp makes of others."""
    assert matching(r"[[:alnum:]]") == matching(r"[[:alpha:]]") | matching(r"\d")
    assert matching(r"[[:cntrl:]]") == matching(r"\p{Cc}")
    assert matching(r"[[:xdigit:]]") == matching(r"\h")
    assert matching(r"[[:space:]]") == matching(r"\s")
    assert matching(r"[[:digit:]]") == matching(r"\d")
    assert matching(r"\p{L}") == matching(r"[\p{Lu}\p{Ll}\p{Lt}\p{Lm}\p{Lo}]")


def generate() -> str:
    check_derived_classes()
    lower = mapped(normalizers.Lowercase())
    spaces, words = added_token_classes()
    parts = ["// Made by scripts/unicode_tables.py from what the tokenizers library does with each code point. Do not edit.\n"
             "// clang-format off\n"
             '#include "tokenizer/unicode_tables.hpp"\n\nnamespace muster::tokenizer::tables {\nnamespace {\n\n']
    parts.append(category_table())
    named = []
    for name, pattern in PATTERN_CLASSES.items():
        parts.append(range_table(f"class_{name}", matching(pattern)))
        named.append(f'{{"{name}", class_{name}}}')
    scripts = []
    for name in SCRIPTS:
        parts.append(range_table(f"script_{name.lower()}", matching(rf"\p{{{name}}}")))
        scripts.append(f'{{"{name.lower()}", script_{name.lower()}}}')
    parts.append(range_table("numeric_points", numeric()))
    parts.append(range_table("strippable_points", stripped()))
    parts.append(range_table("token_space_points", spaces))
    parts.append(range_table("token_word_points", words))
    parts += [lower_table(lower), mark_table(), decomposition_tables(), fold_tables(lower)]
    parts.append(f"constexpr NamedRanges pattern_class_list[] = {{\n{wrapped(named)}}};\n")
    parts.append(f"constexpr NamedRanges script_list[] = {{\n{wrapped(scripts)}}};\n")
    parts.append("\n}  // namespace\n\n")
    for kind, name, source in (
            ("CategoryRun", "categories", "category_runs"), ("NamedRanges", "pattern_classes", "pattern_class_list"),
            ("NamedRanges", "scripts", "script_list"), ("CodePointRange", "numeric", "numeric_points"),
            ("CodePointRange", "strippable", "strippable_points"), ("CodePointRange", "token_space", "token_space_points"),
            ("CodePointRange", "token_word", "token_word_points"), ("LowerRun", "lower", "lower_runs"),
            ("MarkRun", "marks", "mark_runs"), ("char32_t", "canonical", "canonical_steps"),
            ("char32_t", "compatible", "compatible_texts"), ("char32_t", "same_case", "case_groups"),
            ("char32_t", "long_case", "case_sequences")):
        parts.append(f"const std::span<const {kind}> {name}{{{source}}};\n")
    parts.append("\n}  // namespace muster::tokenizer::tables\n")
    return "".join(parts)


def main() -> int:
    text = generate()
    if sys.argv[1:] == ["--check"]:
        same = DESTINATION.read_text() == text
        print("the tables are those of the installed library" if same else
              f"{DESTINATION} differs from what the installed library does: run scripts/unicode_tables.py")
        return 0 if same else 1
    DESTINATION.write_text(text)
    print(f"{DESTINATION}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
