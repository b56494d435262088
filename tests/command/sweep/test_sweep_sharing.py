"""Several processes on one sweep, processes that are killed, and sweeps that go on."""

import collections
import os
import signal


def test_eight_processes_share_a_sweep_and_every_id_is_given_out_once(sweeps):
    # The first waits for the second, which is another process's.
    command = "echo $MUSTER_TRIAL >> all; until [ $(wc -l < all) -ge 2 ]; do sleep 0.02; done; echo loss=1"
    spec = sweeps.spec(limits={"trials": 48}, command=["sh", "-c", command])
    processes = [sweeps.start("sweep", spec, "--device", "cpu") for _ in range(8)]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, outputs
    ids = (sweeps.folder / "all").read_text().split()
    assert sorted(ids) == sorted(f"s.r.{n}" for n in range(48))
    observed = sweeps.observations()
    assert sorted(one["trial"] for one in observed) == sorted(ids)
    assert len({one["parameters"]["x"] for one in observed}) == 48
    workers = sum(any("  best 1  " in line for line in out.splitlines()) for out, _ in outputs)
    assert workers > 1


def test_a_killed_sweep_takes_its_trials_with_it_and_goes_on(sweeps):
    spec = sweeps.spec(method="grid", parameters={"x": list(range(8)), "sleep": 0.5}, limits=None)
    for _ in range(3):
        sweep = sweeps.start("sweep", spec, "--num-gpus", 2)
        before = len(sweeps.observations())
        sweeps.until(lambda: len(sweeps.observations()) > before and sweeps.is_in_a_trial())
        sweeps.kill(sweep)
        sweeps.until(sweeps.nothing_runs)
        assert not any(sweeps.alive(note["pid"]) for note in sweeps.notes())
    sweeps.run("sweep", spec, "--num-gpus", 2)
    observed = sweeps.observations()
    assert sorted(one["parameters"]["x"] for one in observed) == list(range(8))
    assert sorted(one["trial"] for one in observed) == [f"s.r.{n}" for n in range(8)]
    assert all(one["score"] == (one["parameters"]["x"] - 1) ** 2 for one in observed)
    # Those that were cut off were begun again; none ended twice.
    begun = collections.Counter(note["MUSTER_TRIAL"] for note in sweeps.notes() if "end" not in note)
    assert sum(begun.values()) > 8
    assert not list((sweeps.folder / "sweeps/s/running").iterdir())


def test_what_a_trial_leaves_behind_dies_with_it(sweeps):
    command = ["sh", "-c", "(trap '' TERM HUP INT; setsid sleep 300) & sleep 0.2; pgrep -P $$ > $MUSTER_TRIAL_FOLDER/child; echo loss=1"]
    sweeps.run("sweep", sweeps.spec(command=command, limits={"trials": 1}))
    (child,) = (sweeps.folder / "sweeps/s/s.r.0/child").read_text().split()
    assert not sweeps.alive(int(child))


def test_a_keeper_that_is_killed_is_a_failure_and_leaves_nothing(sweeps):
    sweep = sweeps.start("sweep", sweeps.spec(parameters={"x": 1, "forever": True}, limits={"trials": 1}))
    (note,) = sweeps.until(sweeps.notes)
    keeper = int(open(f"/proc/{note['pid']}/stat").read().rsplit(")", 1)[1].split()[1])
    assert keeper != sweep.pid
    os.kill(keeper, signal.SIGKILL)
    sweep.communicate()
    assert sweep.returncode == 1
    assert "killed" in sweeps.observations()[0]["reason"] and not sweeps.alive(note["pid"])


def test_a_trial_that_ends_its_process_again_and_again_is_recorded_as_failed(sweeps):
    kill_the_keepers_parent = "test $MUSTER_TRIAL != s.r.0 && echo loss=3 && exit; kill -9 $(ps -o ppid= $PPID); sleep 60"
    spec = sweeps.spec(method="grid", parameters={"x": [0, 1]}, limits=None, command=["sh", "-c", kill_the_keepers_parent])
    for _ in range(3):
        sweeps.run("sweep", spec, "--device", "cpu", status=-signal.SIGKILL)
        sweeps.until(sweeps.nothing_runs)
    sweeps.run("sweep", "run=s", "--device", "cpu")
    first, second = sweeps.observations()
    assert first["trial"] == "s.r.0" and first["reason"] == "its process ended 3 times before it did"
    assert second["score"] == 3


def test_a_sweep_goes_on_where_it_ended_and_suggests_what_it_would_have(sweeps):
    sweeps.run("sweep", sweeps.spec("whole.yaml", method="bayes", limits={"trials": 7}), "--device", "cpu")
    part = sweeps.spec("part.yaml", method="bayes", limits={"trials": 4})
    sweeps.run("sweep", part, "--device", "cpu")
    assert len(sweeps.observations("part")) == 4
    sweeps.run("sweep", part, "--device", "cpu")  # nothing is left to do
    assert len(sweeps.observations("part")) == 4
    changed = sweeps.run("sweep", "run=part", "limits.trials=7", "--device", "cpu")
    assert "limits" in changed.stderr
    first, second = ([(one["parameters"], one["score"]) for one in sweeps.observations(name)] for name in ("whole", "part"))
    assert first[:4] == second[:4] and len(second) == 7


def test_another_sweep_of_the_same_name_is_refused_with_the_difference(sweeps):
    sweeps.run("sweep", sweeps.spec(), "--device", "cpu")
    other = sweeps.spec("other.yaml", seed=5, parameters={"x": {"distribution": "uniform", "min": -2, "max": 3}})
    refused = sweeps.run("sweep", other, "--name", "s", status=3)
    assert "seed is not there, and is 5 now" in refused.stderr and "parameters.x.max is 2, not 3" in refused.stderr
    assert "name of a sweep" in sweeps.run("sweep", other, "--name", "../s", status=2).stderr


def test_the_time_limit_counts_over_restarts(sweeps):
    spec = sweeps.spec(parameters={"x": {"distribution": "uniform", "min": 0, "max": 1}, "sleep": 0.4}, limits={"seconds": 1.2})
    sweep = sweeps.start("sweep", spec, "--device", "cpu")
    sweeps.until(sweeps.observations)
    sweep.terminate()
    sweep.communicate()
    sweeps.run("sweep", "run=s", "--device", "cpu")
    count = len(sweeps.observations())
    assert "1 seconds" in sweeps.run("sweep", "run=s", "--device", "cpu").stdout and len(sweeps.observations()) == count


def test_trials_follow_one_another_on_the_gpu_of_a_driver(sweeps):
    """The library of a driver answers in no fork of a process that has used it."""
    sweeps.inventory("gpus:\n  - {memory_total: 80GiB, memory_used: 0}\n")
    inventory = sweeps.environment.pop("MUSTER_GPUS")
    sweeps.environment["MUSTER_NVML_LIBRARY"] = str(sweeps.program.parents[2] / "nvml_stub/new/libnvidia-ml.so.1")
    sweeps.environment["MUSTER_NVML_STUB_INVENTORY"] = inventory
    sweeps.run("sweep", sweeps.spec(limits={"trials": 3}), "--num-gpus", 1)
    assert [one["failed"] for one in sweeps.observations()] == [False] * 3
