"""./test: which suites run, what reaches them, and the last line."""

import sys

import pytest
from fake_tree import set_age, write_command

FAKE_CTEST = """#!/usr/bin/env bash
echo "ctest $*" >>"$FAKE_CALLS"
while [[ $1 != --output-junit ]]; do shift; done
echo '<testsuite><testcase name="native" status="run"/></testsuite>' >"$2"
compgen -e | { while read -r name; do echo "reached ctest: $name"; done; }
"""

PYTHON_TESTS = """
import os

def test_good():
    pass

def test_other():
    leaked = [name for name in os.environ if name.startswith("MUSTER_") or name == "CUDA_VISIBLE_DEVICES"]
    assert leaked == []
"""


@pytest.fixture
def suites(tree):
    """A tree that is set up, with one native and two Python tests."""
    write_command(tree.root / "scripts/setup.sh", "#!/usr/bin/env bash\nexit ${FAKE_SETUP_STATUS:-0}\n")
    write_command(tree.commands / "ctest", FAKE_CTEST)
    environment = tree.root / ".muster/venv/bin"
    environment.mkdir(parents=True)
    write_command(
        environment / "python",
        f"""#!/usr/bin/env bash
if [[ $2 == pip ]]; then
  echo "pip $*" >>"$FAKE_CALLS"
  exit ${{FAKE_PIP_STATUS:-0}}
fi
exec "{sys.executable}" "$@"
""",
    )
    (tree.root / "tests/python").mkdir(parents=True)
    (tree.root / "tests/python/test_sample.py").write_text(PYTHON_TESTS)
    return tree


def run_tests(tree, *filters, **variables):
    return tree.run(str(tree.root / "test"), *filters, **variables)


def test_both_suites_run_and_the_last_line_is_their_sum(suites):
    result = run_tests(suites)
    assert result.stdout.splitlines()[-1] == "3 passed, 0 failed", result.stdout + result.stderr
    assert result.returncode == 0
    assert suites.calls()[:2] == ["configure engine", "build engine"]


def test_variables_of_the_users_own_work_do_not_reach_the_tests(suites):
    result = run_tests(suites, CUDA_VISIBLE_DEVICES="7", MUSTER_GPUS="gpus.yaml", GTEST_FILTER="Nothing", LANG="C")
    assert result.returncode == 0, result.stdout
    reached = [line.partition(": ")[2] for line in result.stdout.splitlines() if line.startswith("reached ctest: ")]
    assert "LANG" in reached
    assert not {"CUDA_VISIBLE_DEVICES", "MUSTER_GPUS", "GTEST_FILTER"} & set(reached)


def test_a_failed_python_test_is_shown_above_the_last_line(suites):
    (suites.root / "tests/python/test_bad.py").write_text("def test_bad():\n    assert 'seen value' == ''\n")
    result = run_tests(suites)
    assert result.returncode == 1
    assert "seen value" in result.stdout
    assert result.stdout.splitlines()[-1] == "3 passed, 1 failed"


def test_a_failed_build_counts_as_failed_and_the_other_suites_still_run(suites):
    (suites.root / "src/broken.cpp").touch()
    result = run_tests(suites)
    assert result.returncode == 1
    assert "expected a declaration" in result.stderr
    assert "native tests (their build failed)" in result.stdout
    assert result.stdout.splitlines()[-1] == "2 passed, 1 failed"


def test_a_failed_setup_ends_with_its_status_and_no_success(suites):
    result = run_tests(suites, FAKE_SETUP_STATUS="2")
    assert result.returncode == 2
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_filters_choose_tests_of_both_suites_by_any_of_their_names(suites):
    result = run_tests(suites, "good", "Selection.*")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "2 passed, 0 failed"
    assert any(call.startswith("ctest") and call.endswith("-R good|Selection.*") for call in suites.calls())


def test_the_python_package_is_built_once_until_its_sources_change(suites):
    (suites.root / "pyproject.toml").touch()
    run_tests(suites)
    assert sum(call.startswith("pip") for call in suites.calls()) == 1
    run_tests(suites)
    assert sum(call.startswith("pip") for call in suites.calls()) == 1
    set_age(suites.root / ".muster/venv/.muster-package", hours=1)
    (suites.root / "pyproject.toml").touch()
    run_tests(suites)
    assert sum(call.startswith("pip") for call in suites.calls()) == 2


def test_a_package_that_cannot_be_built_counts_as_failed(suites):
    (suites.root / "pyproject.toml").touch()
    result = run_tests(suites, FAKE_PIP_STATUS="1")
    assert result.returncode == 1
    assert "their package could not be built" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 passed, 1 failed"
