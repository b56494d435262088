"""Which GPUs the trials of a sweep see, in training and in evaluation, and which sweeps are refused."""

import json


def masks(notes: list[dict]) -> dict[str, set[str]]:
    """By trial: the masks that its phases had."""
    found: dict[str, set[str]] = {}
    for note in notes:
        found.setdefault(note["MUSTER_TRIAL"], set()).add((note["MUSTER_PHASE"], note["CUDA_VISIBLE_DEVICES"]))
    return found


def check_disjoint(notes: list[dict]):
    """No two trials that share a GPU overlap in time."""
    spans: dict[str, list[float]] = {}
    for note in notes:
        spans.setdefault(note["MUSTER_TRIAL"], []).append(note.get("end", note["begin"]))
    mask = {note["MUSTER_TRIAL"]: set(note["CUDA_VISIBLE_DEVICES"].split(",")) for note in notes}
    trials = sorted(spans)
    for index, one in enumerate(trials):
        for other in trials[index + 1:]:
            if mask[one] & mask[other]:
                assert max(spans[one]) <= min(spans[other]) or max(spans[other]) <= min(spans[one])


def with_evaluation(sweeps, **changes) -> str:
    spec = sweeps.spec(parameters={"x": {"min": -2, "max": 2, "distribution": "uniform"}, "sleep": 0.1}, **changes)
    text = json.loads((sweeps.folder / spec).read_text())
    text["evaluate"] = text["command"]
    (sweeps.folder / spec).write_text(json.dumps(text))
    return spec


def test_training_and_evaluation_see_the_gpus_of_their_run_alone(sweeps):
    spec = with_evaluation(sweeps)
    sweeps.run("sweep-multi", "s", 2, 4, f"sweep={spec}")
    seen = masks(sweeps.notes())
    assert len(seen) == 8
    for trial in seen.values():
        assert {phase for phase, _ in trial} == {"train", "evaluate"} and len({mask for _, mask in trial}) == 1
    assert {mask for trial in seen.values() for _, mask in trial} == {"0,1", "2,3", "4,5", "6,7"}
    check_disjoint(sweeps.notes())
    assert len({note["MASTER_PORT"] for note in sweeps.notes()}) == 8


def test_every_trial_can_listen_on_a_port_of_its_own(sweeps):
    listen = ("import os, socket, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); "
              "s.bind(('', int(os.environ['MASTER_PORT']))); s.listen(); time.sleep(0.3); print('loss=1')")
    sweeps.run("sweep", sweeps.spec(command=["python3", "-c", listen]), "--num-gpus", 8)
    assert [one["score"] for one in sweeps.observations()] == [1] * 8


def test_two_runs_of_four_gpus_fit_into_eight(sweeps):
    spec = with_evaluation(sweeps, limits={"trials": 4})
    sweeps.run("sweep-multi", "s", 4, 2, 8, f"sweep={spec}")
    assert {mask for trial in masks(sweeps.notes()).values() for _, mask in trial} == {"0,1,2,3", "4,5,6,7"}


def test_more_gpus_than_there_are_is_refused_before_anything_is_made(sweeps):
    spec = with_evaluation(sweeps)
    refused = sweeps.run("sweep-multi", "s", 4, 4, f"sweep={spec}", status=3)
    assert "4 runs of 4 GPUs each need 16, and there are 8" in refused.stderr
    refused = sweeps.run("sweep-multi", "s", 2, 3, 4, f"sweep={spec}", status=3)
    assert "need 6, and there are 4" in refused.stderr
    assert "12 GPUs in all" in sweeps.run("sweep-multi", "s", 1, 1, 12, f"sweep={spec}", status=3).stderr
    assert not (sweeps.folder / "sweeps").exists()


def test_gpus_that_somebody_else_has_are_refused(sweeps):
    holder = sweeps.start("launch", "--gpu-ids", "1", "--no-python", "--", "sleep", "60")
    try:
        busy = sweeps.until(lambda: "sleep" in sweeps.run("gpus").stdout or "pid" in sweeps.run("gpus").stdout)
        assert busy
        refused = sweeps.run("sweep-multi", "s", 2, 4, f"sweep={sweeps.spec()}", status=3)
        assert "GPU 1" in refused.stderr and f"pid {holder.pid}" in refused.stderr
        assert not (sweeps.folder / "sweeps").exists()
    finally:
        holder.terminate()
        holder.communicate()


def test_a_sweep_holds_its_gpus_while_it_lasts(sweeps):
    sweep = sweeps.start("sweep", sweeps.spec(parameters={"x": 1, "forever": True}), "--num-gpus", 8)
    sweeps.until(sweeps.notes)
    assert "pid" in sweeps.run("sweep", sweeps.spec("other.yaml"), "--num-gpus", 1, status=3).stderr
    sweep.terminate()
    sweep.communicate()
    assert sweep.returncode == 143
    sweeps.run("sweep", "other.yaml", "--num-gpus", 8)


