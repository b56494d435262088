import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from worker_jobs import Controller, Job  # noqa: E402


@pytest.fixture
def start():
    """Starts jobs, and ends those that a test leaves."""
    jobs = []

    def start_job(**options) -> Job:
        jobs.append(Job(**options))
        return jobs[-1]

    yield start_job
    for job in jobs:
        job.end()


@pytest.fixture
def controller():
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:  # the path of a socket must be short
        yield Controller(Path(folder))
