"""muster run with muster's own stages: real training, generation and evaluation on CPU ranks, on GPUs of a file."""

import hashlib
import json

TINY = ("algorithms.sft.training.max_steps=4", "algorithms.sft.training.batch_size=8",
        "algorithms.sft.training.warmup_steps=1", "data.digits=1", "train.distributed.ranks=2")  # fmt: skip


def digest(model) -> str:
    (weights,) = model.glob("*.safetensors")
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def test_two_families_learn_sums_in_two_rounds(laboratory):
    done = laboratory.run("run", "experiment.name=sums", "device=cpu", *TINY)
    place = laboratory.folder / "experiments/sums"
    for family in ("small", "large"):
        first, second = (laboratory.read("sums", f"sft_{family}_sums_r{k}", "train.json") for k in (1, 2))
        (model,) = (place / f"sft_{family}_sums_r1/train").glob("*/model")
        assert first["model"] == str(model) and first["sha256"] == digest(model)
        start = laboratory.read("sums", f"sft_{family}_sums_r2", "start.json")
        assert start == {"model": str(model), "sha256": digest(model), "from_round": 1}
        assert second["sha256"] not in (first["sha256"], None)
        (spec,) = (place / f"sft_{family}_sums_r2/train").glob("*/spec.yaml")
        assert str(model) in spec.read_text()
        assert laboratory.read("sums", f"sft_{family}_sums_r1", "start.json")["model"].startswith("builtin:")
    rows = [json.loads(line) for line in (place / "results.jsonl").read_text().splitlines()]
    assert len(rows) == 4 and all(0 < row["loss"] < 8 and row["questions"] > 0 for row in rows)
    assert len({row["loss"] for row in rows}) == 4
    assert done.stdout.count("EVAL_COMPLETED") == 4 and "exact_match" in done.stdout

    # A trained model answers prompts, and is trained on what it answered.
    model = laboratory.read("sums", "sft_small_sums_r2", "train.json")["model"]
    (laboratory.folder / "prompts.jsonl").write_text("".join(f'{{"prompt": "{a}+1="}}\n' for a in range(6)))
    spec = {
        "experiment": {"name": "own"}, "device": "cpu", "algorithms": {"sft": None}, "families": {"grown": model},
        "datasets": {"d": {"prompts": "prompts.jsonl"}}, "generate": {"generation.max_new_tokens": 4, "generation.samples": 2},
        "train": {"training": {"max_steps": 2, "batch_size": 4, "sequence_length": 16}}, "evaluate": "none",
    }  # fmt: skip
    (laboratory.folder / "own.yaml").write_text(json.dumps(spec))
    laboratory.run("run", "own.yaml")
    data = [json.loads(line) for line in (laboratory.folder / "experiments/own/sft_grown_d_r1/data.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in data] == [f"{a}+1=" for a in range(6) for _ in range(2)]
    start, trained = (laboratory.read("own", "sft_grown_d_r1", name) for name in ("start.json", "train.json"))
    assert start["sha256"] == laboratory.read("sums", "sft_small_sums_r2", "train.json")["sha256"] != trained["sha256"]
    assert any(word.endswith("sft_grown_d_r1/data.jsonl") for word in trained["command"])


def test_on_gpus_of_a_file_jobs_take_turns_and_the_cpu_computes(laboratory):
    done = laboratory.run("run", "experiment.name=first", "rounds_of_training=1", *TINY)
    assert "gpus.yaml are not in this machine" in done.stderr and "stages compute on the CPU" in done.stderr
    assert done.stdout.count("EVAL_COMPLETED") == 2
    for family in ("small", "large"):
        for stage in ("train", "evaluate"):
            record = laboratory.read("first", f"sft_{family}_sums_r1", f"{stage}.json")
            assert record["status"] == "done" and "distributed.device=cpu" in record["command"], record
            assert record["gpus"] in ("0", "1"), "the queue gave it a GPU of the file"
