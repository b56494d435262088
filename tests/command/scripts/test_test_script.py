"""./test: which suites run, what reaches them, and the last line."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_tree import REPOSITORY, set_age, write_command

FAKE_CTEST = """#!/usr/bin/env bash
echo "ctest $*" >>"$FAKE_CALLS"
while [[ $1 != --output-junit ]]; do shift; done
echo '<testsuite><testcase name="native" status="run"/></testsuite>' >"$2"
compgen -e | { while read -r name; do echo "reached ctest: $name"; done; }
sed -n -E 's/^(Sig(Ign|Blk)):/signals of ctest: \\1/p' /proc/self/status
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
    set_processors(tree, 1)
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
    (tree.root / "tests/command/python").mkdir(parents=True)
    (tree.root / "tests/command/python/test_sample.py").write_text(PYTHON_TESTS)
    return tree


def set_processors(tree, count: int):
    (tree.commands / "nproc").unlink()
    write_command(tree.commands / "nproc", f"#!/usr/bin/env bash\necho {count}\n")


def run_tests(tree, *filters, **variables):
    return tree.run(str(tree.root / "test"), *filters, **variables)


def test_both_suites_run_and_the_last_line_is_their_sum(suites):
    result = run_tests(suites)
    assert result.stdout.splitlines()[-1] == "3 passed, 0 failed", result.stdout + result.stderr
    assert result.returncode == 0
    assert suites.calls()[:2] == ["configure engine", "build engine"]
    (call,) = (call for call in suites.calls() if call.startswith("ctest"))
    assert call.endswith("-LE ^alone$")  # tests that have parts run in these
    times = (suites.root / "build/python-test-times.xml").read_text()
    assert "test_good" in times and "test_other" in times


def test_variables_of_the_users_own_work_do_not_reach_the_tests(suites):
    result = run_tests(suites, CUDA_VISIBLE_DEVICES="7", MUSTER_GPUS="gpus.yaml", GTEST_FILTER="Nothing", LANG="C")
    assert result.returncode == 0, result.stdout
    reached = [line.partition(": ")[2] for line in result.stdout.splitlines() if line.startswith("reached ctest: ")]
    assert "LANG" in reached
    assert not {"CUDA_VISIBLE_DEVICES", "MUSTER_GPUS", "GTEST_FILTER"} & set(reached)


def test_a_failed_python_test_is_shown_above_the_last_line(suites):
    (suites.root / "tests/command/python/test_bad.py").write_text("def test_bad():\n    assert 'seen value' == ''\n")
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
    assert not (suites.root / "build/python-test-times.xml").exists()  # they would not be those of all tests


def test_files_that_took_long_come_first_and_unknown_ones_by_their_number_of_tests(tmp_path):
    (tmp_path / "times.xml").write_text("""<testsuites><testsuite>
        <testcase classname="part.test_long" name="test_0" time="1.5"/><testcase classname="part.test_long.TestIt" name="test_1" time="2"/>
        <testcase classname="part.test_short" name="test_0" time="0.1"/></testsuite></testsuites>""")
    (tmp_path / "part").mkdir()
    for name, tests in (("few", 1), ("long", 1), ("many", 4), ("short", 8), ("some", 3)):
        text = "".join(f"def test_{number}():\n    pass\n\n" for number in range(tests))
        (tmp_path / f"part/test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "pytest_longest_first", "-p", "no:cacheprovider", "--collect-only", "-q", "--rootdir", "."]

    def files(*words):
        done = subprocess.run([*command, *words, "part"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(REPOSITORY / "scripts")},
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return list(dict.fromkeys(re.findall(r"^part/test_(\w+)\.py::", done.stdout, re.MULTILINE)))

    assert files("--times", "times.xml") == ["many", "long", "some", "few", "short"]
    assert files("--times", "there-is-none.xml") == ["short", "many", "some", "few", "long"]


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


def test_ignored_and_blocked_signals_do_not_reach_the_tests(suites):
    (suites.root / "tests/command/python/test_signals.py").write_text("""
import subprocess

def test_signals():
    lines = subprocess.run(["sed", "-n", "/^SigIgn\\|^SigBlk/p", "/proc/self/status"], capture_output=True, text=True)
    assert [int(line.split()[1], 16) for line in lines.stdout.splitlines()] == [0, 0]
""")
    # As nohup and some CI runners start it.
    started = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.execv(sys.argv[1], sys.argv[1:])
"""
    result = suites.run(sys.executable, "-c", started, str(suites.root / "test"))
    assert result.stdout.splitlines()[-1] == "4 passed, 0 failed", result.stdout + result.stderr
    of_native_tests = re.findall(r"signals of ctest: Sig(?:Ign|Blk)\s+(\w+)", result.stdout)
    assert [int(mask, 16) for mask in of_native_tests] == [0, 0]


def processes_with(word: str) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in file.read_bytes():
                found.append(file.parent.name)
        except OSError:
            pass
    return found


@pytest.mark.parametrize("hang", ["time.sleep(1000)", "never_reacts()"])
def test_a_python_test_that_hangs_fails_by_name_and_leaves_no_process(suites, hang, tmp_path):
    """Both with a call that is interrupted and with one that is not; the tests after it run."""
    sleep = tmp_path / f"sleep_of_{tmp_path.name}"
    sleep.symlink_to(shutil.which("sleep"))
    conftest = suites.root / "tests/conftest.py"
    conftest.write_text(conftest.read_text().replace("GRACE = 30", "GRACE = 1"))
    (suites.root / "tests/command/python/test_hanging.py").write_text(f"""
import signal, subprocess, time
import pytest

def never_reacts():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1000)

@pytest.mark.limit(1)
def test_that_hangs():
    subprocess.Popen(["sh", "-c", "setsid {sleep} 1000 &"])
    subprocess.Popen(["{sleep}", "1000"])
    {hang}

def test_after_it():
    pass
""")
    result = run_tests(suites)
    assert result.stdout.splitlines()[-1] == "4 passed, 1 failed", result.stdout + result.stderr
    assert "test_hanging.py::test_that_hangs" in result.stdout
    assert processes_with(str(sleep)) == []


@pytest.mark.parametrize("processors", [1, 1_000_000])
def test_as_many_tests_run_at_once_as_processors_and_memory_allow(suites, processors):
    set_processors(suites, processors)
    result = run_tests(suites, "native", "test_good")
    assert result.returncode == 0, result.stdout + result.stderr
    (call,) = (call for call in suites.calls() if call.startswith("ctest"))
    memory = int(re.search(r"MemTotal: *(\d+) kB", Path("/proc/meminfo").read_text())[1])
    assert 1 <= int(re.search(r"-j (\d+)", call)[1]) <= min(2 * processors, max(memory // (3 * 1024 * 1024), 1))


def test_every_native_test_has_a_limit_of_time():
    listing = subprocess.run(["ctest", "--test-dir", str(REPOSITORY / "build/engine"), "--show-only=json-v1"],
                             capture_output=True, text=True, check=True).stdout
    tests = json.loads(listing)["tests"]
    assert tests
    endless = [
        test["name"]
        for test in tests
        if not test["name"].endswith("_NOT_BUILT")
        and not any(one["name"] == "TIMEOUT" and 0 < one["value"] <= 1200 for one in test.get("properties", []))
    ]
    assert endless == []
