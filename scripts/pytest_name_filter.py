"""A pytest plugin: keeps the tests whose name matches one of the regular expressions of --name, as ctest -R does."""

import re


def pytest_addoption(parser):
    parser.addoption("--name", action="append", default=[], metavar="EXPRESSION", help="run only tests matching this")


def pytest_collection_modifyitems(config, items):
    expressions = [re.compile(expression) for expression in config.getoption("--name")]
    if not expressions:
        return
    kept = [item for item in items if any(expression.search(item.nodeid) for expression in expressions)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
