"""What leases and queues promise holds between two users, and neither reads what is the other's."""

import json
import os
import pathlib
import signal

import pytest
from private_words import SECRET
from waiting import until

HOLD = ("gpus", "hold", "-n")


def holder(user, count: int, *words, **options):
    """A command that holds so many GPUs until it is killed."""
    process = user.start(user.program, *HOLD, count, *words, "--", "sh", "-c", f"echo $CUDA_VISIBLE_DEVICES; exec sleep 600  # {SECRET}", **options)
    mask = process.stdout.readline()
    assert mask, process.stderr.read()
    return process, mask.strip().split(",")


def end(process):
    process.kill()
    process.communicate(timeout=60)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_no_gpu_is_granted_to_both(users, umask):
    alice, bob = users
    first, hers = holder(alice, 3, umask=umask)
    try:
        refused = bob.muster(*HOLD, 2, "--", "true", umask=umask)
        assert refused.returncode == 3 and f"pid {first.pid}" in refused.stderr and "61001" in refused.stderr
        second, his = holder(bob, 1, umask=umask)
        end(second)
        assert set(hers).isdisjoint(his)
    finally:
        end(first)
    assert until(lambda: bob.muster(*HOLD, 4, "--", "true", umask=umask).returncode == 0)


def test_a_killed_holder_of_another_user_gives_up_its_gpus(users):
    alice, bob = users
    first, _ = holder(alice, 4)
    waiter = bob.start(bob.program, *HOLD, 2, "--wait=60s", "--", "echo", "mine")
    assert "waiting" in waiter.stderr.readline()
    os.kill(first.pid, signal.SIGKILL)
    out, err = waiter.communicate(timeout=90)
    assert out == "mine\n", err
    first.communicate(timeout=60)


def test_users_wait_in_one_line(users):
    alice, bob = users
    first, _ = holder(alice, 4)
    order = []
    waiters = []
    for user in (bob, alice, bob):
        waiter = user.start(user.program, *HOLD, 4, "--wait=60s", "--", "sh", "-c", "date +%s.%N")
        assert "waiting" in waiter.stderr.readline()
        waiters.append(waiter)
    end(first)
    for waiter in waiters:
        out, err = waiter.communicate(timeout=90)
        assert waiter.returncode == 0, err
        order.append(float(out))
    assert order == sorted(order)


def test_a_waiter_of_another_user_who_was_killed_blocks_nobody(users):
    alice, bob = users
    first, _ = holder(alice, 4)
    waiter = bob.start(bob.program, *HOLD, 4, "--wait=60s", "--", "true")
    assert "waiting" in waiter.stderr.readline()
    end(waiter)
    end(first)
    assert until(lambda: alice.muster(*HOLD, 4, "--", "true").returncode == 0)


def test_the_first_maker_of_the_folder_cannot_take_a_gpu_by_deleting_its_lock(users):
    alice, bob = users
    assert alice.muster(*HOLD, 1, "--", "true").returncode == 0  # alice owns the folder
    second, his = holder(bob, 4)
    try:
        assert alice.run("sh", "-c", "rm -f $MUSTER_LEASE_DIR/*.lock").returncode == 0
        assert not list(pathlib.Path(alice.environment["MUSTER_LEASE_DIR"]).glob("*.lock"))
        refused = alice.muster(*HOLD, 1, "--", "true")
        assert refused.returncode == 3 and "lock file was deleted" in refused.stderr
        shown = json.loads(alice.muster("gpus", "--json").stdout)
        assert all(gpu["lease"] is not None for gpu in shown["gpus"])
    finally:
        end(second)
    assert until(lambda: alice.muster(*HOLD, 4, "--", "true").returncode == 0)


def test_nobody_passes_for_another_in_a_record(users):
    alice, bob = users
    first, _ = holder(alice, 1)
    try:
        (lock,) = pathlib.Path(alice.environment["MUSTER_LEASE_DIR"]).glob("*.lock")
        record = json.loads(lock.read_text())
        forged = json.dumps({**record, "user": "root", "command": "a\u202eb"})
        assert bob.run("sh", "-c", f"printf '%s' '{forged}' > {lock}").returncode == 0
        shown = bob.muster("gpus").stdout
        assert "61001" in shown and "root" not in shown and "\u202e" not in shown
    finally:
        end(first)


def readable_by(user, folder: pathlib.Path) -> dict[str, str]:
    """Every file below that the user can read, with its text."""
    listed = user.run("find", folder, "-type", "f", "-readable")
    texts = {}
    for path in listed.stdout.splitlines():
        texts[path] = user.run("cat", path).stdout
    return texts


