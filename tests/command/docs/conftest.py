import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from shell_session import Shell  # noqa: E402


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    session = Shell(tmp_path_factory.mktemp("pages"))
    yield session
    session.close()
