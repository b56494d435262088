"""A run that is killed is resumed as if nothing had happened."""

import os
import random
import re
import resource
import signal

import pytest
from training_runs import Chaos, Run, Training, finish

SEED = 20


def test_twenty_kills_of_ranks_and_launchers_leave_curve_and_weights_as_they_were(training: Training, whole: Run):
    print(f"seed {SEED}")
    training.job |= {"distributed.max_restarts": 100}
    chaos = Chaos(training, whole, random.Random(SEED))
    chaos.carry_out(kills=20)
    assert min(chaos.kills.values()) == 10 and chaos.finished >= 1 and chaos.resumed, (chaos.kills, chaos.resumed)


def test_a_run_is_the_same_when_it_is_repeated(training: Training, whole: Run):
    assert training().returncode == 0
    training.run().assert_equal(whole)


class TestDyingRanks:
    def test_the_rank_and_the_signal_are_named_and_the_run_starts_again(self, training: Training, whole: Run):
        process, run = training.hold_at(12)
        os.kill(training.rank(1), signal.SIGKILL)
        training.release()
        ended = finish(process)
        assert ended.returncode == 0, ended.stderr
        assert "rank 1" in ended.stderr and "SIGKILL" in ended.stderr and "restarting from the last checkpoint (restart 1 of at most 3" in ended.stderr
        run.assert_equal(whole)
        assert run.result()["restarts"] == 1
        story = [event["event"] for event in run.events("attempt", "attempt_failed")]
        assert story == ["attempt", "attempt_failed", "attempt"]
        first, second = run.events("attempt")
        assert first["after_step"] == 0 and second["after_step"] in (5, 10, 15, 20, 25, 30)
        assert "rank 1" in run.events("attempt_failed")[0]["reason"]
        saved = [event["step"] for event in run.events("saved")]
        assert set(range(second["after_step"] + 5, 41, 5)) <= set(saved)

    def test_without_restarts_the_run_fails_and_says_why(self, training: Training):
        process, run = training.hold_at(7, "distributed.max_restarts=0")
        os.kill(training.rank(0), signal.SIGKILL)
        training.release()
        ended = finish(process)
        assert ended.returncode == 1 and "rank 0" in ended.stderr and "SIGKILL" in ended.stderr
        assert run.result()["status"] == "failed" and "rank 0" in run.result()["error"] and run.leftovers() == []
        training.assert_nothing_lives()

    @pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
    def test_a_rank_that_fails_says_why_while_others_wait_for_it(self, training: Training, strategy: str):
        process = training.start("distributed.max_restarts=0", f"distributed.strategy={strategy}", "training.max_steps=100000")
        run = training.at_step(7)
        resource.prlimit(training.rank(1), resource.RLIMIT_AS, (1 << 20, 1 << 20))  # it gets no more memory
        ended = finish(process)
        assert ended.returncode == 1 and re.search("rank 1(: the (system refuses|host.s memory is full)| could get no more memory)", ended.stderr), ended.stderr
        assert run.result()["status"] == "failed" and "rank 1" in run.result()["error"]
        training.assert_nothing_lives()

    def test_restarts_are_counted_and_then_the_run_fails(self, training: Training, whole: Run):
        process = training.start("distributed.max_restarts=2")
        victims = []
        while process.poll() is None:
            rank = training.ranks().get(1)
            if rank and rank not in victims:
                os.kill(rank, signal.SIGKILL)
                victims.append(rank)
        ended = finish(process)
        assert ended.returncode == 1 and len(victims) == 3
        assert training.run().result()["restarts"] == 2 and "restart 2 of at most 2" in ended.stderr
        assert training("--resume", "auto").returncode == 0
        training.run().assert_equal(whole)

    def test_a_rank_that_hangs_is_named_within_the_watchdog_and_the_run_goes_on(self, training: Training, whole: Run):
        process, run = training.hold_at(12, "distributed.watchdog_seconds=4", "distributed.max_restarts=100")
        os.kill(training.rank(0), signal.SIGCONT)
        ended = finish(process)
        assert ended.returncode == 0, ended.stderr
        assert re.search("rank 1 of 2 (did not come to it within 4 s|came to it and then showed no life)", ended.stderr), ended.stderr
        run.assert_equal(whole)

    def test_a_rank_that_hangs_alone_is_ended_by_the_launcher(self, training: Training):
        process, run = training.hold_at(12, "distributed.watchdog_seconds=3", "distributed.max_restarts=100", "distributed.ranks=1")
        ended = finish(process)
        assert ended.returncode == 0, ended.stderr
        assert "no rank has reported anything for" in ended.stderr and run.result()["restarts"] >= 1


class TestKeeper:
    def test_whoever_kills_the_process_that_keeps_the_ranks_costs_one_restart(self, training: Training, whole: Run):
        process, run = training.hold_at(8)
        keeper = next(number for number, name in training.processes().items() if name == "muster-keeper")
        os.kill(keeper, signal.SIGKILL)
        training.release()
        ended = finish(process)
        assert ended.returncode == 0, ended.stderr
        run.assert_equal(whole)
        training.assert_nothing_lives()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_to_the_launcher_saves_and_the_run_can_go_on(training: Training, whole: Run, number: signal.Signals):
    process, run = training.hold_at(9, "training.save_steps=1000")
    process.send_signal(number)
    training.release()
    ended = finish(process)
    assert ended.returncode == 128 + number, ended.stderr
    result = run.result()
    assert result["status"] == "interrupted" and run.checkpoints() == [result["steps"]] and 9 <= result["steps"] < 40
    assert f"continues after step {result['steps']}" in ended.stderr and run.leftovers() == []
    assert [event["signal"] for event in run.events("interrupted")] == [number]
    training.assert_nothing_lives()
    resumed = training("--resume", "auto", "training.save_steps=1000")
    assert resumed.returncode == 0 and f"resuming after step {result['steps']}" in resumed.stderr
    training.run().assert_equal(whole)


def test_a_second_signal_ends_a_run_at_once(training: Training, whole: Run):
    process, run = training.hold_at(8)
    os.kill(training.rank(1), signal.SIGCONT)
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    ended = finish(process)
    assert ended.returncode in (128 + signal.SIGUSR1, 128 + signal.SIGTERM) and run.result()["status"] == "interrupted"
    training.assert_nothing_lives()
    assert training("--resume").returncode == 0
    run.assert_equal(whole)


def test_a_signal_before_the_first_step_is_no_failure(training: Training):
    process = training.start()
    training.rank(0)
    process.send_signal(signal.SIGTERM)
    ended = finish(process)
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
    assert training.run().result()["status"] == "interrupted" and "restarting" not in ended.stderr
