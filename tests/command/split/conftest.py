import pathlib

import pytest
from split_models import FAMILIES, Generate, make_model

PROMPTS = ["The capital of France", "Grüße", "def f(x): return {'a': x}[0] and then some more of it", "1", "世界 don't you're 12345",
           *(f"{i} bottles of beer on the wall" for i in range(9))]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """With small models of all families, and prompts."""
    folder = tmp_path_factory.mktemp("split")
    for name, config in FAMILIES.items():
        make_model(folder, name, config)
    Generate(folder).prompts("p.txt", *PROMPTS)
    return folder


@pytest.fixture
def generate(folder: pathlib.Path) -> Generate:
    return Generate(folder)
