"""What pages and comments refer to is there: files, and the tests that prove the claims of docs/security.md."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "bench/README.md"]
FOLDERS = ("apps", "bench", "cmake", "docs", "engine", "examples", "python", "scripts", "src", "testing", "tests")
SOURCES = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.is_file()]
NAMES = {file.name for file in SOURCES}
CODE = r"(?:hpp|cpp|cu|cuh)"
PATH = re.compile(rf"(?<![\w./~$<*-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w|(?<![\w./~$<*-])[\w./-]+\.{CODE}\b")


def is_there(path: str) -> bool:
    if "/" not in path:
        return path in NAMES
    if re.search(rf"\.{CODE}$", path):
        return any(str(file).endswith(f"/{path}") for file in SOURCES)
    return (ROOT / path).exists() or (ROOT / f"{path}.cpp").exists()  # a program is named as it is built


def missing_paths(text: str) -> list[str]:
    return [word for word in PATH.findall(text) if not is_there(word)]


def test_files_that_pages_name_are_there():
    missing = [
        f"{page.relative_to(ROOT)}:{number}: {path}"
        for page in PAGES
        for number, line in enumerate(page.read_text().splitlines(), 1)
        for path in missing_paths(line)
    ]
    assert not missing, "\n".join(missing)


def comments(file: Path):
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if found := re.search(r"//.*", line):
            yield number, found[0]


def test_sources_that_comments_name_are_there():
    named = re.compile(rf"[\w./-]+\.{CODE}\b")
    files = [file for folder in ("src", "engine", "apps") for file in (ROOT / folder).rglob("*") if re.fullmatch(CODE, file.suffix[1:])]
    assert len(files) > 500
    missing = [
        f"{file.relative_to(ROOT)}:{number}: {path}"
        for file in files
        for number, comment in comments(file)
        for path in named.findall(comment)
        if not is_there(path)
    ]
    assert not missing, "\n".join(missing)


def cases_of_units() -> set[str]:
    """Suite.Test of every C++ test."""
    return {
        f"{suite}.{test}"
        for file in (ROOT / "tests/unit").rglob("*.cpp")
        for suite, test in re.findall(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", file.read_text(), re.MULTILINE)
    }


def named_tests(row: str):
    """The names in the last column of a row; `::test` is of the file named before it."""
    file = ""
    for name in re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1]):
        if "::" in name:
            file = name.split("::")[0] or file
            name = f"{file}::{name.split('::')[1]}"
        yield name


def proves(name: str, units: set[str]) -> bool:
    if ".py" in name:
        file, _, test = name.partition("::")
        path = ROOT / "tests/command" / file
        return path.is_file() and (not test or f"def {test}(" in path.read_text())
    if name.endswith("_fuzz"):
        return (ROOT / "tests/fuzz" / f"{name}.cpp").is_file()
    if name.endswith(".*"):
        return any(unit.startswith(name[:-1]) for unit in units)
    return name in units


def test_tests_that_prove_claims_about_security_are_there():
    units = cases_of_units()
    assert len(units) > 1000
    rows = [line for line in (ROOT / "docs/security.md").read_text().splitlines() if re.match(r"\| (?!claim|---)", line)]
    named = [name for row in rows for name in named_tests(row)]
    assert len(rows) > 20 and len(named) >= len(rows), "every claim has a test"
    assert [name for name in named if not proves(name, units)] == []


def test_a_reference_to_nothing_is_seen():
    assert missing_paths("see docs/leases.md, tensor/row_ops.hpp and files.hpp") == []
    assert missing_paths("see docs/lease.md, base/shortage.hpp and apart.hpp") == ["docs/lease.md", "base/shortage.hpp", "apart.hpp"]
    assert not proves("two_users/test_two_users.py::test_of_nothing", set()) and not proves("Files.OfNothing", {"Files.A"})
    assert list(named_tests("| a | `a.py::test_b`, `::test_c` |")) == ["a.py::test_b", "a.py::test_c"]
