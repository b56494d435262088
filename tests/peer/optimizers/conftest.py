import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from optimizer_driver import OptimizerDriver  # noqa: E402


@pytest.fixture
def driver(tmp_path):
    driver = OptimizerDriver(tmp_path)
    yield driver
    driver.close()
