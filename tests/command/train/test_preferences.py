"""Training by preferences: the same bits however it is laid out, killed or not; what is refused; what is shown."""

import csv
import subprocess

import pytest
import train_runs

SETTINGS = dict(algorithm="dpo", max_steps=6, batch_size=12, learning_rate=2e-3, lr_scheduler="cosine", deterministic="true",
                **{"dpo.loss_type": "sigmoid,sft", "dpo.loss_weights": "1,0.3"})
FSDP = {"distributed.strategy": "fsdp"}
# Ranks, pairs of a pass, where the state is.
LAYOUTS = [(1, 3, {}), (2, 3, {}), (3, 1, {}), (4, 3, {}), (2, 1, FSDP), (3, 2, FSDP),
           (4, 1, FSDP | {"distributed.fsdp_sharding_strategy": "hybrid_shard", "distributed.fsdp_group_size": 2}),
           (2, 2, FSDP | {"distributed.fsdp_cpu_offload": "true"})]


def preferences(count, seed=1):
    asked, other = train_runs.pairs(count, seed), train_runs.pairs(count, seed + 100)
    return [{"prompt": one["prompt"], "chosen": one["completion"], "rejected": two["completion"] + " no"}
            for one, two in zip(asked, other, strict=True)]


@pytest.fixture(scope="module")
def rows(classroom):
    """Steps of 12 pairs, and one of 6 at the end of an epoch."""
    return classroom.data(preferences(30))


@pytest.fixture(scope="module")
def held_out(classroom):
    return classroom.data(preferences(7, seed=9))


def train(classroom, rows, held_out, ranks=1, pass_size=12, **settings):
    return classroom.train(classroom.model("llama-tied"), rows, ranks, micro_batch_size=pass_size, eval_steps=3,
                           **SETTINGS | {"data.eval_path": held_out} | settings)


def table_of(run):
    """metrics.csv without what is time."""
    with open(run.folder / "metrics.csv", newline="") as file:
        return [{name: value for name, value in row.items() if "second" not in name} for row in csv.DictReader(file)]


@pytest.fixture(scope="module", params=["dpo", "orpo", "kto"])
def alone(request, classroom, rows, held_out):
    return train(classroom, rows, held_out, algorithm=request.param)


def algorithm_of(run):
    return next(line.split()[1] for line in (run.folder / "spec.yaml").read_text().splitlines() if line.strip().startswith("algorithm:"))


@pytest.mark.parametrize("ranks, pass_size, words", LAYOUTS)
def test_every_layout_gives_the_same_bits(classroom, rows, held_out, alone, ranks, pass_size, words):
    run = train(classroom, rows, held_out, ranks, pass_size, algorithm=algorithm_of(alone), **words)
    train_runs.assert_same_bits(alone, run)
    assert table_of(run) == table_of(alone)
    assert len({row["rewards/margins"] for row in table_of(run)}) > 4
    assert len({row["loss"] for row in table_of(run)}) > 3


def test_evaluations_measure_what_steps_do(classroom, rows, held_out, alone):
    table = table_of(alone)
    assert [row["eval_rewards/margins"] != "" for row in table] == [False, False, True, False, False, True]
    assert float(table[-1]["eval_logps/chosen"]) < 0
    assert float(table[-1]["eval_rewards/margins"]) == pytest.approx(
        float(table[-1]["eval_rewards/chosen"]) - float(table[-1]["eval_rewards/rejected"]), abs=1e-6)


def test_a_resumed_run_has_the_bits_of_one_that_never_stopped_even_when_the_scores_are_gone(classroom, rows, held_out, alone):
    algorithm = algorithm_of(alone)
    begun = train(classroom, rows, held_out, 2, 3, algorithm=algorithm, save_steps=2)
    for scores in (classroom.folder / "cache/data").glob("*.scores"):
        scores.unlink()
    for name in ("step-4", "step-6"):
        for file in sorted((begun.folder / "checkpoints" / name).rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        (begun.folder / "checkpoints" / name).rmdir()
    (begun.folder / "result.json").unlink()
    settings = SETTINGS | {"algorithm": algorithm, "data.eval_path": held_out, "eval_steps": 3, "save_steps": 2}
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, micro_batch_size=2, **settings | FSDP | {
        "experiment.resume": begun.folder})
    assert gone_on.code == 0 and "resuming after step 2" in gone_on.text, gone_on.text
    train_runs.assert_same_bits(alone, begun)
    assert table_of(begun) == table_of(alone)


def test_the_scores_of_the_reference_are_computed_once(classroom, rows, held_out):
    scores = lambda: {path: path.stat().st_mtime_ns for path in (classroom.folder / "cache/data").glob("*.scores")}
    train(classroom, rows, held_out, max_steps=1)
    before = scores()
    assert before
    train(classroom, rows, held_out, 2, 2, max_steps=2, **{"dpo.beta": 0.5})
    assert scores() == before
    train(classroom, rows, held_out, max_steps=1, mixed_precision="bf16")
    assert len(scores()) == len(before) + 2
    train(classroom, rows, held_out, max_steps=1, **{"dpo.reference_free": "true"})
    assert len(scores()) == len(before) + 2


