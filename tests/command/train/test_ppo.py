"""Training by rewards with a critic: the same bits however it is laid out, killed or not; when a round ends; what is refused, shown
and left behind."""

import json
import shutil
import subprocess

import pytest
import test_policies as policies
import train_runs
from test_policies import FSDP, LAYOUTS, assert_same_run, cut_back, rollouts_of, rows, table_of  # noqa: F401

SETTINGS = {name: value for name, value in policies.SETTINGS.items() if not name.startswith("grpo.")} | {
    "algorithm": "ppo", "ppo.num_generations": 2, "ppo.num_ppo_epochs": 2, "ppo.kl_coef": 0.1, "ppo.adaptive_kl_target": 0.2,
    "ppo.adaptive_kl_horizon": 50, "ppo.missing_eos_penalty": 0.25, "ppo.clip_range_vf": 0.1}


def train(classroom, rows, ranks=1, **settings):  # noqa: F811
    return classroom.train(classroom.model("llama-tied"), rows, ranks, **SETTINGS | settings)


def head_of(run):
    return (run.folder / "model/value_head.safetensors").read_bytes()


@pytest.fixture(scope="module")
def alone(classroom, rows):  # noqa: F811
    return train(classroom, rows)


@pytest.mark.parametrize("ranks, pass_size, at_once, words", LAYOUTS)
def test_every_layout_gives_the_same_answers_values_and_bits(classroom, rows, alone, ranks, pass_size, at_once, words):  # noqa: F811
    run = train(classroom, rows, ranks, micro_batch_size=pass_size, **{"generation.batch_size": at_once} | words)
    assert_same_run(alone, run)
    assert head_of(run) == head_of(alone)
    table = table_of(run)
    assert len({row["loss/value_avg"] for row in table}) > 3 and {float(row["val/ratio"]) for row in table} > {1.0}
    assert float(table[0]["objective/kl_coef"]) == 0.1 != float(table[-1]["objective/kl_coef"])
    assert {float(row["sampling/sampling_logp_difference/mean"]) for row in table[::4]} == {0.0}


@pytest.mark.parametrize("step, gone", [(2, []), (4, ["round-000002.jsonl"])])
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(classroom, rows, alone, step, gone):  # noqa: F811
    """In the middle of the first round, and at its end, when the answers of the second are gone and its price has been adapted."""
    begun = train(classroom, rows, 2, save_steps=2)
    cut_back(begun, step)
    for name in gone:
        (begun.folder / "rollouts" / name).unlink()
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 3, **SETTINGS | FSDP | {"save_steps": 2, "experiment.resume": begun.folder})
    assert gone_on.code == 0 and f"resuming after step {step}" in gone_on.text, gone_on.text
    assert_same_run(alone, begun)
    assert head_of(alone) == head_of(begun)


def test_answers_are_written_down_with_what_was_expected_of_them(alone):
    _, *answers = map(json.loads, rollouts_of(alone)["round-000001.jsonl"].splitlines())
    tokens = [advantage for answer in answers for advantage in answer["advantages"]]
    assert sum(tokens) == pytest.approx(0, abs=1e-9)
    assert sum(advantage**2 for advantage in tokens) / (len(tokens) - 1) == pytest.approx(1, rel=1e-5)
    for answer in answers:
        assert len(answer["values"]) == len(answer["advantages"]) == len(answer["returns"]) == len(answer["tokens"])
        assert answer["advantage"] == pytest.approx(sum(answer["advantages"]) / len(answer["tokens"]))
        score = answer["reward"] - (0 if answer["ended"] else 0.25)
        assert answer["returns"][-1] == pytest.approx(score)  # nothing lies between policy and reference in the first round


def test_a_round_ends_where_the_policy_is_too_far_from_what_drew_it(classroom, rows, alone):  # noqa: F811
    """The same on all ranks, and when it is resumed right after such a step."""
    far = [float(row["policy/kl_avg"]) for row in table_of(alone)]
    words = {"ppo.target_kl": far[1] / 2}
    run = train(classroom, rows, 1, **words)
    assert len(rollouts_of(run)) > len(rollouts_of(alone))
    assert far[1] > 0 and float(table_of(run)[2]["policy/kl_avg"]) == 0  # a new round
    assert_same_run(run, train(classroom, rows, 3, **words))
    begun = train(classroom, rows, 2, save_steps=2, **words)
    cut_back(begun, 2)
    gone_on = classroom.start(classroom.model("llama-tied"), rows, 2, **SETTINGS | words | {"save_steps": 2, "experiment.resume": begun.folder})
    assert gone_on.code == 0 and "resuming after step 2" in gone_on.text, gone_on.text
    assert_same_run(run, begun)


def test_a_head_beside_the_model_is_gone_on_with(classroom, rows, alone):  # noqa: F811
    """And one that does not fit is refused."""
    folder = alone.folder / "model"
    run = classroom.train(folder, rows, **SETTINGS | {"max_steps": 1})
    _, first, *_ = rollouts_of(run)["round-000001.jsonl"].splitlines()
    (classroom.folder / "bare").exists() or shutil.copytree(folder, classroom.folder / "bare", ignore=shutil.ignore_patterns("value_head*"))
    fresh = classroom.train(classroom.folder / "bare", rows, **SETTINGS | {"max_steps": 1})
    _, other, *_ = rollouts_of(fresh)["round-000001.jsonl"].splitlines()
    first, other = json.loads(first), json.loads(other)
    assert first["tokens"] == other["tokens"] and first["values"] != other["values"]
    (classroom.folder / "bare/value_head.safetensors").write_bytes((classroom.model("gpt2") / "model.safetensors").read_bytes())
    refused = classroom.start(classroom.folder / "bare", rows, **SETTINGS)
    assert refused.code == 2 and "has no v_head.summary.weight" in refused.text, refused.text


