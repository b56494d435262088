"""Training in an environment, computed again with transformers: what was drawn is trained on, and nothing that was inserted."""

import json

import model_cases
import pytest
import torch
import trl_policies

RATE, TEMPERATURE = 0.5, 0.9
SETTINGS = {"algorithm": "grpo", "max_steps": 1, "learning_rate": RATE, "optimizer": "sgd", "weight_decay": 0, "lr_scheduler": "constant",
            "max_grad_norm": 1e9, "sequence_length": 400, "num_rollouts_per_iteration": 12, "micro_batch_size": 5,
            "grpo.num_generations": 4, "generation.temperature": TEMPERATURE, "generation.max_new_tokens": 60,
            "generation.stop_tokens": "[32,101,116,97,111]", "environment.type": "debate"}
ROWS = [{"topic": topic, "opponent": [" no."]} for topic in ("Cats?", "Cars?", "Tea?")]


@pytest.fixture(scope="module")
def run(classroom):
    return classroom.train(classroom.model("llama"), classroom.data(ROWS), 2, **SETTINGS)


def drawn_places(answer):
    inserted = {place for begin, end in answer["inserted"] for place in range(begin, end)}
    return [place for place in range(len(answer["tokens"])) if place not in inserted]


def test_episodes_have_several_turns_whose_insertions_have_no_probability(run):
    answers = trl_policies.answers_of(run)
    assert max(len(answer["turns"]) for answer in answers) > 1
    for answer in answers:
        assert len(answer["log_probabilities"]) == len(drawn_places(answer))
        assert len(answer["turns"]) == len(answer["inserted"]) + 1 and len(answer["tokens"]) <= 60
        assert answer["reward"] == pytest.approx(sum(turn["reward"] for turn in answer["turns"]))
        assert all(turn["environment"].strip() == "no." for turn in answer["turns"][:-1])
    assert float(run.column("turns/mean")[0]) == pytest.approx(sum(len(answer["turns"]) for answer in answers) / 12)
    lengths = [len(drawn_places(answer)) for answer in answers]
    assert float(run.column("completions/mean_length")[0]) == pytest.approx(sum(lengths) / 12)
    assert float(run.column("sampling/sampling_logp_difference/mean")[0]) == 0


def test_one_step_gives_the_weights_of_the_formula(classroom, run):
    answers = trl_policies.answers_of(run)
    model = model_cases.load(classroom.model("llama"), torch.float32)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    tokenizer = trl_policies.tokenizer_of(classroom.model("llama"))
    count = sum(len(drawn_places(answer)) for answer in answers)
    loss = 0
    for answer in answers:
        prompt = tokenizer(answer["question"])["input_ids"]
        ids = torch.tensor([prompt + answer["tokens"]])
        logs = torch.log_softmax(model(ids).logits[0] / TEMPERATURE, -1)
        places = drawn_places(answer)
        found = torch.stack([logs[len(prompt) + place - 1, answer["tokens"][place]] for place in places])
        assert (found - torch.tensor(answer["log_probabilities"])).abs().max() < 1e-4
        loss = loss - answer["advantage"] * found.sum() / count
    loss.backward()
    ours, moved = run.tensors(), 0
    for name, weight in model.named_parameters():
        expected = before[name] - RATE * weight.grad
        assert (ours[name] - expected).abs().max() <= 1e-5, name
        moved = max(moved, (expected - before[name]).abs().max())
    assert moved > 1e-3


def test_members_of_a_group_share_one_problem(run):
    questions = {}
    for answer in trl_policies.answers_of(run):
        questions.setdefault(answer["prompt"], set()).add(answer["question"])
    assert len(questions) == 3 and all(len(found) == 1 for found in questions.values())
    assert json.dumps(ROWS[0]["topic"]).strip('"') in questions[0].pop()
