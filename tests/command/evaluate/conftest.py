import pathlib
import shutil

import pytest
from evaluate_runs import Evaluate, make_taught_model


@pytest.fixture(scope="session")
def taught_model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make_taught_model(tmp_path_factory.mktemp("taught") / "model")


@pytest.fixture
def evaluate(tmp_path: pathlib.Path, taught_model: pathlib.Path) -> Evaluate:
    shutil.copytree(taught_model, tmp_path / "model")
    return Evaluate(tmp_path)
