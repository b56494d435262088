import pathlib

import pytest
from generate_runs import Generate


@pytest.fixture
def generate(tmp_path: pathlib.Path) -> Generate:
    return Generate(tmp_path)


@pytest.fixture
def scripted(generate: Generate) -> Generate:
    """With a model whose weights nobody reads, answered by a script."""
    generate.model()
    generate.script()
    return generate