def test_a_list_of_gpus_is_one_run_on_all_of_them(sweeps):
    spec = with_evaluation(sweeps, limits={"trials": 2})
    sweeps.run("sweep", "run=s", "gpu_list=4,5,6,7", f"sweep={spec}")
    assert {mask for trial in masks(sweeps.notes()).values() for _, mask in trial} == {"4,5,6,7"}


def test_masks_are_made_of_the_mask_around_them(sweeps):
    sweeps.environment["CUDA_VISIBLE_DEVICES"] = "6,2,4"
    spec = with_evaluation(sweeps, limits={"trials": 4})
    sweeps.run("sweep", "run=s", "--gpu-ids", 2, 0, f"sweep={spec}")
    assert {mask for trial in masks(sweeps.notes()).values() for _, mask in trial} == {"4", "6"}
    assert "3" in sweeps.run("sweep", "run=s", "--gpu-ids", "3", f"sweep={spec}", status=2).stderr


def test_a_trial_can_lease_the_gpus_of_its_run_and_no_others(sweeps):
    program = str(sweeps.start.__globals__["PROGRAM"])
    inside = f'{program} gpus --json > $MUSTER_TRIAL_FOLDER/gpus.json; {program} launch --num-gpus 2 --no-python -- true && echo loss=1'
    spec = sweeps.spec(command=["sh", "-c", inside], limits={"trials": 2})
    sweeps.run("sweep", spec, "--num-gpus", 4, "--gpus-per-trial", 2)
    assert [one["score"] for one in sweeps.observations()] == [1, 1]
    refused = sweeps.spec("more.yaml", command=["sh", "-c", f"{program} launch --num-gpus 3 --no-python -- true && echo loss=1"],
                          limits={"trials": 1})
    sweeps.run("sweep", refused, "--num-gpus", 4, "--gpus-per-trial", 2, status=1)
    assert "exit status 3" in sweeps.observations("more")[0]["reason"]


def test_without_a_gpu_runs_are_on_the_cpu(sweeps):
    sweeps.inventory("gpus: []\n")
    sweeps.run("sweep", sweeps.spec(), "--runs", 3)
    assert {note["CUDA_VISIBLE_DEVICES"] for note in sweeps.notes()} == {""}
    assert "none is visible" in sweeps.run("sweep", sweeps.spec("g.yaml"), "--num-gpus", 2, status=3).stderr


def test_gpus_that_cannot_be_divided_evenly_are_refused(sweeps):
    spec = sweeps.spec()
    assert "cannot be divided" in sweeps.run("sweep", spec, "--num-gpus", 5, "-k", 2, status=3).stderr
    assert "need 6, and 4" in sweeps.run("sweep", spec, "--num-gpus", 4, "-k", 2, "--runs", 3, status=3).stderr


def test_a_dry_run_shows_everything_and_makes_nothing(sweeps):
    shown = sweeps.run("sweep", sweeps.spec(method="bayes"), "--num-gpus", 4, "-k", 2, "--dry-run", "steps=3").stdout
    for text in ("loss (minimize)", "bayes, seed 0", "8 trials", "x: uniform from -2 to 2", "steps: 3",
                 "GPUs 0,1, CUDA_VISIBLE_DEVICES=0,1", "GPUs 2,3, CUDA_VISIBLE_DEVICES=2,3", "x=0 steps=3"):
        assert text in shown, text
    assert not (sweeps.folder / "sweeps").exists()


ALICE = "processes: [{pid: 41877, user: alice, command: python train.py, memory: 31GiB}]"


def test_trials_leave_a_gpu_alone_that_a_stranger_uses(sweeps):
    idle = "".join(f"  - {{index: {index}, memory_total: 80GiB}}\n" for index in (1, 2))
    sweeps.inventory(f"gpus:\n  - {{index: 0, memory_total: 80GiB, {ALICE}}}\n{idle}")
    slow = {"x": {"distribution": "uniform", "min": -2, "max": 2}, "sleep": 0.3}
    sweeps.run("sweep", sweeps.spec(parameters=slow, limits={"trials": 4}), "--num-gpus", 2)
    assert {note["CUDA_VISIBLE_DEVICES"] for note in sweeps.notes()} == {"1", "2"}
    for words in (["--num-gpus", 3], ["--gpu-ids", 0]):
        refused = sweeps.run("sweep", sweeps.spec("o.yaml"), *words, status=3)
        assert "GPU 0: in use by alice (pid 41877, python train.py, 31.0 GiB), without a lease" in refused.stderr
        assert not (sweeps.folder / "sweeps/o").exists()
    sweeps.run("sweep", sweeps.spec("p.yaml", limits={"trials": 1}), "--gpu-ids", 0, "--share")
    assert {note["CUDA_VISIBLE_DEVICES"] for note in sweeps.notes("p")} == {"0"}
