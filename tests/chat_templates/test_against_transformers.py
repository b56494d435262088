"""Real templates and conversations of every kind: the text and the generated spans are transformers' own."""

import importlib.util
import pathlib

import pytest

from conversations import variables_of_every_kind
from known_templates import KNOWN
from template_speaker import render_with_transformers


def templates_of_trl():
    folder = pathlib.Path(importlib.util.find_spec("trl").submodule_search_locations[0]) / "chat_templates"
    return {f"trl/{file.stem}": file.read_text() for file in sorted(folder.glob("*.jinja"))}


TEMPLATES = {**templates_of_trl(), **KNOWN}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_real_template_renders_as_in_transformers(speaker, name):
    template = TEMPLATES[name]
    rendered = refused = 0
    for what, variables in variables_of_every_kind():
        try:
            expected = render_with_transformers(template, variables)
        except Exception as failure:  # whatever Python raises, the template has failed
            expected = None
            reason = failure
        got = speaker(template, variables)
        if expected is None:
            assert "error" in got, f"{what}: transformers fails with {reason!r}, muster renders {got}"
            refused += 1
        else:
            assert got == expected, what
            rendered += 1
    assert rendered > 0


def test_there_are_many_templates():
    assert len(TEMPLATES) >= 80
