"""Runs on one machine do not get in each other's way."""

import socket

from free_port import free_port
from launchers import SCRIPTS

MEET = SCRIPTS / "meet.py"


def met(outcome) -> list[str]:
    assert outcome.code == 0, outcome.errors
    return [(outcome.folder / f"met-{rank}").read_text() for rank in (0, 1)]


def test_eight_runs_begun_at_one_moment_do_not_collide(launchers):
    runs = [launchers.muster(["--nproc-per-node", 2, MEET, f"run{number}"]) for number in range(8)]
    for number, run in enumerate(runs):
        assert met(run.outcome()) == [f"run{number} run{number}"] * 2


def test_the_words_of_the_meeting_are_those_of_torchruns_store(both):
    pair = both("--nproc-per-node", 2, MEET, "run")
    assert met(pair.torchrun) == met(pair.muster) == ["run run"] * 2


def test_a_busy_port_is_refused_before_a_rank_begins(launchers):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", free_port()))
        holder.listen()
        port = holder.getsockname()[1]
        outcome = launchers.muster(["--nproc-per-node", 2, "--master-port", port, SCRIPTS / "report_facts.py"]).outcome()
    assert outcome.code == 3 and str(port) in outcome.errors and outcome.facts() == {}, outcome.errors


def test_a_port_is_free_again_when_its_run_has_ended(launchers):
    port = free_port()
    for word in ("first", "second"):
        assert met(launchers.muster(["--nproc-per-node", 2, "--master-port", port, MEET, word]).outcome()) == [f"{word} {word}"] * 2
