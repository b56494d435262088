"""muster launch ends as torchrun ends."""

import signal

import pytest
from launchers import SCRIPTS, wait_until_gone

END = SCRIPTS / "end.py"


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, [END, "0", "all"]),
        (1, [END, "3", "1"]),
        (1, [END, "255", "all"]),
        (1, [END, "raise", "0"]),
        (1, [END, "SIGKILL", "1"]),
        (1, [END, "SIGSEGV", "0"]),
        (1, [END, "SIGTERM", "1"]),
        (1, ["no_such_script.py"]),
        (1, ["-m", "no_such_module"]),
        (1, ["--no-python", "./no-such-program"]),
        (1, ["--max-restarts", "1", END, "3", "1"]),
        (2, ["--no-such-option", END, "0", "all"]),
        (2, ["--max-restarts", "many", END, "0", "all"]),
        (2, ["--start-method", "teleport", END, "0", "all"]),
        (2, ["--log-dir"]),
        (2, []),
    ],
    ids=lambda value: " ".join(getattr(word, "name", word) for word in value) if isinstance(value, list) else str(value),
)
def test_the_exit_code_is_torchruns(both, code, arguments):
    pair = both("--nproc-per-node", 2, *arguments)
    assert (pair.torchrun.code, pair.muster.code) == (code, code), pair.torchrun.errors + pair.muster.errors


@pytest.mark.parametrize(("how", "code"), [("3", 3), ("255", 255), ("raise", 1), ("SIGKILL", 137), ("SIGSEGV", 139)])
def test_a_ranks_own_exit_code_is_passed_on_when_asked_for(launchers, how, code):
    outcome = launchers.muster(["--nproc-per-node", 2, "--exit-code", "worker", END, how, "1"]).outcome()
    assert outcome.code == code, outcome.errors


@pytest.mark.parametrize("bad", [["--nproc-per-node", "banana"], ["--nnodes", "2:1"], ["-r", "9"], ["--rdzv-conf", "timeout"]])
def test_what_torchrun_finds_out_late_is_bad_input(both, bad):
    pair = both(*bad, END, "0", "all")
    assert (pair.torchrun.code, pair.muster.code) == (1, 2), pair.torchrun.errors + pair.muster.errors


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"])
def test_a_signal_to_the_launcher_reaches_every_rank_and_ends_the_run(launchers, name):
    arguments = ["--nproc-per-node", 2, SCRIPTS / "note_signals.py"]
    runs = [launchers.torchrun(arguments), launchers.muster(arguments)]
    for run in runs:
        for rank in (0, 1):
            run.wait_for_file(f"ready-{rank}")
    for run in runs:
        run.signal(signal.Signals[name])
    outcomes = [run.outcome() for run in runs]
    assert [outcome.code for outcome in outcomes] == [1, 1], outcomes[0].errors + outcomes[1].errors
    for outcome in outcomes:
        assert [(outcome.folder / f"signals-{rank}").read_text() for rank in (0, 1)] == [f"{name}\n"] * 2


def test_ranks_that_ignore_the_signal_are_killed_after_the_grace(launchers):
    arguments = ["--nproc-per-node", 2, "--shutdown-timeout", 1, SCRIPTS / "note_signals.py", "stubborn"]
    runs = [launchers.torchrun(arguments), launchers.muster(arguments)]
    for run in runs:
        for rank in (0, 1):
            run.wait_for_file(f"ready-{rank}")
    for run in runs:
        run.signal(signal.SIGTERM)
    outcomes = [run.outcome() for run in runs]
    assert [outcome.code for outcome in outcomes] == [1, 1], outcomes[0].errors + outcomes[1].errors
    for outcome in outcomes:
        for rank in (0, 1):
            assert (outcome.folder / f"signals-{rank}").read_text().startswith("SIGTERM\n")
            wait_until_gone(int((outcome.folder / f"ready-{rank}").read_text()))
