"""Weights, losses and metrics of training by rewards, against TRL's trainers over the same answers."""

import collections
import sys

import model_cases
import numpy
import pytest
import torch
import train_runs
import trl_policies

RATE = 0.5
SGD = dict(optimizer="sgd", learning_rate=RATE, weight_decay=0, lr_scheduler="constant", max_grad_norm=1e9)
ROUND = {"num_rollouts_per_iteration": 12, "generation.max_new_tokens": 9, "generation.temperature": 0.9,
         "reward.functions": "program"}

# Settings of muster, of TRL, and updates with the round's answers.
GRPO = {
    "dapo": ({}, dict(loss_type="dapo"), 1),
    "grpo, not divided": (dict(loss_type="grpo", scale_rewards="none"), dict(loss_type="grpo", scale_rewards="none"), 1),
    "dr_grpo": (dict(loss_type="dr_grpo", scale_rewards="none"), dict(loss_type="dr_grpo", scale_rewards="none"), 1),
    "divided by the batch's": (dict(scale_rewards="batch"), dict(loss_type="dapo", scale_rewards="batch"), 1),
    "luspo": (dict(loss_type="luspo", importance_sampling_level="sequence"), dict(loss_type="luspo", importance_sampling_level="sequence"), 2),
    "cut ones masked": (dict(mask_truncated_completions="true"), dict(loss_type="dapo", mask_truncated_completions=True), 1),
    "twice": (dict(num_iterations=2, epsilon=0.02), dict(loss_type="dapo", num_iterations=2, epsilon=0.02), 2),
    "twice, asymmetric and capped": (dict(num_iterations=2, epsilon=0.01, epsilon_high=0.03, delta=1.05),
                                     dict(loss_type="dapo", num_iterations=2, epsilon=0.01, epsilon_high=0.03, delta=1.05), 2),
    "sequences, twice": (dict(loss_type="grpo", importance_sampling_level="sequence", num_iterations=2, epsilon=0.01),
                         dict(loss_type="grpo", importance_sampling_level="sequence", num_iterations=2, epsilon=0.01), 2),
    "cispo, twice": (dict(loss_type="cispo", num_iterations=2, epsilon_high=1.02), dict(loss_type="cispo", num_iterations=2, epsilon_high=1.02), 2),
    "sapo, twice": (dict(loss_type="sapo", num_iterations=2), dict(loss_type="sapo", num_iterations=2), 2),
}
# With another reference than the model, which is what a resumed adapter or a second round has: TRL reads it from the model's folder.
HELD = {"dapo": dict(loss_type="dapo"), "grpo, twice": dict(loss_type="grpo", num_iterations=2, epsilon=0.02)}
CLIPS = ["clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"]


JUDGE = """import json, sys, zlib
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], "reward": zlib.crc32(asked["completion"].encode()) % 5 / 4}), flush=True)
"""


@pytest.fixture(scope="module")
def judge(classroom):
    """As arbitrary as what a random model writes."""
    path = classroom.folder / "judge.py"
    path.write_text(JUDGE)
    return f"{sys.executable} {path}"


@pytest.fixture(scope="module")
def stop(classroom, rows, judge):
    """A token that the model likes, so that some answers end and some do not."""
    run = train(classroom, rows, "grpo", 1, **{"grpo.num_generations": 4, "reward.program": judge})
    drawn = collections.Counter(token for answer in trl_policies.answers_of(run) for token in answer["tokens"][2:])
    return drawn.most_common(1)[0][0]


@pytest.fixture
def ending(judge, stop):
    return {"reward.program": judge, "generation.stop_tokens": stop}


@pytest.fixture(scope="module")
def rows(classroom):
    return classroom.data([{"prompt": row["prompt"], "answer": row["completion"]} for row in train_runs.pairs(3, seed=4)])


def train(classroom, rows, algorithm, steps, ranks=2, **settings):
    model = classroom.model("llama")
    return classroom.train(model, rows, ranks, algorithm=algorithm, max_steps=steps, micro_batch_size=3, sequence_length=64,
                           **SGD | ROUND | settings)


def assert_alike(classroom, run, oracle, logged, columns):
    before = model_cases.load(classroom.model("llama"), torch.float32).state_dict()
    ours, moved = run.tensors(), 0
    for name, theirs in oracle.state_dict().items():
        if name in ours:
            assert (ours[name] - theirs).abs().max() <= 1e-5, name
            moved = max(moved, (theirs - before[name]).abs().max())
    assert moved > 1e-3  # a comparison of weights that stay would prove nothing
    numpy.testing.assert_allclose(run.losses(), [line["loss"] for line in logged], atol=1e-5)
    for column in columns:  # TRL tells what is of a round once
        theirs = [line[column] for line in logged if column in line]
        assert theirs, column
        numpy.testing.assert_allclose([float(number) for number in run.column(column)][:len(theirs)], theirs, atol=1e-5, rtol=1e-5, err_msg=column)


