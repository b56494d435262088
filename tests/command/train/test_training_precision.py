"""Types of two bytes, with masters of four or without; and runs whose numbers stop being numbers."""

import shutil

import model_cases
import numpy
import pytest
import safetensors.torch
import torch
import torch_training
import train_runs

SETTINGS = dict(max_steps=30, batch_size=10, learning_rate=2e-3, warmup_steps=3, lr_scheduler="cosine")


@pytest.fixture(scope="module")
def rows(classroom):
    return classroom.data(train_runs.pairs(30))


@pytest.fixture(scope="module")
def in_float32(classroom, rows):
    return classroom.train(classroom.model("llama"), rows, ranks=2, **SETTINGS)


@pytest.mark.parametrize("computed_in, bound", [("bf16", 0.05), ("fp16", 0.01)])
def test_two_bytes_train_like_four(classroom, rows, in_float32, computed_in, bound):
    run = classroom.train(classroom.model("llama"), rows, ranks=2, mixed_precision=computed_in, **SETTINGS)
    assert run.losses()[-1] < 0.7 * run.losses()[0]
    taken = [event for event in run.events("step") if not event["skipped"]]
    assert len(taken) >= 28
    assert abs(run.losses()[-1] - in_float32.losses()[-1]) <= bound * in_float32.losses()[-1]
    assert run.column() != in_float32.column()


def test_a_step_whose_gradients_overflow_float16_is_skipped_and_told(classroom, rows, tmp_path):
    """A last norm that multiplies by 3000 makes gradients beyond 65504 at the first scale of the loss."""
    model = copy_with(classroom.model("llama"), tmp_path / "model", lambda weights: weights["model.norm.weight"].mul_(3000))
    run = classroom.train(model, rows, ranks=2, mixed_precision="fp16", **SETTINGS | dict(max_steps=24, warmup_steps=0))
    steps = run.events("step")
    skipped = [event["skipped"] for event in steps]
    assert skipped[0] and not skipped[-1]
    assert "skipped" in run.text
    scales = [event["loss_scale"] for event in steps]
    assert scales[0] == 65536
    for one, other, was in zip(scales, scales[1:], skipped):
        assert other == (one / 2 if was else one)
    # Weights stay where they are until the first step that is taken.
    first = skipped.index(False)
    before = classroom.train(model, rows, ranks=2, mixed_precision="fp16", **SETTINGS | dict(max_steps=first, warmup_steps=0))
    original = train_runs.read_tensors(model)
    assert train_runs.furthest(before.tensors(), original) == 0
    assert train_runs.furthest(run.tensors(), original) > 0


def test_float16_without_masters_is_refused(classroom, rows):
    settings = {"model.dtype": "float16", "mixed_precision": "no", **SETTINGS}
    run = classroom.start(classroom.model("llama"), rows, **settings)
    assert run.code == 2
    assert "training.mixed_precision=fp16" in run.text


NARROW = {"model.dtype": "bfloat16", "mixed_precision": "no"}


@pytest.mark.parametrize("family, ranks", [("llama", 1), ("qwen2", 2), ("gpt2", 2)])
def test_everything_in_bfloat16_trains_like_torch_does(classroom, rows, family, ranks):
    """Parameters, gradients and both moments, as of a bfloat16 model under torch's fused AdamW."""
    model = classroom.model(family)
    run = classroom.train(model, rows, ranks=ranks, **NARROW, **SETTINGS)
    assert "parameters and optimizer in bfloat16" in run.text
    tensors = run.tensors()
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    lessons = torch_training.lessons_of(classroom.samples(model, rows, steps=30, batch_size=10))
    oracle = model_cases.load(model, torch.bfloat16)
    optimizer = torch.optim.AdamW(oracle.parameters(), lr=2e-3, weight_decay=0, fused=True)
    losses, norms = torch_training.train(oracle, lessons, optimizer, torch_training.cosine(optimizer, 3, 30))
    assert losses[-1] < 0.7 * losses[0]
    numpy.testing.assert_allclose(run.losses(), losses, rtol=0.005)
    numpy.testing.assert_allclose([float(norm) for norm in run.column("gradient_norm")], norms, rtol=0.02)
    mixed = classroom.train(model, rows, ranks=ranks, mixed_precision="bf16", **SETTINGS)
    assert mixed.losses()[0] == run.losses()[0]
    assert numpy.abs(mixed.losses() / losses - 1).max() > 0.005  # masters of four bytes go another way


