"""docs/architecture.md says what the build has, and stays as short as it promises."""

import re
from pathlib import Path

from shell_session import BUILD, ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
SOURCES = (".cpp", ".hpp", ".cu", ".cuh")


def test_who_sees_whom_is_what_the_build_has():
    built = (BUILD / "layers.txt").read_text().split("\n")
    block = re.search(r"compares this list with it\):\n\n```text\n(.*?)```", PAGE, re.S)[1].split("\n")
    words = lambda lines: {line.partition(":")[0].strip(): line.partition(":")[2].split() for line in lines if line.strip()}
    assert words(block) == words(built)


def test_each_layer_has_its_line():
    layers = [line.partition(":")[0] for line in (BUILD / "layers.txt").read_text().split("\n") if line]
    for layer in layers:
        assert re.search(rf"^(src|engine)/{layer} ", PAGE, re.M), layer


def test_the_page_takes_ten_minutes_to_read():
    assert len(PAGE.split()) <= 3000


def test_no_recipe_touches_more_than_ten_files():
    recipes = PAGE.partition("## How to add")[2].partition("\n## ")[0]
    titled = re.split(r"\n(?=\*\*)", recipes)[1:]
    assert len(titled) >= 6
    for recipe in titled:
        files = set(re.findall(r"[\w/]+\.(?:cpp|hpp|cu|md|py)", recipe))
        assert len(files) <= 10, (recipe.split(".")[0], sorted(files))


def test_no_folder_is_crowded():
    for folder in [path for top in ("src", "engine") for path in (ROOT / top).rglob("*") if path.is_dir()]:
        files = [path for path in folder.iterdir() if path.suffix in SOURCES]
        assert len(files) <= 60, folder
