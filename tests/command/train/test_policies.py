"""Training by rewards: the same bits however it is laid out, killed or not; what is refused; what is shown."""

import csv
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

import pytest
import train_runs
from waiting import until

SETTINGS = {"algorithm": "grpo", "max_steps": 6, "learning_rate": 5e-3, "deterministic": "true", "sequence_length": 64,
            "num_rollouts_per_iteration": 16, "batch_size": 8, "micro_batch_size": 3, "generation.max_new_tokens": 8,
            "grpo.num_generations": 4, "grpo.num_iterations": 2, "reward.functions": "format,repetition,exact",
            "reward.format": "a|e|i", "reward.format_match": "search", "reward.weights": "1,0.5,1"}
UNSET = {"reward.format": "null", "reward.format_match": "whole", "reward.weights": "[]"}  # for other functions
FSDP = {"distributed.strategy": "fsdp"}
# Ranks, answers of a pass, answers written side by side, where the state is.
LAYOUTS = [(1, 8, 3, {}), (2, 3, 2, {}), (3, 1, 16, {}), (4, 2, 1, {}), (2, 2, 4, FSDP), (3, 4, 2, FSDP),
           (4, 1, 3, FSDP | {"distributed.fsdp_sharding_strategy": "hybrid_shard", "distributed.fsdp_group_size": 2})]


@pytest.fixture(scope="module")
def rows(classroom):
    """A round takes 4 of 6 prompts; the second one of each epoch is smaller."""
    return classroom.data([{"prompt": row["prompt"], "answer": row["completion"]} for row in train_runs.pairs(6, seed=4)])


def train(classroom, rows, ranks=1, **settings):
    return classroom.train(classroom.model("llama-tied"), rows, ranks, **SETTINGS | settings)


def table_of(run):
    """metrics.csv without what is time."""
    with open(run.folder / "metrics.csv", newline="") as file:
        return [{name: value for name, value in row.items() if "second" not in name} for row in csv.DictReader(file)]


def rollouts_of(run):
    return {path.name: path.read_text() for path in sorted((run.folder / "rollouts").iterdir())}


def assert_same_run(one, other):
    train_runs.assert_same_bits(one, other)
    assert table_of(one) == table_of(other)
    assert rollouts_of(one) == rollouts_of(other)


@pytest.fixture(scope="module")
def alone(classroom, rows):
    return train(classroom, rows)


@pytest.mark.parametrize("ranks, pass_size, at_once, words", LAYOUTS)
def test_every_layout_gives_the_same_answers_and_bits(classroom, rows, alone, ranks, pass_size, at_once, words):
    run = train(classroom, rows, ranks, micro_batch_size=pass_size, **{"generation.batch_size": at_once} | words)
    assert_same_run(alone, run)
    assert len({row["loss"] for row in table_of(run)}) > 3
    assert len({row["reward"] for row in table_of(run)}) > 1


def test_answers_are_written_down_with_what_they_earned(classroom, rows, alone):
    table, files = table_of(alone), rollouts_of(alone)
    assert list(files) == ["round-000001.jsonl", "round-000002.jsonl"]
    first, *answers = map(json.loads, files["round-000001.jsonl"].splitlines())
    assert first["round"] == 1 and first["answers"] == len(answers) == 16
    assert [answer["sample"] for answer in answers] == [0, 1, 2, 3] * 4
    rewards = [answer["reward"] for answer in answers]
    assert float(table[0]["reward"]) == pytest.approx(sum(rewards) / 16)
    for answer in answers:
        assert answer["reward"] == pytest.approx(answer["parts"]["format"] + 0.5 * answer["parts"]["repetition"] + answer["parts"]["exact"])
        assert len(answer["tokens"]) == len(answer["log_probabilities"]) <= 8
        assert answer["ended"] or len(answer["tokens"]) == 8
    for begin in range(0, 16, 4):
        assert sum(answer["advantage"] for answer in answers[begin:begin + 4]) == pytest.approx(0, abs=1e-9)


