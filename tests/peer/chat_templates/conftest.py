import pytest
from transformers.utils import chat_template_utils

from template_driver import FixedClock, TemplateDriver


@pytest.fixture(scope="module")
def driver():
    program = TemplateDriver()
    yield program
    program.close()


@pytest.fixture(autouse=True)
def fixed_clock(monkeypatch):
    """strftime_now of the original at the time that muster is told."""
    monkeypatch.setattr(chat_template_utils, "datetime", FixedClock)
