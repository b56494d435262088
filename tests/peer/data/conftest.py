import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tokenizers"))

from data_driver import DataDriver  # noqa: E402


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    program = DataDriver(tmp_path_factory.mktemp("data"))
    yield program
    program.close()
