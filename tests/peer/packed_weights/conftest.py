import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from packed_weight_driver import PackedWeightDriver  # noqa: E402


@pytest.fixture
def driver(tmp_path):
    driver = PackedWeightDriver(tmp_path)
    yield driver
    driver.close()
