"""What tests of training share: a conftest.py names these fixtures, and they are there."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parents[1] / "peer/logits", HERE.parents[1] / "peer/data", HERE.parents[2] / "bench/train"):
    sys.path.insert(0, str(folder))

from data_driver import DataDriver  # noqa: E402
from train_runs import Classroom  # noqa: E402


@pytest.fixture(scope="session")
def data_program(tmp_path_factory):
    program = DataDriver(tmp_path_factory.mktemp("token-files"))
    yield program
    program.close()


@pytest.fixture(scope="session")
def classroom(tmp_path_factory, data_program):
    return Classroom(tmp_path_factory.mktemp("classroom"), data_program)
