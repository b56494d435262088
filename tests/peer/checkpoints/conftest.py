import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from checkpoint_driver import Driver  # noqa: E402


@pytest.fixture
def driver(tmp_path):
    with Driver(tmp_path) as driver:
        yield driver
