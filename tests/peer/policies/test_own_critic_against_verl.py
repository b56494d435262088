"""A policy and a critic with weights of its own, against verl's formulas and torch's gradients over two models of transformers."""

import shutil

import model_cases
import numpy
import pytest
import torch
import transformers
import train_runs
import trl_policies
import verl_core
from test_policies_against_trl import judge, rows, stop  # noqa: F401
from test_ppo_against_verl import ANY, RATE, assert_advantages, ending, mask_of, padded, rewards_of, train  # noqa: F401

CRITIC_RATE = 0.05
USUAL = dict(clip_range=0.2, clip_range_vf=ANY, value_loss_coef=0.5, entropy_coef=0.01)
CASES = {
    "a causal model with a fresh head": ("qwen2", {}),
    "a reward model, clipped": ("llama", dict(clip_range=0.01, clip_range_vf=0.01, value_loss_coef=1.5)),
    "GPT-2": ("gpt2", dict(entropy_coef=0.2)),
}


@pytest.fixture(scope="module")
def critics(classroom):
    """By family; that of Llama is a reward model, whose head it goes on with."""
    scored = classroom.folder / "llama-scored"
    torch.manual_seed(3)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(classroom.model("llama"), num_labels=1, torch_dtype=torch.float32)
    torch.nn.init.normal_(model.score.weight, std=0.3)
    model.save_pretrained(scored)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(classroom.model("llama") / name, scored / name)
    return {"llama": scored, "qwen2": classroom.model("qwen2"), "gpt2": classroom.model("gpt2")}


class Oracle:
    """Both models in torch. critic: with its head, as it begins."""

    def __init__(self, policy, critic):
        self.policy, self.tokenizer = model_cases.load(policy, torch.float32), trl_policies.tokenizer_of(policy)
        self.critic = transformers.AutoModelForSequenceClassification.from_pretrained(critic, num_labels=1, torch_dtype=torch.float32).eval()

    def read(self, answers):
        found = []
        for answer in answers:
            prompt = self.tokenizer(answer["question"])["input_ids"]
            tokens, whole = torch.tensor(answer["tokens"]), torch.tensor([prompt + answer["tokens"]])
            places = slice(len(prompt) - 1, -1)
            chances = torch.log_softmax(self.policy(whole).logits[0, places] / 0.9, -1)
            hidden = self.critic.base_model(whole).last_hidden_state[0, places]
            found.append((chances.gather(1, tokens[:, None])[:, 0], -(chances.exp() * chances).sum(-1), self.critic.score(hidden)[:, 0]))
        return [torch.nn.utils.rnn.pad_sequence(list(of_one), batch_first=True) for of_one in zip(*found, strict=True)]

    def step(self, answers, settings):
        core, mask = verl_core.core_algos(), mask_of(answers).float()
        now, entropies, values = self.read(answers)
        policy, clipped, _, _ = core.compute_policy_loss(padded(answers, "log_probabilities").float(), now, padded(answers, "advantages").float(),
                                                         mask, cliprange=settings["clip_range"], clip_ratio_c=ANY)
        value, value_clipped = core.compute_value_loss(values, padded(answers, "returns").float(), padded(answers, "values").float(), mask,
                                                       settings["clip_range_vf"])
        entropy = (entropies * mask).sum() / mask.sum()
        of_policy, of_critic = policy - settings["entropy_coef"] * entropy, settings["value_loss_coef"] * value
        for model, loss, rate in ((self.policy, of_policy, RATE), (self.critic, of_critic, CRITIC_RATE)):
            optimizer = torch.optim.SGD(model.parameters(), lr=rate)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        told = {"loss": of_policy + of_critic, "loss/policy_avg": policy, "loss/value_avg": value, "policy/clipfrac_avg": clipped,
                "val/clipfrac_avg": value_clipped, "policy/entropy_avg": entropy}
        return {column: float(number.detach()) for column, number in told.items()}


def assert_weights(ours, model, before):
    moved = 0
    for name, theirs in model.state_dict().items():
        if name in ours:
            assert (ours[name] - theirs).abs().max() <= 1e-5, name
            moved = max(moved, (theirs - before[name]).abs().max())
    assert moved > 1e-4


@pytest.mark.parametrize("name", CASES)
def test_two_updates_give_both_models_the_weights_of_verls_losses(classroom, critics, rows, ending, name):  # noqa: F811
    family, changed = CASES[name]
    settings = USUAL | changed
    asked = ending | {"ppo.critic": critics[family], "ppo.critic_learning_rate": CRITIC_RATE, "ppo.num_generations": 4, "ppo.num_ppo_epochs": 2} | {
        f"ppo.{key}": value for key, value in changed.items()}
    policy = classroom.model("llama")
    # A rate that moves nothing tells what a fresh head begins from.
    still = train(classroom, policy, rows, 1, **asked | {"learning_rate": 1e-30, "ppo.critic_learning_rate": 1e-30})
    run = train(classroom, policy, rows, 2, **asked)
    answers = trl_policies.answers_of(run)
    assert len({answer["reward"] for answer in answers}) > 3
    assert_advantages(answers, rewards_of(answers, 0), 0.99, 0.95)
    oracle = Oracle(policy, still.folder / "critic")
    _, _, values = oracle.read(answers)
    assert ((padded(answers, "values") - values) * mask_of(answers)).abs().max() < 1e-5
    before = [{key: tensor.clone() for key, tensor in model.state_dict().items()} for model in (oracle.policy, oracle.critic)]
    steps = [oracle.step(answers, settings) for _ in range(2)]
    for column in steps[0]:
        numpy.testing.assert_allclose([float(number) for number in run.column(column)], [step[column] for step in steps], atol=2e-5, rtol=2e-5,
                                      err_msg=column)
    assert_weights(run.tensors(), oracle.policy, before[0])
    assert_weights(train_runs.read_tensors(run.folder / "critic"), oracle.critic, before[1])
    if "clipped" in name:
        assert float(run.column("val/clipfrac_avg")[1]) > 0
