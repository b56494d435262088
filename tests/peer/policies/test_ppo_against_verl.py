"""Advantages, returns, losses and weights of training with a critic, against verl's formulas over the same answers and torch's
gradients."""

import shutil

import model_cases
import numpy
import pytest
import safetensors.torch
import torch
import train_runs
import trl_policies
import verl_core
from test_policies_against_trl import ROUND, SGD, judge, rows, stop  # noqa: F401

ANY = 1e9  # a clip that nothing reaches
RATE = 0.1
CASES = {
    "usual": {},
    "clipped": dict(clip_range=0.01, clip_range_vf=0.01),
    "values alone": dict(value_loss_coef=1.5, entropy_coef=0, normalize_advantages="false"),
    "undecided": dict(entropy_coef=0.5, gamma=1, gae_lambda=1, missing_eos_penalty=0.3),
}
USUAL = dict(clip_range=0.2, clip_range_vf=ANY, gamma=0.99, gae_lambda=0.95, value_loss_coef=0.5, entropy_coef=0.01, missing_eos_penalty=0)


@pytest.fixture(scope="module")
def model(classroom):
    """With a value head beside it."""
    folder = classroom.folder / "llama-with-values"
    shutil.copytree(classroom.model("llama"), folder)
    hidden = model_cases.load(folder, torch.float32).config.hidden_size
    torch.manual_seed(5)
    head = {"v_head.summary.weight": torch.randn(1, hidden) * 0.3, "v_head.summary.bias": torch.randn(1)}
    safetensors.torch.save_file(head, folder / "value_head.safetensors")
    return folder


@pytest.fixture
def ending(judge, stop):  # noqa: F811
    return {"reward.program": judge, "generation.stop_tokens": stop}


def train(classroom, model, rows, steps, **settings):  # noqa: F811
    return classroom.train(model, rows, 2, algorithm="ppo", max_steps=steps, micro_batch_size=3, sequence_length=64,
                           **SGD | ROUND | {"learning_rate": RATE} | settings)


def padded(answers, key):
    longest = max(len(answer["tokens"]) for answer in answers)
    return torch.tensor([answer[key] + [0] * (longest - len(answer["tokens"])) for answer in answers], dtype=torch.float64)


def mask_of(answers):
    return padded([{"tokens": answer["tokens"], "ones": [1] * len(answer["tokens"])} for answer in answers], "ones")


def rewards_of(answers, penalty, coefficient=0.0, estimator="k1"):
    mask, drawn = mask_of(answers), padded(answers, "log_probabilities")
    rewards = torch.zeros_like(mask)
    if coefficient:
        rewards -= coefficient * verl_core.core_algos().kl_penalty(drawn, padded(answers, "reference"), estimator) * mask
    for row, answer in enumerate(answers):
        rewards[row, len(answer["tokens"]) - 1] += answer["reward"] - (0 if answer["ended"] else penalty)
    return rewards


def assert_advantages(answers, rewards, gamma, smoothing, whitens=True):
    mask, values = mask_of(answers), padded(answers, "values")
    advantages, returns = verl_core.core_algos().compute_gae_advantage_return(rewards, values, mask, gamma, smoothing)
    if whitens:
        assert ((padded(answers, "advantages") - advantages) * mask).abs().max() <= 1e-6
    assert ((padded(answers, "returns") - returns) * mask).abs().max() <= 1e-6


class Oracle:
    """The policy and its head in torch."""

    def __init__(self, folder, temperature):
        self.policy = model_cases.load(folder, torch.float32)
        self.tokenizer = trl_policies.tokenizer_of(folder)
        head = safetensors.torch.load_file(folder / "value_head.safetensors")
        self.head = {name: values.requires_grad_() for name, values in head.items()}
        self.temperature = temperature

    def read(self, answers):
        """Log-probabilities, entropies and values of the answers' tokens, padded."""
        found = []
        for answer in answers:
            prompt = self.tokenizer(answer["question"])["input_ids"]
            tokens = torch.tensor(answer["tokens"])
            output = self.policy(torch.tensor([prompt + answer["tokens"]]), output_hidden_states=True)
            places = slice(len(prompt) - 1, -1)
            chances = torch.log_softmax(output.logits[0, places] / self.temperature, -1)
            hidden = output.hidden_states[-1][0, places]
            values = hidden @ self.head["v_head.summary.weight"][0] + self.head["v_head.summary.bias"]
            found.append((chances.gather(1, tokens[:, None])[:, 0], -(chances.exp() * chances).sum(-1), values))
        return [torch.nn.utils.rnn.pad_sequence(list(of_one), batch_first=True) for of_one in zip(*found, strict=True)]

    def step(self, answers, settings):
        """One update; what the columns of the step should say."""
        core, mask = verl_core.core_algos(), mask_of(answers).float()
        now, entropies, values = self.read(answers)
        drawn = padded(answers, "log_probabilities").float()
        policy, clipped, _, _ = core.compute_policy_loss(drawn, now, padded(answers, "advantages").float(), mask,
                                                         cliprange=settings["clip_range"], clip_ratio_c=ANY)
        value, value_clipped = core.compute_value_loss(values, padded(answers, "returns").float(), padded(answers, "values").float(), mask,
                                                       settings["clip_range_vf"])
        entropy = (entropies * mask).sum() / mask.sum()
        loss = policy + settings["value_loss_coef"] * value - settings["entropy_coef"] * entropy
        parameters = [*self.policy.parameters(), *self.head.values()]
        optimizer = torch.optim.SGD(parameters, lr=RATE)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        difference = (now - drawn).detach()
        mean = lambda numbers: float((numbers * mask).sum() / mask.sum())  # noqa: E731
        told = {"loss": loss, "loss/policy_avg": policy, "loss/value_avg": value, "policy/clipfrac_avg": clipped, "val/clipfrac_avg": value_clipped,
                "policy/entropy_avg": entropy}
        return {column: float(number.detach()) for column, number in told.items()} | {"val/ratio": mean(difference.exp()), "policy/approxkl_avg": mean(difference**2 / 2),
                "policy/kl_avg": mean(difference.exp() - 1 - difference)}


