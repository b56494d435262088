"""Weights after training, against transformers' model trained by torch.optim on the same batches."""

import json
import os
import pathlib
import subprocess
import sys

import model_cases
import numpy
import pytest
import smollm2_finetune
import torch
import torch_training
import train_runs

STEPS = 50
# Adam's first step is the sign of a gradient wherever that is far above epsilon, and so are all steps of gradients that
# are nothing but rounding: those of the biases of gpt2's keys (a softmax does not see what is added to all its scores).
# There the sign is chance with torch's own 1e-8.
USUAL_EPSILON, SAFE_EPSILON = 1e-8, 1e-5


def assert_weights_equal(run, oracle, before, bound=1e-5):
    ours = run.tensors()
    moved = 0
    for name, theirs in oracle.state_dict().items():
        if name not in ours:  # tied
            continue
        assert (ours.pop(name) - theirs).abs().max() <= bound, name
        moved = max(moved, (theirs - before[name]).abs().max())
    assert not ours
    assert moved > 100 * bound  # a comparison of weights that stay would prove nothing


def compare(classroom, name, steps, settings, optimizer_of, warmup=0, most_norm=1.0):
    model = classroom.model(name)
    data = classroom.data(train_runs.pairs(30))
    run = classroom.train(model, data, ranks=2, max_steps=steps, batch_size=8, warmup_steps=warmup,
                          lr_scheduler="cosine", max_grad_norm=most_norm, **settings)
    lessons = torch_training.lessons_of(classroom.samples(model, data, steps=steps, batch_size=8))
    oracle = model_cases.load(model, torch.float32)
    before = {name: tensor.clone() for name, tensor in oracle.state_dict().items()}
    optimizer = optimizer_of(oracle.parameters())
    losses, norms = torch_training.train(oracle, lessons, optimizer, torch_training.cosine(optimizer, warmup, steps), most_norm)
    assert_weights_equal(run, oracle, before)
    numpy.testing.assert_allclose(run.losses(), losses, atol=1e-5)
    numpy.testing.assert_allclose([float(norm) for norm in run.column("gradient_norm")], norms, rtol=1e-4)
    assert max(norms) > most_norm  # something was clipped
    return run


def adamw(parameters, epsilon=SAFE_EPSILON):
    return torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.1, betas=(0.9, 0.98), eps=epsilon)


ADAMW = dict(learning_rate=2e-3, weight_decay=0.1, adam_beta2=0.98, adam_epsilon=SAFE_EPSILON)


@pytest.mark.parametrize("family", train_runs.FAMILIES)
def test_one_step_of_adamw_gives_the_weights_of_torch(classroom, family):
    compare(classroom, family, 1, ADAMW, adamw)


@pytest.mark.parametrize("family", train_runs.FAMILIES)
def test_fifty_steps_of_adamw_give_the_weights_of_torch(classroom, family):
    """With warm-up, cosine, decay of all parameters, clipping, over several epochs with an uneven tail."""
    epsilon = SAFE_EPSILON if family == "gpt2" else USUAL_EPSILON
    run = compare(classroom, family, STEPS, ADAMW | dict(adam_epsilon=epsilon),
                  lambda parameters: adamw(parameters, epsilon), warmup=5)
    assert run.losses()[-5:].mean() < 0.7 * run.losses()[0]


@pytest.mark.parametrize("name, momentum", [("sgd", 0.0), ("sgd_momentum", 0.9)])
def test_steps_of_sgd_give_the_weights_of_torch(classroom, name, momentum):
    settings = dict(optimizer=name, learning_rate=0.05, weight_decay=0.01)
    compare(classroom, "llama-tied", 20, settings, lambda parameters: torch.optim.SGD(
        parameters, lr=0.05, weight_decay=0.01, momentum=momentum), warmup=3)


def test_what_the_assistant_says_is_trained_on_and_nothing_else(classroom, tmp_path):
    """Against transformers' mask of assistant tokens, in one step."""
    model = classroom.model("llama")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = ("{{ bos_token }}{% for m in messages %}{{ '<' + m.role + '>' }}{% if m.role == 'assistant' %}"
                               "{% generation %}{{ m.content + eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}"
                               "{% endfor %}")
    folder = classroom.folder / "models" / "llama-chat"
    model_cases.load(model, torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    rows = []
    for one, two in zip(train_runs.pairs(6), train_runs.pairs(6, seed=2), strict=True):
        said = [("system", "Be brief."), ("user", one["prompt"]), ("assistant", one["completion"]),
                ("user", two["prompt"]), ("assistant", two["completion"])]
        rows.append({"messages": [{"role": role, "content": content} for role, content in said]})
    run = classroom.train(folder, classroom.data(rows), max_steps=1, batch_size=6, **ADAMW)
    samples = []
    for row in rows:
        encoded = tokenizer.apply_chat_template(row["messages"], return_dict=True, return_assistant_tokens_mask=True)
        samples.append({"tokens": encoded["input_ids"], "mask": encoded["assistant_masks"]})
    lesson = torch_training.lesson(samples)
    assert 0 < torch_training.trained_tokens(lesson) < lesson.tokens.numel() / 2
    oracle = model_cases.load(folder, torch.float32)
    before = {name: tensor.clone() for name, tensor in oracle.state_dict().items()}
    losses, _ = torch_training.train(oracle, [lesson], adamw(oracle.parameters()))
    assert abs(run.losses()[0] - losses[0]) <= 1e-5
    assert [event["trained"] for event in run.events("step")] == [torch_training.trained_tokens(lesson)]
    assert_weights_equal(run, oracle, before)


def test_the_loss_curve_is_that_of_a_torch_ddp_script(classroom, tmp_path):
    """200 steps on two ranks under torchrun."""
    model = classroom.model("llama")
    data = classroom.data(train_runs.pairs(48, most_words=2))
    steps = 200
    run = classroom.train(model, data, ranks=2, max_steps=steps, batch_size=4, lr_scheduler="linear", warmup_steps=10,
                          **ADAMW | dict(learning_rate=5e-4, adam_epsilon=USUAL_EPSILON))
    lessons = tmp_path / "lessons.json"
    lessons.write_text(json.dumps(classroom.samples(model, data, steps=steps, batch_size=4)))
    script = pathlib.Path(__file__).with_name("ddp_script.py")
    out = tmp_path / "losses.json"
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script),
                    str(model), str(lessons), str(out)], check=True, env=environment | {"OMP_NUM_THREADS": "1"}, timeout=300)
    theirs = numpy.array(json.loads(out.read_text()))
    assert numpy.abs(run.losses() - theirs).max() <= 1e-4
    assert theirs[-1] < 0.5 * theirs[0]


def test_the_held_out_loss_of_a_model_taught_real_text_is_that_of_transformers_on_its_export(classroom, tmp_path):
    """bench/train/smollm2_finetune.py in small."""
    training, held_out = smollm2_finetune.write_texts(tmp_path, 150, 12)
    model = classroom.model("llama")
    settings = {"data.eval_path": held_out, "sequence_length": 96, "learning_rate": 3e-3}
    run = classroom.train(model, training, ranks=2, max_steps=20, batch_size=16, **settings)
    before, tokens = smollm2_finetune.held_out_loss(model, held_out, 96)
    after, _ = smollm2_finetune.held_out_loss(run.folder / "model", held_out, 96)
    assert run.events("evaluated")[-1]["tokens"] == tokens
    assert abs(run.result()["eval_loss"] - after) <= 1e-4
    assert after < 0.95 * before