def test_lease_files_hold_neither_arguments_nor_environment(users):
    alice, bob = users
    first, _ = holder(alice, 2)
    waiter = alice.start(alice.program, *HOLD, 4, "--wait=60s", "--", "sh", "-c", f"true {SECRET}")
    assert "waiting" in waiter.stderr.readline()
    folder = pathlib.Path(alice.environment["MUSTER_LEASE_DIR"])
    found = readable_by(bob, folder)
    assert any(path.endswith(".lock") for path in found), "the records are there to be read"
    assert not [path for path, text in found.items() if SECRET in text]
    end(first)
    waiter.communicate(timeout=90)
    assert not [path for path, text in readable_by(bob, folder).items() if SECRET in text], "nor afterwards"


def test_a_queue_is_its_users_alone(users):
    alice, bob = users
    submitted = alice.muster("submit", "-n", "1", "--label", "private", "--", "sh", "-c", f"echo {SECRET}; exec sleep 600")
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.split()[0]
    try:
        until(lambda: SECRET in alice.muster("logs", job).stdout)
        found = readable_by(bob, alice.home)
        assert not [path for path, text in found.items() if SECRET in text]
        assert "private" not in bob.muster("queue").stdout
        assert bob.muster("logs", job).returncode != 0
        refused = bob.muster(*HOLD, 4, "--", "true")
        assert refused.returncode == 3 and SECRET not in refused.stderr
        assert SECRET not in bob.muster("gpus").stdout
    finally:
        alice.muster("stop", job)
        alice.muster("wait", job)


def test_logs_of_a_launch_are_its_users_alone(users):
    alice, bob = users
    done = alice.muster("launch", "--nproc-per-node", "1", "--device", "cpu", "--log-dir", "logs", "--redirects", "3", "--", "sh", "-c", f"echo {SECRET}")
    assert done.returncode == 0, done.stderr
    assert any(SECRET in path.read_text() for path in (alice.home / "logs").rglob("*.log")), "there is a log"
    assert not [path for path, text in readable_by(bob, alice.home).items() if SECRET in text]


def own_file(user, name: str, text: str):
    """A file of the user that is closed to others already."""
    file = user.home / name
    file.write_text(text)
    file.chmod(0o600)
    os.chown(file, user.uid, user.uid)
    return name


def files_with_the_secret(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file() and SECRET in path.read_text(errors="replace")}


def test_trials_of_a_sweep_are_its_users_alone(users):
    alice, bob = users
    spec = {"method": "random", "metric": "loss", "goal": "minimize", "limits": {"trials": 1},
            "parameters": {"x": {"distribution": "uniform", "min": 0, "max": 1}}, "command": ["sh", "-c", f"echo {SECRET}; echo loss=1"]}
    done = alice.muster("sweep", own_file(alice, "sweep.yaml", json.dumps(spec)), "--name", "hers", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert files_with_the_secret(alice.home / "sweeps/hers") >= {"sweep.yaml", "log"}, "there is what could be read"
    found = readable_by(bob, alice.home)
    assert not [path for path, text in found.items() if SECRET in text]
    assert not [path for path in found if "sweeps/" in path], "nor scores and settings"


def test_jobs_of_an_experiment_are_its_users_alone(users):
    alice, bob = users
    work = f"echo {SECRET}; mkdir -p ${{output}}; echo w > ${{output}}/w.bin"
    spec = {"experiment": {"name": "hers"}, "algorithms": {"sft": None}, "families": {"a": str(alice.home)},
            "datasets": {"d": str(alice.home)}, "train": {"command": ["sh", "-c", work, "${model}", "${data}"], "gpus": 0},
            "evaluate": {"command": ["sh", "-c", f"echo '{{\"{SECRET}\": 1}}' > ${{output}}", "${model}"], "gpus": 0}}
    done = alice.muster("run", own_file(alice, "lab.yaml", json.dumps(spec)))
    assert done.returncode == 0, done.stderr
    assert files_with_the_secret(alice.home / "experiments/hers") >= {"experiment.yaml"}, "there is what could be read"
    assert files_with_the_secret(alice.home / ".local") >= {"log"}, "and a log"
    found = readable_by(bob, alice.home)
    assert not [path for path, text in found.items() if SECRET in text]
    assert not [path for path in found if "experiments/" in path], "nor results"