def cut_back(run, step):
    """As if the run had been killed after this checkpoint."""
    for folder in (run.folder / "checkpoints").iterdir():
        if folder.name.startswith("step-") and int(folder.name[5:]) > step:
            shutil.rmtree(folder)
    (run.folder / "result.json").unlink()


@pytest.mark.parametrize("step, gone", [(2, []), (4, ["round-000002.jsonl"])])
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(classroom, rows, alone, step, gone):
    """In the middle of the first round, and at its end, when the answers of the second are gone."""
    begun = train(classroom, rows, 2, save_steps=2)
    cut_back(begun, step)
    for name in gone:
        (begun.folder / "rollouts" / name).unlink()
    settings = SETTINGS | FSDP | {"save_steps": 2, "experiment.resume": begun.folder}
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, **settings)
    assert gone_on.code == 0 and f"resuming after step {step}" in gone_on.text, gone_on.text
    assert_same_run(alone, begun)


LONGER = {"max_steps": 9, "reward.format": "a|b|c|d|e|f|g|h|i|j|k|l|m"}  # three rounds, with something to learn in each
BEHIND = LONGER | {"off_by": 1}


@pytest.fixture(scope="module")
def behind(classroom, rows):
    return train(classroom, rows, **BEHIND)


def test_a_round_that_is_off_by_one_is_drawn_by_the_weights_that_the_round_before_began_with(classroom, rows, behind):
    """At a rate that changes no weight every round is drawn by the first weights, as then the first two are."""
    fresh = rollouts_of(train(classroom, rows, **LONGER))
    still = rollouts_of(train(classroom, rows, **LONGER | {"learning_rate": 1e-30}))
    late = rollouts_of(behind)
    assert list(fresh) == list(still) == [f"round-{number:06}.jsonl" for number in (1, 2, 3)]
    assert list(late) == [*still, "round-000004.jsonl"]
    first, second, third = still
    assert late[first] == still[first] == fresh[first]
    assert late[second] == still[second] != fresh[second]
    assert late[third] != still[third] and late[third] != fresh[third]


def test_ratios_of_a_round_that_is_off_by_one_are_taken_from_what_drew_it(classroom, rows, behind):
    """Rounds begin with the steps 1, 5 and 7."""
    name = "sampling/sampling_logp_difference/mean"
    fresh, late = (table_of(run) for run in (train(classroom, rows, **LONGER), behind))
    assert [float(fresh[step - 1][name]) for step in (1, 5, 7)] == [0, 0, 0]
    first, *others = (float(late[step - 1][name]) for step in (1, 5, 7))
    assert first == 0 and min(others) > 1e-4
    assert fresh[:4] == late[:4]


@pytest.mark.parametrize("ranks, pass_size, at_once, words", [(3, 1, 16, {}), (2, 2, 4, FSDP)])
def test_rounds_that_are_off_by_one_have_the_same_bits_in_every_layout(classroom, rows, behind, ranks, pass_size, at_once, words):
    run = train(classroom, rows, ranks, micro_batch_size=pass_size, **BEHIND | {"generation.batch_size": at_once} | words)
    assert_same_run(behind, run)


@pytest.mark.parametrize("step", [2, 4, 6])
def test_a_resumed_run_that_is_off_by_one_has_the_bits_of_one_that_never_stopped(classroom, rows, step):
    """In the middle of the first round, at the beginning of the second, and at the end, when more steps are asked for."""
    constant = BEHIND | {"lr_scheduler": "constant", "save_steps": 2}
    whole = train(classroom, rows, **constant)
    begun = train(classroom, rows, 2, **constant | {"max_steps": 6})
    cut_back(begun, step)
    settings = SETTINGS | FSDP | constant | {"experiment.resume": begun.folder}
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, **settings)
    assert gone_on.code == 0 and f"resuming after step {step}" in gone_on.text, gone_on.text
    assert_same_run(whole, begun)