def test_adapters_are_trained_beside_a_head(classroom, rows):  # noqa: F811
    """Its file lies beside the adapter, from which a run goes on; the reference is the model without the adapter."""
    words = {"model.use_lora": "true", "model.lora_r": 2, "learning_rate": 5e-2}
    run = train(classroom, rows, 1, **words)
    assert_same_run(run, train(classroom, rows, 3, **words | FSDP))
    config = json.loads((run.folder / "model/adapter_config.json").read_text())
    assert "v_head" not in json.dumps(config)
    table = table_of(run)
    assert float(table[0]["objective/kl"]) == 0 != float(table[-1]["objective/kl"])
    more = classroom.train(classroom.model("llama-tied"), rows, 2, **SETTINGS | {"max_steps": 2, "model.adapters": run.folder / "model"})
    assert head_of(more) != head_of(run)


def test_answers_without_a_reward_teach_nothing(classroom, tmp_path):
    judge = tmp_path / "judge.py"
    judge.write_text("import json, sys\n"
                     "for line in sys.stdin:\n"
                     "    asked = json.loads(line)\n"
                     "    print(json.dumps({'id': asked['id'], 'reward': asked['row']['level'] or None}), flush=True)\n")
    data = classroom.data([{"prompt": row["prompt"], "level": i} for i, row in enumerate(train_runs.pairs(8, seed=4))])
    run = train(classroom, data, 2, max_steps=1, **policies.UNSET | {"reward.functions": "program", "reward.program": f"python3 {judge}"})
    _, *answers = map(json.loads, rollouts_of(run)["round-000001.jsonl"].splitlines())
    unjudged = [answer for answer in answers if answer["reward"] is None]
    assert len(unjudged) == float(table_of(run)[0]["unjudged"]) == 2
    assert all(answer["advantage"] == 0 and answer["advantages"] == [] for answer in unjudged)


def test_a_plan_counts_the_head_and_the_reference(classroom, rows):  # noqa: F811
    def plan(**more):
        words = [f"{name if '.' in name else 'training.' + name}={value}" for name, value in (SETTINGS | more).items()]
        command = [str(train_runs.PROGRAM), "train", "-m", str(classroom.model("llama-tied")), "--device", "cpu", f"data.path={rows}", *words]
        done = subprocess.run([*command, "--dry-run", "--json"], env=classroom.environment, cwd=classroom.folder, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    held, free = plan(), plan(**{"ppo.kl_coef": 0, "ppo.adaptive_kl_target": "null"})
    assert any("rounds of 8 prompts × 2 answers" in reason and "4 updates with each round's" in reason for reason in held["reasons"]), held["reasons"]
    assert held["ranks"][0]["components"]["reference"] > 0 == free["ranks"][0]["components"]["reference"]
    hidden = json.loads((classroom.model("llama-tied") / "config.json").read_text())["hidden_size"]
    plain = json.loads(subprocess.run([str(train_runs.PROGRAM), "plan", str(classroom.model("llama-tied")), "--json"], env=classroom.environment,
                                      capture_output=True, text=True, timeout=60).stdout)["parameters"]
    assert held["parameters"] == plain + hidden + 1
    (batches,) = [reason for reason in plan(**{"batch_size": "null", "ppo.num_mini_batches": 8})["reasons"] if reason.startswith("rounds of")]
    assert "16 updates with each round's" in batches


@pytest.mark.parametrize("settings, words", [
    ({"ppo.kl_coef": 0}, "ppo.adaptive_kl_target adapts ppo.kl_coef, which is 0"),
    ({"ppo.num_mini_batches": 4}, "ppo.num_mini_batches is 4, and training.batch_size 8"),
    ({"ppo.num_mini_batches": 17, "batch_size": "null"}, "a round has 16 answers"),
    ({"ppo.target_kl": 0.1, "max_steps": "null", "num_epochs": 1}, "training.max_steps in the place of training.num_epochs"),
    ({"ppo.gamma": 1.5}, "ppo.gamma"),
    ({"ppo.kl_estimator": "k2"}, "k1, k3"),
])
def test_mistakes_are_told_before_anything_starts(classroom, rows, settings, words):  # noqa: F811
    run = classroom.start(classroom.model("llama-tied"), rows, **SETTINGS | settings)
    assert run.code == 2 and words in run.text, run.text
    assert not run.folder.joinpath("metrics.csv").exists()


def test_the_names_of_other_programs_are_read(classroom, rows, alone):  # noqa: F811
    words = {"ppo.num_ppo_epochs": "ppo.ppo_epochs", "ppo.kl_coef": "ppo.init_kl_coef", "ppo.adaptive_kl_target": "ppo.target",
             "ppo.adaptive_kl_horizon": "ppo.horizon", "ppo.clip_range_vf": "ppo.cliprange_value"}
    settings = {words.get(name, name): value for name, value in SETTINGS.items()}
    run = classroom.train(classroom.model("llama-tied"), rows, **settings | {"ppo.cliprange": 0.2, "ppo.lam": 0.95, "ppo.vf_coef": 0.5})
    assert_same_run(alone, run)
