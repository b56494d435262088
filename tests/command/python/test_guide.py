import pytest
from guide_snippets import SNIPPETS
from machine import python_output


@pytest.mark.parametrize("name", SNIPPETS)
def test_the_snippet_of_the_guide_runs_and_prints_what_it_says(machine, name):
    code, stdin, expected = SNIPPETS[name]
    machine.has_a100s(8, used=[1234])
    lines = [line.removeprefix("Enter GPU IDs (comma-separated): ") for line in python_output(code, stdin).splitlines()]
    for line in expected:
        assert line in lines
