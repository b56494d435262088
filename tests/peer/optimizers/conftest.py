import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from optimizer_driver import OptimizerDriver  # noqa: E402


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    driver = OptimizerDriver(tmp_path_factory.mktemp("optimizers"))
    yield driver
    driver.close()
