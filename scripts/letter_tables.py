"""Writes engine/chat/letter_tables.cpp: Python's own knowledge of letters, as ranges of code points.

    python3 scripts/letter_tables.py > engine/chat/letter_tables.cpp
"""

import sys
import unicodedata

POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def ranges(test):
    """Runs of code points for which test holds, surrogates left out."""
    runs = []
    for point in POINTS:
        if not test(chr(point)):
            continue
        if runs and runs[-1][1] == point - 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return runs


def is_cased(letter):
    return (letter + "a").title()[-1] == "a"


def is_ignored(letter):
    """Whether the rule of the final sigma looks through it."""
    return ("a" + letter + "Σ").lower()[-1] == "ς" and (letter + "Σ").lower()[-1] == "σ"


def steps(convert):
    """[first, last, stride, difference] of the letters that become one other."""
    rows = []
    for point in POINTS:
        other = convert(chr(point))
        if other == chr(point) or len(other) != 1:
            continue
        difference = ord(other) - point
        row = rows[-1] if rows else None
        if row and row[3] == difference and row[1] + row[2] == point:
            row[1] = point
        elif row and row[3] == difference and row[0] == row[1] and point - row[0] <= 2:
            row[1], row[2] = point, point - row[0]
        else:
            rows.append([point, point, 1, difference])
    return rows


def several(convert):
    return [(point, convert(chr(point))) for point in POINTS if len(convert(chr(point))) > 1]


def show(kind, name, rows):
    lines = [f"constexpr {kind} {name}[] = {{"]
    line = "   "
    for row in rows:
        text = " {" + ", ".join(row) + "},"
        if len(line) + len(text) > 118:
            lines.append(line)
            line = "   "
        line += text
    return "\n".join([*lines, line, "};"])


def hexadecimal(number):
    return f"0x{number:X}"


def escaped(text):
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def main():
    parts = []
    for name, test in [
        ("cased", is_cased),
        ("ignored", is_ignored),
        ("unprintable", lambda letter: not letter.isprintable()),
        ("upper_case", str.isupper),
        ("lower_case", str.islower),
        ("alphabetic", str.isalpha),
        ("digits", str.isdigit),
        ("numeric", str.isnumeric),
    ]:
        parts.append(show("Range", name, [[hexadecimal(number) for number in run] for run in ranges(test)]))
    for name, convert in [("to_upper", str.upper), ("to_lower", lambda c: c.lower()), ("to_title", str.title)]:
        rows = [[hexadecimal(row[0]), hexadecimal(row[1]), str(row[2]), str(row[3])] for row in steps(convert)]
        parts.append(show("Step", name, rows))
        rows = [[hexadecimal(point), escaped(text)] for point, text in several(convert)]
        parts.append(show("Several", f"several_{name}", rows))
    tables = "\n\n".join(parts)
    sys.stdout.write(f"""// Made by scripts/letter_tables.py from Python's Unicode {unicodedata.unidata_version}; not to be edited.
#include "chat/letter_tables.hpp"

namespace muster::chat::letter_tables {{
namespace {{

// clang-format off
{tables}
// clang-format on

}}  // namespace

std::span<const Range> cased_ranges() {{ return cased; }}
std::span<const Range> ignored_ranges() {{ return ignored; }}
std::span<const Range> unprintable_ranges() {{ return unprintable; }}
std::span<const Range> upper_case_ranges() {{ return upper_case; }}
std::span<const Range> lower_case_ranges() {{ return lower_case; }}
std::span<const Range> alphabetic_ranges() {{ return alphabetic; }}
std::span<const Range> digit_ranges() {{ return digits; }}
std::span<const Range> numeric_ranges() {{ return numeric; }}
Conversion upper_conversion() {{ return {{to_upper, several_to_upper}}; }}
Conversion lower_conversion() {{ return {{to_lower, several_to_lower}}; }}
Conversion title_conversion() {{ return {{to_title, several_to_title}}; }}

}}  // namespace muster::chat::letter_tables
""")


if __name__ == "__main__":
    main()
