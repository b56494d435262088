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


PART_OF_CTEST = """<testsuite><testcase name="some_tests.Part1Of2" status="{}">
  <properties><property name="cmake_labels" value="part"/></properties>{}</testcase></testsuite>"""
PART_PASSED, PART_FAILED = PART_OF_CTEST.format("run", ""), PART_OF_CTEST.format("fail", '<failure message="Failed"/>')

TESTS_OF_PART = """<testsuites><testsuite name="Selection">
  <testcase name="Good" status="run" result="completed"/>
  <testcase name="Better" status="run" result="completed"/>
  <testcase name="Skipped" status="run" result="skipped"><skipped message="no GPU"/></testcase>
  <testcase name="DISABLED_Test" status="notrun" result="suppressed"/>
  <testcase name="Bad" status="run" result="completed">{}</testcase>
</testsuite></testsuites>"""


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


@pytest.mark.parametrize(("of_ctest", "of_part", "totals"), [
    (PART_PASSED, TESTS_OF_PART.format(""), (3, 0)),
    (PART_FAILED, TESTS_OF_PART.format('<failure message="Expected equality"/>'), (2, 1)),
    (PART_FAILED, TESTS_OF_PART.format(""), (3, 1)),  # it crashed after its last test
    (PART_FAILED, None, (0, 1)),
    (PART_PASSED, None, (0, 1)),
    (PART_PASSED, "<testsuites/>", (0, 1)),
    (PART_FAILED, "<testsuites><testca", (0, 1)),
])  # fmt: skip
def test_tests_that_shared_a_process_are_counted_one_by_one(tmp_path, monkeypatch, summarize, of_ctest, of_part, totals):
    monkeypatch.setattr(summarize_tests, "PARTS", tmp_path)
    if of_part is not None:
        (tmp_path / "some_tests.Part1Of2.xml").write_text(of_part)
    status, lines = summarize(("native", totals[1], of_ctest))
    assert lines[-1] == f"{totals[0]} passed, {totals[1]} failed"
    assert status == (totals[1] > 0)


def test_no_suite_at_all_is_no_success(summarize):
    assert summarize()[0] == 1