@pytest.mark.parametrize("name", GRPO)
def test_grpo_gives_the_weights_of_trl(classroom, rows, ending, tmp_path, name):
    trl = pytest.importorskip("trl")
    own, settings, steps = GRPO[name]
    if steps == 2 and "num_iterations" not in own:
        own, settings = own | {"num_iterations": 2}, settings | {"num_iterations": 2}
    run = train(classroom, rows, "grpo", steps, **ending | {"grpo.num_generations": 4} | {f"grpo.{key}": value for key, value in own.items()})
    answers = trl_policies.answers_of(run)
    assert len({answer["reward"] for answer in answers}) > 3 and {answer["ended"] for answer in answers} == {False, True}
    oracle, logged = trl_policies.train(trl.GRPOTrainer, trl.GRPOConfig, classroom.model("llama"), answers, tmp_path, steps, RATE, stop=ending["generation.stop_tokens"],
                                        temperature=0.9, max_completion_length=9, beta=0.0, **settings)
    clips = "cispo" not in name and "sapo" not in name
    columns = ["reward", "frac_reward_zero_std", "completions/mean_length", "completions/max_length"]
    assert_alike(classroom, run, oracle, logged, columns + (CLIPS if clips else []))
    if "epsilon" in own and clips:
        assert float(run.column("clip_ratio/region_mean")[1]) > 0


def test_rloo_gives_the_weights_of_trl(classroom, rows, ending, tmp_path):
    trl = pytest.importorskip("trl")
    run = train(classroom, rows, "rloo", 2, **ending | {"rloo.num_generations": 4, "rloo.num_iterations": 2, "rloo.epsilon": 0.05, "rloo.beta": 0})
    oracle, logged = trl_policies.train(trl.RLOOTrainer, trl.RLOOConfig, classroom.model("llama"), trl_policies.answers_of(run), tmp_path,
                                        2, RATE, stop=ending["generation.stop_tokens"], temperature=0.9, max_completion_length=9, beta=0.0, num_iterations=2, epsilon=0.05)
    assert_alike(classroom, run, oracle, logged, ["reward"])


@pytest.mark.parametrize("name", HELD)
def test_grpo_held_to_its_beginning_gives_the_weights_of_trl(classroom, rows, ending, tmp_path, name):
    """Two updates: in the first one nothing holds, as policy and reference are the same."""
    trl = pytest.importorskip("trl")
    settings, rate = dict(HELD[name], num_iterations=2), 0.1
    run = train(classroom, rows, "grpo", 2, **ending | {"grpo.num_generations": 4, "grpo.beta": 0.7, "learning_rate": rate} | {f"grpo.{key}": value for key, value in settings.items()})
    oracle, logged = trl_policies.train(trl.GRPOTrainer, trl.GRPOConfig, classroom.model("llama"), trl_policies.answers_of(run), tmp_path, 2, rate, stop=ending["generation.stop_tokens"],
                                        temperature=0.9, max_completion_length=9, beta=0.7, **settings)
    assert_alike(classroom, run, oracle, logged, ["reward", "kl"])
    assert float(run.column("kl")[0]) == 0 < float(run.column("kl")[1])


def test_rloo_pays_for_leaving_its_beginning(classroom, rows, ending):
    """In the second round, when the policy has moved: against the formula, over the answers that were written down."""
    run = train(classroom, rows, "rloo", 2, **ending | {"rloo.num_generations": 4, "rloo.beta": 0.3})
    answers = trl_policies.answers_of(run, 2)
    assert any(answer["reference"] != answer["log_probabilities"] for answer in answers)
    for begin in range(0, len(answers), 4):
        group = answers[begin:begin + 4]
        earned = [answer["reward"] - 0.3 * (sum(answer["log_probabilities"]) - sum(answer["reference"])) for answer in group]
        for i, answer in enumerate(group):
            assert answer["advantage"] == pytest.approx(earned[i] - (sum(earned) - earned[i]) / 3, abs=1e-9)


def test_what_was_sampled_has_the_probabilities_that_training_computes(classroom, rows, ending):
    """To the bit, in every type that is computed in."""
    for words in ({}, {"mixed_precision": "bf16"}, {"mixed_precision": "fp16"}, {"model.use_lora": "true", "model.lora_r": 2}):
        run = train(classroom, rows, "grpo", 2, **ending | {"grpo.num_generations": 4} | words)
        assert {float(number) for number in run.column("sampling/sampling_logp_difference/mean")} == {0.0}, words
        assert float(run.column("gradient_norm")[0]) > 0
