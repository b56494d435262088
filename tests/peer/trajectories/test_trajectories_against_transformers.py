"""Learning from trajectories, computed again: transformers renders, tokenizes and gives logits, torch the gradients."""

import shutil

import model_cases
import pytest
import torch
import transformers

RATE, BC, WORLD = 0.5, 0.7, 0.2
TEMPLATE = ("{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content ~ '</' ~ m.role ~ '>' }}{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")


def trajectory(said, answers, rewards):
    return {"observations": [{"messages": [{"role": role, "content": content} for role, content in messages], "done": i == len(answers)}
                             for i, messages in enumerate(said)],
            "actions": [{"role": "assistant", "content": answer} for answer in answers],
            "rewards": [{"value": reward} for reward in rewards], "metadata": {"environment": "tool"}}


ROWS = [trajectory([[("system", "be kind"), ("user", "two and two?")], [("tool", "4")], []], ["ask", "it is four"], [0.3, 0.5]),
        trajectory([[("user", "a river")], [("user", "and a stone")], [("user", "thank you"), ("user", "bye")]], ["flows", "lies"], [0, 1]),
        trajectory([[("user", "say nothing")], []], ["no"], [-1]),
        trajectory([[("user", "again")], [("user", "once more")], []], ["again", "more"], [None, 1])]
SETTINGS = {"learning_rate": RATE, "optimizer": "sgd", "weight_decay": 0, "lr_scheduler": "constant",
            "max_grad_norm": 1e9, "sequence_length": 200, "micro_batch_size": 1}


@pytest.fixture(scope="module")
def talker(classroom, tmp_path_factory):
    folder = tmp_path_factory.mktemp("talker") / "model"
    shutil.copytree(classroom.model("llama"), folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def messages_of(row):
    return [[*seen["messages"], *row["actions"][i:i + 1]] for i, seen in enumerate(row["observations"])]


def spans_with_template(tokenizer, row):
    """Of the whole conversation: (tokens, those of answers, those of what is said to them)."""
    messages, text, answers, replies = [], "", [], []
    for number, turn in enumerate(messages_of(row)):
        for message in turn:
            before = len(text)
            messages.append(message)
            text = tokenizer.apply_chat_template(messages, tokenize=False)
            if message["role"] == "assistant":
                answers += range(before + len("<assistant>"), len(text))
            elif number > 0:
                replies += range(before, len(text))
    # A byte is a token.
    return [(tokenizer(text, add_special_tokens=False)["input_ids"], answers, replies)]


def spans_without_template(tokenizer, row):
    """A pair for each answer, and for each reply to one."""
    found, text = [], ""
    for number, turn in enumerate(messages_of(row)):
        said = "\n".join(message["content"] for message in turn if message["role"] != "assistant")
        if number > 0 and said:
            found.append((text + "\n", said, False))
        text += ("\n" if number > 0 else "") + said + ("\n" if number > 0 else "")
        for message in turn:
            if message["role"] == "assistant":
                found.append((text, message["content"], True))
                text += message["content"]
    samples = []
    for prompt, completion, is_answer in found:
        tokens = tokenizer(prompt)["input_ids"]
        whole = tokens + tokenizer(completion, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        places = range(len(tokens), len(whole))
        samples.append((whole, places if is_answer else [], [] if is_answer else places))
    return samples


def train(model, samples, mode, steps):
    """Full batches; the weights after each step, and the loss of each step with its two parts."""
    model = model_cases.load(model, torch.float32)
    answers, replies = (sum(len(sample[part]) for sample in samples) for part in (1, 2))
    history, losses = [], []
    for _ in range(steps):
        sums = [0, 0]
        for tokens, *parts in samples:
            logs = torch.log_softmax(model(torch.tensor([tokens])).logits[0], -1)
            for part, places in enumerate(parts):
                for place in places:
                    sums[part] = sums[part] - logs[place - 1, tokens[place]]
        bc, world = sums[0] / max(answers, 1), sums[1] / max(replies, 1)
        loss = {"behavioral_cloning": bc, "world_model": world, "combined": BC * bc + WORLD * world}[mode]
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= RATE * weight.grad
        losses.append((float(loss), float(bc), float(world)))
        history.append({name: weight.detach().clone() for name, weight in model.named_parameters()})
    return history, losses


@pytest.mark.parametrize("mode", ["behavioral_cloning", "world_model", "combined"])
@pytest.mark.parametrize("templated", [True, False])
def test_one_and_two_steps_give_the_weights_of_transformers(classroom, talker, mode, templated):
    model = talker if templated else classroom.model("llama")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    spans = spans_with_template if templated else spans_without_template
    samples = [sample for row in ROWS for sample in spans(tokenizer, row)]
    parts = {"behavioral_cloning": (1,), "world_model": (2,), "combined": (1, 2)}[mode]
    learnt = [sample for sample in samples if any(sample[part] for part in parts)]
    data = classroom.data(ROWS)
    history, losses = train(model, learnt, mode, 2)
    for steps in (1, 2):
        run = classroom.train(model, data, 1 + (len(learnt) + 1) % 2, max_steps=steps, batch_size=len(learnt),
                              **SETTINGS | {"sft.mode": mode, "sft.bc_weight": BC, "sft.world_model_weight": WORLD})
        ours = run.tensors()
        for name, weight in history[steps - 1].items():
            assert (ours[name] - weight).abs().max() <= 1e-5, (name, steps)
        assert run.losses() == pytest.approx([loss[0] for loss in losses[:steps]], abs=1e-5)
        if mode == "combined":
            assert [float(number) for number in run.column("bc_loss")] == pytest.approx([loss[1] for loss in losses[:steps]], abs=1e-5)
            assert [float(number) for number in run.column("world_model_loss")] == pytest.approx([loss[2] for loss in losses[:steps]], abs=1e-5)
