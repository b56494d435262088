"""scripts/summarize_tests.py: the totals and the exit status of ./test."""

import pytest
import summarize_tests

CTEST_REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="6" failures="1" disabled="1" skipped="3">
  <testcase name="good" status="run"><properties/><system-out></system-out></testcase>
  <testcase name="bad" status="fail"><failure message="Failed"/><system-out>out</system-out></testcase>
  <testcase name="program is missing" status="notrun"><skipped message="Unable to find executable"/></testcase>
  <testcase name="skips" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
  <testcase name="skips by code" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
  <testcase name="disabled" status="disabled"><system-out>Disabled</system-out></testcase>
</testsuite>
"""

PYTEST_REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5">
  <testcase classname="a" name="one"/>
  <testcase classname="a" name="two"/>
  <testcase classname="a" name="skipped"><skipped type="pytest.skip" message="not here"/></testcase>
  <testcase classname="a" name="failed"><failure message="assert"/></testcase>
  <testcase classname="a" name="broken fixture"><error message="setup"/></testcase>
</testsuite></testsuites>
"""

GOOD_REPORT = '<testsuite><testcase name="one" status="run"/><testcase name="two" status="run"/></testsuite>'
EMPTY_REPORT = '<testsuite tests="0"/>'


@pytest.fixture
def summarize(tmp_path, capsys):
    """Writes each (name, status, report or None) to a file, and returns the exit status and the printed lines."""

    def run(*suites, filtered=False):
        arguments = ["--filtered"] if filtered else []
        for index, (name, status, report) in enumerate(suites):
            file = tmp_path / f"{index}.xml"
            if report is not None:
                file.write_text(report)
            arguments += [name, str(status), str(file)]
        status = summarize_tests.main(arguments)
        return status, capsys.readouterr().out.splitlines()

    return run


def test_totals_are_summed_over_all_suites(summarize):
    status, lines = summarize(("native", 8, CTEST_REPORT), ("python", 1, PYTEST_REPORT))
    assert lines == ["3 passed, 4 failed"]
    assert status == 1


def test_only_passed_tests_mean_success(summarize):
    assert summarize(("native", 0, GOOD_REPORT), ("python", 0, GOOD_REPORT)) == (0, ["4 passed, 0 failed"])


@pytest.mark.parametrize("report", [None, "", "<testsuite><testcase", EMPTY_REPORT])
def test_a_suite_that_did_not_run_counts_as_failed_and_is_named(summarize, report):
    status, lines = summarize(("native", 0, GOOD_REPORT), ("python tests", 2, report))
    assert status == 1
    assert lines[-1] == "2 passed, 1 failed"
    assert lines[0].startswith("python tests: did not run")


def test_a_runner_that_fails_without_a_failed_test_counts_as_failed(summarize):
    status, lines = summarize(("native", 139, GOOD_REPORT))
    assert status == 1
    assert lines == ["native: ended with exit status 139, though no test failed", "2 passed, 1 failed"]


def test_a_filter_may_leave_a_suite_empty(summarize):
    result = summarize(("native", 0, GOOD_REPORT), ("python", 5, EMPTY_REPORT), filtered=True)
    assert result == (0, ["2 passed, 0 failed"])


def test_a_filter_that_matches_nothing_is_no_success(summarize):
    status, lines = summarize(("native", 0, EMPTY_REPORT), ("python", 5, EMPTY_REPORT), filtered=True)
    assert status == 1
    assert lines[-1] == "0 passed, 0 failed"


def test_no_suite_at_all_is_no_success(summarize):
    assert summarize()[0] == 1
