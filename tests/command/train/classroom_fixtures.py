"""What tests of training share: a conftest.py names these fixtures, and they are there."""

import fcntl
import os
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


@pytest.fixture(scope="session")
def halfway(tmp_path_factory, data_program):
    """A classroom with builtin:llama-0.6m-halfway in its cache, which takes half a minute: made once for all processes of the tests.
    said.txt is what muster said of that."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all of them
    folder /= "halfway"
    folder.mkdir(exist_ok=True)
    classroom = Classroom(folder, data_program)
    said = folder / "said.txt"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            said.write_text(classroom.train("builtin:llama-0.6m-halfway", "builtin:arithmetic", max_steps=1, **{"data.held_out": 0}).text)
    return classroom
