"""Waiting for facts, with patience for a busy machine."""

import time


def until(condition, seconds: float = 120):
    """The first true value of condition(); an AssertionError when there is none for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError("it did not happen")