def test_a_resumed_run_in_bfloat16_has_the_bits_of_one_that_was_not_interrupted(classroom, rows):
    settings = NARROW | dict(batch_size=10, learning_rate=2e-3, lr_scheduler="constant")
    model = classroom.model("gpt2")
    whole = classroom.train(model, rows, max_steps=8, **settings)
    parted = classroom.train(model, rows, max_steps=5, **settings)
    again = classroom.start(model, rows, max_steps=8, **settings, **{"experiment.resume": parted.folder})
    assert again.code == 0, again.text
    train_runs.assert_same_bits(parted, whole)


def test_exact_sums_of_bfloat16_are_refused(classroom, rows):
    run = classroom.start(classroom.model("llama"), rows, deterministic="true", **NARROW, **SETTINGS)
    assert run.code == 2
    assert "training.deterministic needs float32 sums" in run.text and "training.mixed_precision=bf16" in run.text


def copy_with(model, folder, change):
    """A model whose weights are changed."""
    shutil.copytree(model, folder)
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    change(weights)
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize("deterministic", ["false", "true"])
def test_a_weight_that_is_no_number_is_named(classroom, rows, tmp_path, deterministic):
    name = "model.layers.1.mlp.down_proj.weight"
    model = copy_with(classroom.model("llama"), tmp_path / "model", lambda weights: weights[name].view(-1)[5].fill_(float("nan")))
    run = classroom.start(model, rows, ranks=2, deterministic=deterministic, **SETTINGS)
    assert_stopped(run, 1, f"on rank 0: {name}")


@pytest.mark.parametrize("deterministic", ["false", "true"])
def test_a_rate_that_is_far_too_large_stops_the_run_at_its_step(classroom, rows, deterministic):
    run = classroom.start(classroom.model("llama"), rows, ranks=2, deterministic=deterministic,
                          **SETTINGS | dict(learning_rate=1e30, warmup_steps=0))
    assert_stopped(run, 2, "on rank 0: the gradient of model.")


def test_a_bad_number_of_one_rank_alone_is_named_with_its_rank(classroom, tmp_path):
    """A letter that makes the first norm overflow, in a sample that one rank reads."""
    rows = train_runs.pairs(4)
    model = classroom.model("llama-untied")
    units = classroom.samples(model, classroom.data(rows), steps=1, batch_size=4)["batches"][0]
    of_second_rank = units[1][0]
    rows[of_second_rank] = {"prompt": "~ stone?", "completion": " paper and grey"}
    bad = copy_with(model, tmp_path / "model", overflow_at_tilde)
    run = classroom.start(bad, classroom.data(rows), ranks=2, max_steps=2, batch_size=4)
    assert_stopped(run, 1, "on rank 1: the loss")


def overflow_at_tilde(weights):
    """Of one channel, which other letters do not have and nothing reads: infinity times 0."""
    weights["model.embed_tokens.weight"][:, 3] = 0
    weights["model.embed_tokens.weight"][ord("~"), 3] = 10
    weights["model.layers.0.input_layernorm.weight"][3] = 3e38
    for name in ("q_proj", "k_proj", "v_proj"):
        weights[f"model.layers.0.self_attn.{name}.weight"][:, 3] = 0


def assert_stopped(run, step, words):
    """One line says step, rank and tensor; nothing was tried again."""
    assert run.code == 1, run.text
    assert f"muster: step {step}: " in run.text and words in run.text, run.text
    assert "restarting" not in run.text
    result = run.result()
    assert result["status"] == "failed" and result["restarts"] == 0 and result["steps"] == step - 1
    assert f"step {step}: " in result["error"]
    assert not (run.folder / "model").exists()