def test_answers_that_only_earlier_weights_could_draw_are_not_drawn_again(classroom, rows):
    begun = train(classroom, rows, **BEHIND | {"save_steps": 2})
    cut_back(begun, 4)
    path = begun.folder / "rollouts/round-000002.jsonl"
    path.unlink()
    settings = SETTINGS | BEHIND | {"save_steps": 2, "experiment.resume": begun.folder}
    run = classroom.start(classroom.model("llama-tied"), rows, **settings)
    assert run.code != 0 and str(path) in run.text and "put the file back" in run.text, run.text


def test_rewards_are_divided_by_the_deviation_of_all_so_far(classroom, rows):
    running = LONGER | {"grpo.reward_normalization": "running", "save_steps": 2}
    whole = train(classroom, rows, **running)
    seen = []
    for text in rollouts_of(whole).values():
        answers = [json.loads(line) for line in text.splitlines()[1:]]
        seen += [answer["reward"] for answer in answers]
        for begin in range(0, len(answers), 4):
            group = answers[begin:begin + 4]
            mean = statistics.fmean(answer["reward"] for answer in group)
            for answer in group:
                assert answer["advantage"] == pytest.approx((answer["reward"] - mean) / (statistics.stdev(seen) + 1e-4), abs=1e-12)
    assert len(seen) == 16 + 8 + 16
    begun = train(classroom, rows, 2, **running)
    cut_back(begun, 6)
    (begun.folder / "rollouts/round-000003.jsonl").unlink()
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, **SETTINGS | running | {"experiment.resume": begun.folder})
    assert gone_on.code == 0, gone_on.text
    assert_same_run(whole, begun)


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_answers_that_are_damaged_are_not_trained_on(classroom, rows, alone, damage):
    begun = train(classroom, rows, save_steps=2)
    cut_back(begun, 2)
    path = begun.folder / "rollouts/round-000001.jsonl"
    text = path.read_text()
    if damage == "gone":
        path.unlink()
    else:
        path.write_text(text[:-200] if damage == "cut" else text.replace('"ended":true', '"ended":false', 1))
    run = classroom.start(classroom.model("llama-tied"), rows, **SETTINGS | {"save_steps": 2, "experiment.resume": begun.folder})
    assert run.code != 0 and str(path) in run.text and "checkpoint at the beginning of a round" in run.text, run.text


def test_a_run_killed_at_any_moment_goes_on_as_if_nothing_had_happened(classroom, rows, alone, tmp_path):
    """How far an attempt comes is told by the events it writes down: on a busy machine as on a quiet one."""
    chance = random.Random(24)
    output = tmp_path / "killed"
    words = [f"{name if '.' in name else 'training.' + name}={value}" for name, value in (SETTINGS | {"save_steps": 1}).items()]
    command = [str(train_runs.PROGRAM), "train", "-m", str(classroom.model("llama-tied")), "--device", "cpu", f"data.path={rows}",
               f"experiment.output={output}", *words]

    def written(event):
        return sum(file.read_text().count(f'"event":"{event}"') for file in output.glob("[!.]*/events.jsonl"))

    kills, moments = 0, [("attempt", 1), ("hello", 1), ("ready", 1), ("step", 1), ("saved", 1), ("step", 2), ("saved", 2), ("ready", 1),
                         ("step", 1), ("saved", 1)]
    while True:
        event, times = moments[min(kills, len(moments) - 1)]
        before, more = written(event), ["--resume"] if output.exists() else []
        running = subprocess.Popen([*command, f"distributed.ranks={1 + kills % 3}", *more], env=classroom.environment,
                                   cwd=classroom.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True)
        if kills < len(moments):
            until(lambda: running.poll() is not None or written(event) >= before + times)
            time.sleep(chance.uniform(0, 0.03))
            if running.poll() is None:
                os.kill(running.pid, signal.SIGKILL)
                running.communicate(timeout=60)
                kills += 1
                continue
        _, text = running.communicate(timeout=240)
        assert running.returncode == 0, text
        (folder,) = output.iterdir()
        assert_same_run(alone, train_runs.Run(0, "", folder))
        if kills >= len(moments) // 2:
            return
        shutil.rmtree(output)  # it came to its end before it was seen to be on its way


