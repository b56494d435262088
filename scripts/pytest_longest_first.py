"""A pytest plugin: files of tests in the order of what they took the last time, the longest first.

Where several processes take file after file (pytest-xdist, --dist loadfile --no-loadscope-reorder), none is left alone with a
long one at the end. A file that is not known yet counts a second for each of its tests.
"""

import collections
import contextlib
import pathlib
import xml.etree.ElementTree

import pytest


def pytest_addoption(parser):
    parser.addoption("--times", metavar="FILE", help="what --junitxml wrote of an earlier run; it need not be there")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    known = seconds_of(config.getoption("--times")) if config.getoption("--times") else {}
    counts = collections.Counter(file_of(item) for item in items)
    items.sort(key=lambda item: (-known.get(file_of(item), counts[file_of(item)]), file_of(item)))


def file_of(item) -> str:
    return item.nodeid.partition("::")[0]


def seconds_of(file: str) -> dict[str, float]:
    """By the path of the file that the tests are in."""
    seconds = collections.Counter()
    with contextlib.suppress(OSError, xml.etree.ElementTree.ParseError):
        for case in xml.etree.ElementTree.parse(file).iter("testcase"):
            names = case.get("classname", "").split(".")
            while names and not names[-1].startswith("test_"):  # classes of the file
                names.pop()
            seconds[str(pathlib.PurePath(*names)) + ".py"] += float(case.get("time", 0))
    return seconds
