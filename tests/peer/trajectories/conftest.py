import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "command/train"))

from classroom_fixtures import classroom, data_program  # noqa: E402, F401
