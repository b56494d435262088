import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tokenizer_speaker import Speaker  # noqa: E402


@pytest.fixture(scope="session")
def speaker():
    with Speaker() as speaker:
        yield speaker
