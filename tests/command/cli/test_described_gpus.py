"""GPUs that exist only in a file: commands that would compute say so, or compute on the CPU where nothing else is asked."""

import json
import pathlib

import pytest

TWO = "gpus:\n  - {count: 2, name: GPU of a file, memory_total: 40GiB, memory_used: 0, compute_capability: \"8.0\"}\n"
SMALL = ("training.max_steps=2", "training.batch_size=8", "data.held_out=0", "training.save_steps=2")
NOTE = "gpus.yaml are not in this machine: the CPU computes"


@pytest.fixture
def described(muster, tmp_path):
    muster.inventory(TWO)
    muster.environment.update(MUSTER_CACHE=str(tmp_path / "cache"), OMP_NUM_THREADS="1")
    return muster


@pytest.fixture
def model(described) -> str:
    """A model that was trained on this machine, without a word about devices."""
    trained = described("train", *SMALL)
    assert trained.returncode == 0, trained.stderr
    assert trained.stderr.count(NOTE) == 1, trained.stderr
    assert "2 CPU ranks" in trained.stderr or "one CPU rank" in trained.stderr
    (run,) = (described.folder / "runs").iterdir()
    return str(run / "model")


def refusal(answer) -> str:
    assert answer.returncode == 3, answer.stdout + answer.stderr
    assert "are not in this machine" in answer.stderr and "--device cpu" in answer.stderr, answer.stderr
    return answer.stderr


NAMED = [("--num-gpus", "2"), ("--gpu-ids", "1"), ("--device", "cuda")]


@pytest.mark.parametrize("words", NAMED)
def test_training_on_gpus_that_are_asked_for_is_refused_before_anything_is_written(described, words):
    assert "gpus.yaml" in refusal(described("train", *SMALL, *words))
    assert not (described.folder / "runs").exists()


def test_generation_and_evaluation_compute_on_the_cpu_where_nothing_is_asked_for(described, model):
    (described.folder / "p.txt").write_text("1+1=\n2+2=\n")
    words = ("generate", "-m", model, "-p", "p.txt", "--max-new-tokens", "4", "--temperature", "0")
    answered = described(*words)
    assert answered.returncode == 0 and answered.stderr.count(NOTE) == 1, answered.stderr
    assert len(answered.stdout.splitlines()) == 2
    evaluated = described("evaluate", "-m", model, "--data", "builtin:arithmetic", "--json")
    assert evaluated.returncode == 0 and evaluated.stderr.count(NOTE) == 1, evaluated.stderr
    for asked in NAMED:
        refusal(described(*words, *asked))
        refusal(described("evaluate", "-m", model, "--data", "builtin:arithmetic", *asked))
    said = described(*words, "--device", "cpu")
    assert said.returncode == 0 and NOTE not in said.stderr and said.stdout == answered.stdout


def test_what_the_host_has_is_known_where_the_cpu_computes(described, model):
    (described.folder / "p.txt").write_text("1+1=\n")
    words = ("generate", "-m", model, "-p", "p.txt", "--max-new-tokens", "4", "--device", "cpu", "--ranks", "2", "--device-map", "balanced")
    plan = json.loads(described(*words, "--dry-run", "--json").stdout)
    available = int(next(line for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")).split()[1]) * 1024
    assert all(0 < rank["limit_bytes"] <= available // 2 for rank in plan["ranks"])
    answered = described(*words)
    assert answered.returncode == 0, answered.stderr


def test_a_dry_run_plans_for_the_gpus_of_the_file_and_says_so(described):
    plan = json.loads(described("train", *SMALL, "--dry-run", "--json").stdout)
    assert [rank["gpu"] for rank in plan["ranks"]] == [0, 1]
    assert any("not in this machine: only a dry run uses them" in reason for reason in plan["reasons"])


def test_a_machine_without_gpus_needs_no_note(described):
    described.inventory("gpus: []\n")
    trained = described("train", *SMALL)
    assert trained.returncode == 0 and "not in this machine" not in trained.stderr


def test_a_map_that_says_what_training_does_anyway_is_accepted(described):
    for words in (["model.device_map=auto"], ["auto_device_map=True"], ["model.device_map=auto", "--num-gpus", "1"],
                  ["model.device_map=cuda"], ["model.device_map=balanced", "--num-gpus", "1"],
                  ["model.device_map=cpu", "--device", "cpu"], ["model.device_map=auto", "--device", "cpu"]):
        planned = described("train", *SMALL, *words, "--dry-run")
        assert planned.returncode == 0, (words, planned.stderr)
    for words, expected in ((["model.device_map=balanced"], "splits one model over the GPUs"),
                            (["model.device_map=sequential"], "splits one model over the GPUs"),
                            (["model.device_map=cuda", "--device", "cpu"], "the device map is cuda, and training is on the CPU"),
                            (["model.device_map=cpu"], "the device map is cpu, and training is on GPUs"),
                            (["model.device_map={model.layers.0: 0, model.layers.1: 1}"], "splits one model")):
        planned = described("train", *SMALL, *words, "--dry-run")
        assert planned.returncode == 2 and expected in planned.stderr, (words, planned.stderr)
        assert "leave the device map out" in planned.stderr


def test_an_automatic_map_is_what_evaluation_does_anyway(described, model):
    asked = ("evaluate", "-m", model, "--data", "builtin:arithmetic", "--device", "cpu", "--json")
    plain = described(*asked)
    assert plain.returncode == 0, plain.stderr
    for words in (["model.device_map=auto"], ["auto_device_map=True"]):
        mapped = described(*asked, *words)
        assert mapped.returncode == 0, (words, mapped.stderr)
        assert json.loads(mapped.stdout)["loss"] == json.loads(plain.stdout)["loss"]
    balanced = described(*asked, "model.device_map=balanced")
    assert balanced.returncode == 2 and "evaluation gives each rank the whole model" in balanced.stderr


def test_fewer_ranks_than_gpus_are_refused_with_both_numbers(described, model):
    (described.folder / "p.txt").write_text("1+1=\n")
    refused = described("generate", "-m", model, "-p", "p.txt", "--num-gpus", "2", "--ranks", "1", "--dry-run")
    assert refused.returncode == 2, refused.stderr
    assert "1 rank and 2 GPUs are asked for: some GPUs would have nothing to do" in refused.stderr
