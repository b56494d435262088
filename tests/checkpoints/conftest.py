import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from checkpoint_speaker import Speaker  # noqa: E402


@pytest.fixture
def speaker(tmp_path):
    with Speaker(tmp_path) as speaker:
        yield speaker
