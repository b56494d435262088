"""muster run --dry-run: the scenarios that people ask for give the schedules that the scheduler's own tests hold."""

import json
import pathlib

import pytest

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "unit/schedule/fixtures"


def matrix(laboratory, choices: int, rounds: int, **more):
    def some(*names):
        return {name: f"/{name}" for name in names[:choices]}

    def stage(span):
        return {"command": ["true", "${model}", "${output}"], "predicted": span}

    return laboratory.write(
        "matrix", rounds_of_training=rounds, **{
            "algorithms": {name: None for name in ["pita", "dpo"][:choices]}, "families": some("llama", "gemma"),
            "datasets": some("gsm8k", "tldr"), "generate": stage("40m"), "train": stage("60m"), "evaluate": stage("20m"), **more,
        })  # fmt: skip


@pytest.mark.parametrize("gpus, golden", [(1, "matrix_1_gpu.txt"), (2, "matrix_2_gpus.txt"), (8, "matrix_8_gpus.txt")])
def test_two_by_two_by_two_in_two_rounds(laboratory, gpus, golden):
    laboratory.set_gpus(gpus)
    done = laboratory.run("run", matrix(laboratory, 2, 2), "--dry-run")
    assert done.stdout == (GOLDEN / golden).read_text()


def test_one_job_alone_generates_on_all_eight_gpus(laboratory):
    laboratory.set_gpus(8)
    done = laboratory.run("run", matrix(laboratory, 1, 1), "--dry-run")
    assert done.stdout == (GOLDEN / "one_job_8_gpus.txt").read_text()


def test_one_job_at_a_time(laboratory):
    laboratory.set_gpus(4)
    file = matrix(laboratory, 2, 1, families={"llama": "/m"}, datasets={"gsm8k": "/d"})
    done = laboratory.run("run", file, "system.use_parallel_execution=false", "--dry-run")
    assert done.stdout == (GOLDEN / "one_at_a_time_4_gpus.txt").read_text()


def test_a_dry_run_writes_nothing_but_the_picture(laboratory):
    file = matrix(laboratory, 2, 2)
    before = sorted(laboratory.folder.iterdir())
    done = laboratory.run("run", file, "--dry-run", "--json", "--svg", "picture.svg")
    assert sorted(laboratory.folder.iterdir()) == sorted([*before, laboratory.folder / "picture.svg"])
    assert (laboratory.folder / "picture.svg").read_text().count('<rect class="box') == 48
    stages = {stage["stage"]: stage for stage in json.loads(done.stdout)["stages"]}
    assert len(stages) == 48
    assert stages["dpo_gemma_tldr_r2.generate"]["after"] == ["dpo_gemma_tldr_r1.evaluate"]


def test_the_builtin_experiment_needs_nothing_but_a_name(laboratory):
    done = laboratory.run("run", "experiment.name=first", "--dry-run", "--json")
    names = [stage["stage"] for stage in json.loads(done.stdout)["stages"]]
    assert sorted(names) == sorted(f"sft_{family}_sums_r{k}.{stage}" for family in ("small", "large") for k in (1, 2)
                                   for stage in ("train", "evaluate"))  # fmt: skip


def test_the_example_is_an_experiment(laboratory):
    done = laboratory.run("run", GOLDEN.parents[3] / "examples/experiment.yaml", "--dry-run")
    assert done.stdout.startswith("16 jobs on 2 GPUs: ")


def test_every_problem_of_a_file_is_told_with_its_line(laboratory):
    (laboratory.folder / "wrong.yaml").write_text(
        "experiment: {nam: x}\nrounds_of_training: 0\nalgoritms: {sft: }\nfamilies: {a b: /m}\ndatasets: {d: /d}\n"
        "train: {comand: [x], gpus: 2-1}\nevaluate: 7\n")  # fmt: skip
    done = laboratory.run("run", "wrong.yaml", "priority=high", status=2)
    for part in ('wrong.yaml:1:14: unknown key "nam"; did you mean "name"?', "wrong.yaml:2:21: rounds_of_training is",
                 'wrong.yaml:3:1: unknown key "algoritms"; did you mean "algorithms"?', 'wrong.yaml:4:12: "a b" cannot be',
                 'wrong.yaml:6:9: unknown key "comand"; did you mean "command"?', "wrong.yaml:6:28: gpus is",
                 "wrong.yaml:7:11: evaluate is", "priority=high: priority is", "experiment.name is missing"):  # fmt: skip
        assert part in done.stderr, (part, done.stderr)


def test_settings_are_checked_as_the_commands_would(laboratory):
    (laboratory.folder / "wrong.yaml").write_text(
        "experiment: {name: x}\nalgorithms:\n  sft: {training: {max_step: 5, save_at_end: nothing}}\n  mine:\nfamilies: {a: /m}\n"
        "datasets: {d: /d}\ngenerate: muster\nevaluate: [score, '${modle}']\n")  # fmt: skip
    done = laboratory.run("run", "wrong.yaml", status=2)
    for part in ("wrong.yaml:3:20: training.max_step: no such setting", "did you mean training.max_steps?",
                 "training.save_at_end is nothing, and the stages of an experiment hand on models",
                 "mine is not an algorithm that muster train knows", "data set d has no prompts", "there is no ${modle}; did you mean ${model}?"):  # fmt: skip
        assert part in done.stderr, (part, done.stderr)


def test_a_later_round_never_begins_with_the_base_model_in_silence(laboratory):
    file = laboratory.write(train=["true", "${model}"], generate="none", evaluate="none")
    done = laboratory.run("run", file, status=2)
    assert "train uses ${model}, from round 2 on the model of the round before" in done.stderr
    laboratory.run("run", file, "rounds_of_training=1", "--dry-run")


def test_more_gpus_than_there_are_is_refused(laboratory):
    done = laboratory.run("run", laboratory.write(), "train.gpus=3", status=3)
    assert "train: 3 GPUs wanted, 2 visible" in done.stderr


def test_a_schedule_needs_the_files_that_the_run_would_need(laboratory):
    file = laboratory.write(families=("a",), train="muster", generate="none")
    done = laboratory.run("run", file, "evaluate.command=[no-such-program]", "--dry-run", status=2)
    assert "data.path is /data/d, and there is no such file or folder" in done.stderr
    assert "model.path is /models/a, and there is no such file or folder" in done.stderr
    assert "the command begins with no-such-program, and there is no such program" in done.stderr
    assert done.stdout == "" and not (laboratory.folder / "experiments").exists()