def test_adapters_are_trained_against_what_they_began_as(classroom, rows, held_out):
    words = {"model.use_lora": "true", "model.lora_r": 2, "learning_rate": 1e-2}
    begun = train(classroom, rows, held_out, max_steps=3, **words)
    assert float(begun.column("rewards/chosen")[0]) == 0 != float(begun.column("rewards/chosen")[1])
    gone_on = train(classroom, rows, held_out, max_steps=2, **{"model.adapters": begun.folder / "model", "learning_rate": 1e-2})
    assert float(gone_on.column("rewards/chosen")[0]) == 0 != float(gone_on.column("rewards/chosen")[1])


@pytest.mark.parametrize("row, words", [
    ({"prompt": "a", "chosen": "b"}, "the row has no \"rejected\""),
    ({"prompt": "a", "chosen": "b", "rejected": "b"}, "are equal"),
    ({"chosen": "b", "rejected": "c"}, "begin differently"),
    ({"prompt": "a", "completion": "b"}, "the row has no \"chosen\""),
])
def test_a_bad_row_is_refused_with_its_file_and_line(classroom, row, words):
    data = classroom.data([*preferences(2), row])
    run = classroom.start(classroom.model("llama-tied"), data, **SETTINGS)
    assert run.code == 2 and f"{data}:3: " in run.text and words in run.text


@pytest.mark.parametrize("row, words", [
    ({"prompt": "a", "completion": "b", "label": "good"}, "\"label\" is \"good\", neither true nor false"),
    ({"prompt": "a", "completion": "b", "label": 1}, "\"label\" is 1"),
    ({"prompt": "a", "completion": "b"}, "the row has no \"label\""),
])
def test_a_label_that_is_none_is_refused_with_its_file_and_line(classroom, row, words):
    data = classroom.data([*preferences(2), row])
    run = classroom.start(classroom.model("llama-tied"), data, **SETTINGS | {"algorithm": "kto"})
    assert run.code == 2 and f"{data}:3: " in run.text and words in run.text


def test_judgements_of_one_prompt_are_refused(classroom):
    data = classroom.data([{"prompt": "a", "completion": word, "label": True} for word in ("b", "c")])
    run = classroom.start(classroom.model("llama-tied"), data, **SETTINGS | {"algorithm": "kto"})
    assert run.code == 2 and "every row has the same prompt" in run.text


@pytest.mark.parametrize("settings, words", [
    ({"packing": "true"}, "training.packing"),
    ({"dpo.loss_weights": "1,2,3"}, "dpo.loss_weights has 3 weights, and dpo.loss_type 2 types"),
    ({"dpo.loss_type": "hinge,ipo", "dpo.label_smoothing": 0.1}, "dpo.label_smoothing is 0.1, and dpo.loss_type [hinge, ipo] takes none"),
    ({"dpo.loss_type": "sigmoid,exo_pair"}, "exo_pair, which needs dpo.label_smoothing above 0"),
    ({"dpo.loss_type": "sigmoid,best"}, "holds \"best\""),
    ({"dpo.beta": 0}, "dpo.beta"),
    ({"batch_size": 7}, "a batch of 7 pairs cannot be shared evenly by 2 ranks"),
])
def test_mistakes_are_told_before_anything_starts(classroom, rows, settings, words):
    run = classroom.start(classroom.model("llama-tied"), rows, 2, **SETTINGS | settings)
    assert run.code in (2, 3) and words in run.text, run.text
    assert not run.folder.joinpath("metrics.csv").exists()


def test_the_example_prefers_right_sums_to_wrong_ones(classroom, tmp_path):
    """Cut short: what comes first is that a right sum is likelier than a wrong one."""
    output = tmp_path / "runs"
    command = [str(train_runs.PROGRAM), "train", "--config", str(train_runs.ROOT / "examples/dpo_arithmetic.yaml"), "--device", "cpu",
               "--ranks", "2", "data.digits=1", "training.max_steps=150", "training.batch_size=32", "training.warmup_steps=10",
               f"experiment.output={output}"]
    done = subprocess.run(command, env=classroom.environment, cwd=classroom.folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "pairs" in done.stderr and "preferred" in done.stderr
    (folder,) = output.iterdir()
    table = table_of(train_runs.Run(0, done.stderr, folder))
    assert float(table[-1]["eval_rewards/margins"]) > 0.05 and float(table[-1]["eval_rewards/accuracies"]) > 0.6
    assert float(table[-1]["rewards/margins"]) > float(table[0]["rewards/margins"]) == 0
