import re
from pathlib import Path

import pytest
from machine import python_output

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


PROMISE = r"#\s+(Available.*|GPU 0.*|cuda:\d|4,5|\[0, 1\]|rank 0 of 1|0\.5 \{.*\}|0 None|True layer_split|0|muster plan .*|\{'?0.*\}|\d+)$"


@pytest.mark.parametrize("number", range(7))
def test_the_page_shows_programs_that_run_and_print_what_it_says(machine, number, tmp_path):
    assert len(BLOCKS) == 7
    machine.has_a100s(8, used=[1234])
    output = python_output(BLOCKS[number], cwd=tmp_path).splitlines()
    for promise in re.findall(PROMISE, BLOCKS[number], re.MULTILINE):
        assert promise in output


def test_the_page_tells_every_function():
    import muster

    page = PAGE.read_text()
    for name in set(muster.__all__) - {"HeldGpus", "__version__", "distributed"}:
        assert f"`{name}(" in page or f"muster.{name}" in page
