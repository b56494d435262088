import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from packed_weight_driver import PackedWeightDriver  # noqa: E402


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    driver = PackedWeightDriver(tmp_path_factory.mktemp("packed_weights"))
    yield driver
    driver.close()