def test_a_program_judges_and_sees_the_row(classroom, tmp_path):
    judge = tmp_path / "judge.py"
    judge.write_text("import json, sys\n"
                     "for line in sys.stdin:\n"
                     "    asked = json.loads(line)\n"
                     "    reward = asked['row']['level'] * len(asked['completion']) if asked['row']['level'] else None\n"
                     "    print(json.dumps({'id': asked['id'], 'reward': reward}), flush=True)\n")
    data = classroom.data([{"prompt": row["prompt"], "level": i} for i, row in enumerate(train_runs.pairs(4, seed=4))])
    words = UNSET | {"reward.functions": "program", "reward.program": f"{sys.executable} {judge}", "max_steps": 1}
    run = train(classroom, data, 2, **words)
    answers = [json.loads(line) for line in rollouts_of(run)["round-000001.jsonl"].splitlines()[1:]]
    assert float(table_of(run)[0]["unjudged"]) == 4
    for answer in answers:
        level = answer["prompt"]
        assert answer["reward"] == (level * len(answer["answer"]) if level else None)
        assert level or answer["advantage"] == 0


def test_a_program_that_fails_ends_the_run_and_is_named(classroom, rows, tmp_path):
    judge = tmp_path / "judge.sh"
    judge.write_text("echo nonsense\ncat > /dev/null\n")
    words = SETTINGS | UNSET | {"reward.functions": "program", "reward.program": f"sh {judge}", "distributed.max_restarts": 0}
    run = classroom.start(classroom.model("llama-tied"), rows, 2, **words)
    assert run.code != 0 and "nonsense" in run.text, run.text


def test_rounds_are_evaluated_by_exact_match(classroom, rows):
    run = train(classroom, rows, 2, eval_steps=3, **{"data.eval_path": rows})
    assert [row["exact_match"] != "" for row in table_of(run)] == [False, False, True, False, False, True]


def test_answers_that_all_earn_the_same_teach_nothing(classroom, rows):
    run = train(classroom, rows, max_steps=2, **UNSET | {"reward.functions": "exact"})
    assert [float(row["frac_reward_zero_std"]) for row in table_of(run)] == [1, 1]
    assert [float(row["gradient_norm"]) for row in table_of(run)] == [0, 0]


def test_groups_that_teach_nothing_are_replaced(classroom, rows):
    """The same on every number of ranks, and when it is resumed in the middle of a round."""
    words = {"grpo.max_draws": 4, "reward.functions": "format", "reward.weights": "[]", "max_steps": 4}
    run = train(classroom, rows, 1, **words)
    rounds = [[json.loads(line) for line in text.splitlines()[1:]] for text in rollouts_of(run).values()]
    assert any(len(answers) > 16 for answers in rounds)
    assert_same_run(run, train(classroom, rows, 3, **words))
    begun = train(classroom, rows, 2, save_steps=2, **words)
    cut_back(begun, 2)
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, **SETTINGS | words | {"save_steps": 2, "experiment.resume": begun.folder})
    assert gone_on.code == 0 and "resuming after step 2" in gone_on.text, gone_on.text
    assert_same_run(run, begun)


