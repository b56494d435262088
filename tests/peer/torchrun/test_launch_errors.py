"""A failure is recorded and reported as torchrun does."""

import json
import re

import pytest
from launchers import SCRIPTS


def without_times(text: str) -> dict:
    error = json.loads(text)
    stamp = error["message"]["extraInfo"].pop("timestamp")
    assert stamp.isdigit()
    return error


def summary(outcome) -> list[str]:
    """Lines of the block of failures, what differs from run to run replaced."""
    lines = outcome.plain(outcome.errors).splitlines()
    beginning = next(number for number, line in enumerate(lines) if line.endswith(" FAILED")) - 1
    text = "\n".join(lines[beginning:])
    for pattern, replacement in (
        (r"time      : \d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", "time      : then"),
        (r"host      : \S+", "host      : this one"),  # torchrun asks the resolver, muster the kernel
        (r"\(pid: \d+\)", "(pid: some)"),
        (r"by PID \d+", "by PID some"),
        (r"(<folder>/)?logs/[^/]+/attempt", "<run folder>/attempt"),
        (r"[=-]{20,}", "----"),  # as wide as the longest line
    ):
        text = re.sub(pattern, replacement, text)
    end = text.index("\n----", text.index("Root Cause"))
    return text[:end].splitlines()


@pytest.fixture(scope="module")
def recorded(both):
    variables = {"TORCHELASTIC_ERROR_FILE": "{folder}/launcher-error.json"}
    return both("--nproc-per-node", 2, "--log-dir", "logs", "-r", 3, SCRIPTS / "recorded.py", variables=variables)


def test_a_recorded_exception_is_in_the_ranks_error_file(recorded):
    assert (recorded.torchrun.code, recorded.muster.code) == (1, 1)
    trees = [outcome.log_tree() for outcome in (recorded.torchrun, recorded.muster)]
    of_torchrun, of_muster = (without_times(tree["attempt_0/1/error.json"]) for tree in trees)
    assert of_muster == of_torchrun
    assert of_muster["message"]["message"] == "ValueError: the answer is not 41"


def test_a_failed_run_adds_its_report_and_no_other_file(recorded):
    of_torchrun, of_muster = (outcome.log_tree() for outcome in (recorded.torchrun, recorded.muster))
    assert of_muster.keys() - of_torchrun.keys() <= {"failure.json"}
    assert of_torchrun.keys() <= of_muster.keys()


def test_the_launchers_own_error_file_names_the_exit_code(recorded):
    texts = [(outcome.folder / "launcher-error.json").read_text() for outcome in (recorded.torchrun, recorded.muster)]
    of_torchrun, of_muster = map(without_times, texts)
    assert of_muster == of_torchrun and of_muster["message"]["errorCode"] == 1


def test_the_summary_has_the_same_keys_and_root_cause(recorded):
    assert summary(recorded.muster) == summary(recorded.torchrun)
    assert any("ValueError: the answer is not 41" in line for line in summary(recorded.muster))


@pytest.mark.parametrize(("how", "rank"), [("3", "1"), ("SIGKILL", "1"), ("SIGSEGV", "0")])
def test_a_rank_that_leaves_no_error_file_is_summed_up_alike(both, how, rank):
    pair = both("--nproc-per-node", 2, SCRIPTS / "end.py", how, rank)
    assert summary(pair.muster) == summary(pair.torchrun)
    assert any(f"rank      : {rank} (local_rank: {rank})" in line for line in summary(pair.muster))


def test_without_a_recorded_exception_the_launchers_error_file_is_left_alone(both):
    variables = {"TORCHELASTIC_ERROR_FILE": "{folder}/launcher-error.json"}
    pair = both("--nproc-per-node", 2, SCRIPTS / "end.py", "3", "1", variables=variables)
    assert (pair.torchrun.code, pair.muster.code) == (1, 1)
    there = [(outcome.folder / "launcher-error.json").exists() for outcome in (pair.torchrun, pair.muster)]
    assert there == [False, False]
