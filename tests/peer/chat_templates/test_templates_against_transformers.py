"""Real templates and conversations of every kind: the text and the generated spans are transformers' own."""

import importlib.util
import pathlib

import pytest

from conversations import variables_of_every_kind
from known_templates import KNOWN
from smollm import template_of_smollm2
from template_driver import check_like_transformers


def templates_of_trl():
    folder = pathlib.Path(importlib.util.find_spec("trl").submodule_search_locations[0]) / "chat_templates"
    return {f"trl/{file.stem}": file.read_text() for file in sorted(folder.glob("*.jinja"))}


TEMPLATES = {**templates_of_trl(), **KNOWN, "SmolLM2": template_of_smollm2()}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_real_template_renders_as_in_transformers(driver, name):
    orders = [(what, TEMPLATES[name], variables) for what, variables in variables_of_every_kind()]
    assert check_like_transformers(driver, orders) > 0


def test_there_are_many_templates():
    assert len(TEMPLATES) >= 80
