"""Logits and gradients of every family against transformers, on tiny random checkpoints."""

import model_cases
import numpy
import pytest
import torch

CASES = list(model_cases.cases())


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def checkpoint(request, tmp_path_factory):
    case = request.param
    folder = tmp_path_factory.mktemp(case.name)
    oracle = model_cases.make_checkpoint(case, folder)
    sequences = model_cases.sequences_of(case)
    return case, folder, oracle, sequences, model_cases.oracle_logits(oracle, sequences)


def assert_greedy_tokens_equal(ours, theirs):
    sure = numpy.sort(theirs, axis=1)
    gap = sure[:, -1] - sure[:, -2]
    differs = ours.argmax(axis=1) != theirs.argmax(axis=1)
    assert not (differs & (gap >= 1e-3)).any()


def test_float32_logits_are_those_of_transformers(checkpoint, tmp_path):
    _, folder, _, sequences, theirs = checkpoint
    with model_cases.Driver(folder, "float32", tmp_path) as driver:
        ours = driver.ask(sequences)
    assert ours.shape == theirs.shape
    assert numpy.abs(theirs).max() > 0.5  # a comparison of zeros would prove nothing
    assert numpy.abs(ours - theirs).max() <= 1e-4
    assert_greedy_tokens_equal(ours, theirs)


def test_bfloat16_is_as_near_to_float32_as_transformers_is(checkpoint, tmp_path):
    _, folder, _, sequences, exact = checkpoint
    theirs = model_cases.oracle_logits(model_cases.load(folder, torch.bfloat16), sequences)
    with model_cases.Driver(folder, "bfloat16", tmp_path) as driver:
        ours = driver.ask(sequences)
    their_error, our_error = numpy.abs(theirs - exact), numpy.abs(ours - exact)
    assert our_error.max() <= 2 * their_error.max()
    assert our_error.mean() <= 2 * their_error.mean()


def test_a_row_has_the_same_bits_however_it_is_computed(checkpoint, tmp_path):
    """Alone, in a ragged batch, in chunks, token by token, on one thread or two, in blocks of any size."""
    case, folder, _, sequences, _ = checkpoint
    for dtype in ("float32", "bfloat16"):
        with model_cases.Driver(folder, dtype, tmp_path, threads=2) as two:
            together = two.ask(sequences)
            alone = numpy.concatenate([two.ask([ids]) for ids in sequences])
            turned = two.ask(sequences[::-1])
            chunked = two.ask(sequences, cache=True, chunks=[13, 5, 64])
            decoded = two.ask(sequences, cache=True, chunks=[1], block_tokens=128)
        with model_cases.Driver(folder, dtype, tmp_path, threads=1) as one:
            single = one.ask(sequences)
        pieces = numpy.split(turned, numpy.cumsum([len(ids) for ids in sequences[::-1]])[:-1])
        for other in (alone, numpy.concatenate(pieces[::-1]), chunked, decoded, single):
            assert (other.view(numpy.uint32) == together.view(numpy.uint32)).all()


LEARNING = pytest.mark.parametrize("case", [case for case in CASES if case.name in (
    "llama-biases", "qwen2-tied", "qwen3-head-dim", "mistral-window", "llama-llama3", "gpt2", "llama-gelu", "arcee-tied-biases")],
    ids=lambda case: case.name)


@LEARNING
def test_gradients_are_those_of_autograd(case, tmp_path):
    oracle = model_cases.make_checkpoint(case, tmp_path / "model")
    sequences = model_cases.sequences_of(case)
    expected = model_cases.oracle_gradients(oracle, sequences)
    with model_cases.Driver(tmp_path / "model", "float32", tmp_path) as driver:
        model_cases.assert_gradients_equal(driver, sequences, expected, tmp_path)


@LEARNING
def test_gradients_have_the_same_bits_whatever_is_computed_again(case, tmp_path):
    model_cases.make_checkpoint(case, tmp_path / "model")
    sequences = model_cases.sequences_of(case)
    for dtype in ("float32", "bfloat16"):
        with model_cases.Driver(tmp_path / "model", dtype, tmp_path) as driver:
            kept, cheap, blocks = [model_cases.gradients_of(driver, sequences, tmp_path / f"{dtype}-{level}", recompute=level)
                                   for level in ("nothing", "cheap", "blocks")]
        for other in (cheap, blocks):
            assert other.keys() == kept.keys()
            assert all(numpy.array_equal(other[name].view(numpy.uint32), kept[name].view(numpy.uint32)) for name in kept)


@LEARNING
def test_losses_change_along_gradients_as_finite_differences_say(case, tmp_path):
    """Of every parameter of every block, along its own gradient, with losses that muster alone computes."""
    oracle = model_cases.make_checkpoint(case, tmp_path / "model")
    sequences = model_cases.sequences_of(case)
    weights = {name: parameter.detach().numpy() for name, parameter in oracle.named_parameters()}
    folder = tmp_path / "weights"
    folder.mkdir()
    for name, values in weights.items():
        values.tofile(folder / name)
    with model_cases.Driver(tmp_path / "model", "float32", tmp_path) as driver:
        gradients = model_cases.gradients_of(driver, sequences, tmp_path / "gradients")
        for name, values in weights.items():
            gradient = gradients[name].reshape(values.shape)
            slope = numpy.linalg.norm(gradient.astype(numpy.float64))
            step = min(0.05 / slope, 0.05)  # far above what rounding does to the loss
            losses = []
            for way in (step, -step):
                (values + way * gradient / slope).astype(numpy.float32).tofile(folder / name)
                losses.append(model_cases.loss_of_logits(driver.ask(sequences, weights=str(folder)), sequences))
            values.tofile(folder / name)
            assert abs((losses[0] - losses[1]) / (2 * step) - slope) <= 0.01 * slope + 1e-3, name