@pytest.mark.parametrize("name", CASES)
def test_two_updates_give_the_weights_of_verls_losses(classroom, model, rows, ending, name):  # noqa: F811
    settings = USUAL | CASES[name]
    run = train(classroom, model, rows, 2, **ending | {"ppo.num_generations": 4, "ppo.num_ppo_epochs": 2} |
                {f"ppo.{key}": value for key, value in CASES[name].items()})
    answers = trl_policies.answers_of(run)
    assert len({answer["reward"] for answer in answers}) > 3 and {answer["ended"] for answer in answers} == {False, True}
    rewards = rewards_of(answers, settings["missing_eos_penalty"])
    assert_advantages(answers, rewards, settings["gamma"], settings["gae_lambda"], settings.get("normalize_advantages") != "false")
    oracle = Oracle(model, 0.9)
    drawn, _, values = oracle.read(answers)
    assert ((padded(answers, "log_probabilities") - drawn) * mask_of(answers)).abs().max() < 1e-5
    assert ((padded(answers, "values") - values) * mask_of(answers)).abs().max() < 1e-5
    before = {name: values.detach().clone() for name, values in oracle.policy.state_dict().items()}
    steps = [oracle.step(answers, settings) for _ in range(2)]
    for column in steps[0]:
        numpy.testing.assert_allclose([float(number) for number in run.column(column)], [step[column] for step in steps], atol=2e-5, rtol=2e-5,
                                      err_msg=column)
    ours, moved = run.tensors(), 0
    for tensor, theirs in oracle.policy.state_dict().items():
        if tensor in ours:
            assert (ours[tensor] - theirs).abs().max() <= 1e-5, tensor
            moved = max(moved, (theirs - before[tensor]).abs().max())
    assert moved > 1e-3
    head = safetensors.torch.load_file(run.folder / "model/value_head.safetensors")
    first = safetensors.torch.load_file(model / "value_head.safetensors")
    assert head.keys() == oracle.head.keys()
    for tensor, theirs in oracle.head.items():
        assert (head[tensor] - theirs).abs().max() <= 1e-5 < (head[tensor] - first[tensor]).abs().max(), tensor
    if name == "clipped":
        assert float(run.column("policy/clipfrac_avg")[1]) > 0 and float(run.column("val/clipfrac_avg")[1]) > 0


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_tokens_pay_for_leaving_the_beginning(classroom, model, rows, ending, estimator):  # noqa: F811
    """In the second round, when the policy has moved, with a price that was adapted to the first one's divergence."""
    run = train(classroom, model, rows, 2, **ending | {"ppo.num_ppo_epochs": 1, "ppo.kl_coef": 0.3, "ppo.kl_estimator": estimator,
                                                       "ppo.adaptive_kl_target": 0.5, "ppo.adaptive_kl_horizon": 100, "learning_rate": 0.02})
    first, second = trl_policies.answers_of(run, 1), trl_policies.answers_of(run, 2)
    controller = verl_core.core_algos().AdaptiveKLController(0.3, 0.5, 100)

    def divergence(answers):
        drawn, reference = padded(answers, "log_probabilities"), padded(answers, "reference")
        return float((verl_core.core_algos().kl_penalty(drawn, reference, estimator) * mask_of(answers)).sum() / len(answers))

    controller.update(divergence(first), len(first))
    assert divergence(first) == 0 != divergence(second) and controller.value < 0.3
    numpy.testing.assert_allclose([float(number) for number in run.column("objective/kl_coef")], [0.3, controller.value], rtol=1e-9)
    assert_advantages(second, rewards_of(second, 0, controller.value, estimator), 0.99, 0.95)
    told = {column: float(run.column(f"objective/{column}")[1]) for column in ("kl", "entropy", "non_score_reward", "rlhf_reward", "scores")}
    assert told["kl"] == pytest.approx(divergence(second), abs=1e-6)
    assert told["non_score_reward"] == pytest.approx(-controller.value * divergence(second), abs=1e-6)
    assert told["rlhf_reward"] == pytest.approx(told["scores"] + told["non_score_reward"], abs=1e-9)
    assert told["entropy"] == pytest.approx(-sum(sum(answer["log_probabilities"]) for answer in second) / len(second), abs=1e-6)
