import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reward_driver import RewardDriver  # noqa: E402


@pytest.fixture(scope="session")
def driver():
    program = RewardDriver()
    yield program
    program.close()
