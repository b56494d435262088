"""Adds up JUnit files and prints "N passed, N failed" as the last line.

summarize_tests.py [--filtered] [NAME STATUS JUNIT_FILE]...

STATUS is the exit status of the suite's runner. A skipped or disabled test counts as neither. A suite that could not run (no
file, no test in it, a failed status that no test explains) counts as one failure and is named. --filtered: only some tests were
asked for, so a suite may hold none. Exit status 0 only where something passed and nothing failed.

A test that ctest has labelled "part" is a process of many tests; build/engine/test-parts/NAME.xml says what became of each. Where it
failed without saying which of them did, or wrote nothing, it counts as one failure itself.
"""

import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

# What pytest returns when it found no test.
PYTEST_FOUND_NONE = 5
PARTS = Path("build/engine/test-parts")


@dataclass
class Totals:
    passed: int = 0
    failed: int = 0
    problems: list[str] = field(default_factory=list)


def outcome(case: ElementTree.Element) -> str:
    """One of "passed", "failed", "skipped"."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.get("status") == "disabled":
        return "skipped"
    if case.get("result") == "suppressed":  # what GoogleTest says of a disabled test
        return "skipped"
    skipped = case.find("skipped")
    if skipped is not None:
        # ctest writes a test whose program is missing as skipped as well; only SKIP_... messages are the test's own choice.
        if case.get("status") == "notrun" and not skipped.get("message", "").startswith("SKIP_"):
            return "failed"
        return "skipped"
    return "passed"


def is_part(case: ElementTree.Element) -> bool:
    return any(one.get("name") == "cmake_labels" and one.get("value") == "part" for one in case.iter("property"))


def verdicts(case: ElementTree.Element) -> list[str]:
    """Of a test, or of the tests that ran in one process with it."""
    own = outcome(case)
    if not is_part(case):
        return [own]
    try:
        found = [outcome(one) for one in ElementTree.parse(PARTS / f"{case.get('name')}.xml").getroot().iter("testcase")]
    except (OSError, ElementTree.ParseError):
        return ["failed"]
    return found if found and (own == "passed" or "failed" in found) else [*found, "failed"]


def read_suite(name: str, status: int, file: Path, filtered: bool) -> Totals:
    totals = Totals()

    def add_problem(text: str) -> None:
        totals.failed += 1
        totals.problems.append(f"{name}: {text}")

    try:
        cases = list(ElementTree.parse(file).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as problem:
        add_problem(f"did not run (exit status {status}, no readable results: {problem})")
        return totals
    for case in cases:
        found = verdicts(case)
        totals.passed += found.count("passed")
        totals.failed += found.count("failed")
    if not cases and not filtered:
        add_problem(f"did not run (exit status {status}, no test in {file})")
    elif status != 0 and totals.failed == 0 and not (not cases and status == PYTEST_FOUND_NONE):
        add_problem(f"ended with exit status {status}, though no test failed")
    return totals


def main(arguments: list[str]) -> int:
    filtered = arguments[:1] == ["--filtered"]
    rest = arguments[1:] if filtered else arguments
    if len(rest) % 3 != 0:
        print("usage: summarize_tests.py [--filtered] [NAME STATUS JUNIT_FILE]...", file=sys.stderr)
        return 2
    suites = [
        read_suite(name, int(status), Path(file), filtered)
        for name, status, file in zip(rest[0::3], rest[1::3], rest[2::3])
    ]
    for suite in suites:
        for problem in suite.problems:
            print(problem)
    passed = sum(suite.passed for suite in suites)
    failed = sum(suite.failed for suite in suites)
    if passed == 0 and failed == 0:
        print("no test ran: the filter matches none" if filtered else "no test ran")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed > 0 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
