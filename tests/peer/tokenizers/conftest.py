import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tokenizer_driver import Driver  # noqa: E402


@pytest.fixture(scope="session")
def driver():
    with Driver() as driver:
        yield driver