def test_a_plan_tells_what_a_round_is(classroom, rows):
    def plan(**more):
        words = [f"{name if '.' in name else 'training.' + name}={value}" for name, value in (SETTINGS | more).items()]
        command = [str(train_runs.PROGRAM), "train", "-m", str(classroom.model("llama-tied")), "--device", "cpu", f"data.path={rows}", *words]
        done = subprocess.run([*command, "--dry-run", "--json"], env=classroom.environment, cwd=classroom.folder, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    alone, held = plan(), plan(**{"grpo.beta": 0.1})
    assert any("rounds of 4 prompts × 4 answers, each of up to 8 tokens, 16 written side by side on a rank; 4 updates with each round's, "
               "2 rounds in all" in reason for reason in alone["reasons"]), alone["reasons"]
    assert alone["ranks"][0]["components"]["reference"] == 0 < held["ranks"][0]["components"]["reference"]


@pytest.mark.parametrize("settings, words", [
    (UNSET | {"reward.functions": "null"}, "reward.functions=[exact]"),
    ({"num_rollouts_per_iteration": 15}, "as 16"),
    ({"batch_size": 32}, "a step has 32 answers, and a round 16"),
    ({"generation.temperature": 0}, "generation.temperature is 0"),
    ({"generation.repetition_penalty": 1.2}, "generation.repetition_penalty"),
    ({"grpo.num_generations": 1}, "grpo.num_generations"),
    ({"grpo.loss_type": "luspo"}, "grpo.importance_sampling_level=sequence"),
    ({"grpo.loss_type": "bnpo"}, "bnpo"),
    ({"packing": "true"}, "training.packing"),
    ({"sequence_length": 5}, "training.sequence_length"),
    ({"algorithm": "sft"}, "generation.max_new_tokens is not read by muster train"),
])
def test_mistakes_are_told_before_anything_starts(classroom, rows, settings, words):
    run = classroom.start(classroom.model("llama-tied"), rows, 2, **SETTINGS | settings)
    assert run.code in (2, 3) and words in run.text, run.text
    assert not run.folder.joinpath("metrics.csv").exists()


@pytest.mark.parametrize("row, words", [
    ({"text": "a"}, "no \"prompt\" or \"question\""),
    ({"prompt": " "}, "its prompt is empty"),
    ({"prompt": "a"}, "it has no right answer, and reward.functions=exact compares with it"),
])
def test_a_bad_row_is_refused_with_its_file_and_line(classroom, row, words):
    data = classroom.data([{"prompt": "a", "answer": "b"}, {"question": "c", "solution": "d"}, row])
    run = classroom.start(classroom.model("llama-tied"), data, **SETTINGS)
    assert run.code == 2 and f"{data}:3: " in run.text and words in run.text, run.text


CODE = SETTINGS | UNSET | {"reward.functions": "code_tests", "max_steps": 2}


def test_answers_are_judged_as_code_by_the_tests_of_their_rows(classroom):
    """A model that knows no Python: every program fails, and none of these failures is unknown."""
    data = classroom.data([{"prompt": prompt, "tests": ["assert f(1) == 2", "assert f(2) == 3"]} for prompt in "abcd"])
    run = classroom.train(classroom.model("llama-tied"), data, **CODE)
    assert {row["rewards/code_tests/mean"] for row in table_of(run)} <= {"0", "0.0"}


def test_code_without_tests_or_python_is_refused_before_anything_starts(classroom):
    good = {"prompt": "a", "tests": ["assert f(1) == 2"]}
    data = classroom.data([good, {"prompt": "a", "answer": "b"}])
    run = classroom.start(classroom.model("llama-tied"), data, **CODE)
    assert run.code == 2 and f"{data}:2: it has no tests" in run.text, run.text
    run = classroom.start(classroom.model("llama-tied"), classroom.data([good]), **CODE | {"reward.code_python": "/bin/true"})
    assert run.code == 2 and "/bin/true does not answer as Python does" in run.text, run.text
    assert not run.folder.joinpath("metrics.csv").exists()


def test_the_example_learns_from_rewards(halfway, tmp_path):
    """Cut short: the model it begins with is made, gets most sums right, and then more of them."""
    output = tmp_path / "runs"
    command = [str(train_runs.PROGRAM), "train", "--config", str(train_runs.ROOT / "examples/grpo_arithmetic.yaml"), "--device", "cpu",
               "--ranks", "2", "training.max_steps=25", "training.num_rollouts_per_iteration=1024", f"experiment.output={output}"]
    done = subprocess.run(command, env=halfway.environment, cwd=halfway.folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "made first, once" in (halfway.folder / "said.txt").read_text()
    assert "made first" not in done.stderr and "reward 0." in done.stderr
    (folder,) = output.iterdir()
    table = table_of(train_runs.Run(0, done.stderr, folder))
    rewards = [float(row["reward"]) for row in table]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.05
    assert float(table[-1]["exact_match"]) > 0.7
