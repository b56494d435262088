import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

from fake_tree import FakeTree  # noqa: E402


@pytest.fixture
def tree(tmp_path):
    fake = FakeTree(tmp_path)
    yield fake
    fake.end_build()
