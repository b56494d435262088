"""The same comparisons on a GPU. Skipped where there is none."""

import model_cases
import numpy
import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
CASES = list(model_cases.cases())


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def checkpoint(request, tmp_path_factory):
    case = request.param
    folder = tmp_path_factory.mktemp(case.name)
    oracle = model_cases.make_checkpoint(case, folder)
    sequences = model_cases.sequences_of(case)
    return folder, sequences, model_cases.oracle_logits(oracle, sequences)


@pytest.mark.parametrize("deterministic", [False, True])
def test_float32_logits_are_those_of_transformers(checkpoint, deterministic, tmp_path):
    folder, sequences, theirs = checkpoint
    with model_cases.Driver(folder, "float32", tmp_path, "cuda:0", deterministic=deterministic) as driver:
        ours = driver.ask(sequences)
        chunked = driver.ask(sequences, cache=True, chunks=[13, 5, 64], block_tokens=512)
    assert numpy.abs(ours - theirs).max() <= 1e-4
    assert numpy.abs(chunked - theirs).max() <= 1e-4


@pytest.mark.parametrize("deterministic", [False, True])
def test_bfloat16_is_as_near_to_float32_as_transformers_is(checkpoint, deterministic, tmp_path):
    folder, sequences, exact = checkpoint
    oracle = model_cases.load(folder, torch.bfloat16).cuda()
    with torch.no_grad():
        theirs = torch.cat([oracle(torch.tensor([ids]).cuda()).logits[0].float().cpu() for ids in sequences]).numpy()
    with model_cases.Driver(folder, "bfloat16", tmp_path, "cuda:0", deterministic=deterministic) as driver:
        ours = driver.ask(sequences)
    their_error, our_error = numpy.abs(theirs - exact), numpy.abs(ours - exact)
    assert our_error.max() <= 2 * their_error.max()
    assert our_error.mean() <= 2 * their_error.mean()


def test_deterministic_rows_have_the_same_bits_however_they_are_computed(checkpoint, tmp_path):
    folder, sequences, _ = checkpoint
    for dtype in ("float32", "bfloat16"):
        with model_cases.Driver(folder, dtype, tmp_path, "cuda:0", deterministic=True) as driver:
            together = driver.ask(sequences)
            alone = numpy.concatenate([driver.ask([ids]) for ids in sequences])
            chunked = driver.ask(sequences, cache=True, chunks=[13, 5, 64])
            decoded = driver.ask(sequences, cache=True, chunks=[1], block_tokens=128)
        for other in (alone, chunked, decoded):
            assert (other.view(numpy.uint32) == together.view(numpy.uint32)).all()


@pytest.mark.parametrize("case", [case for case in CASES if case.name in (
    "llama-biases", "qwen2-tied", "qwen3-head-dim", "mistral-window", "gpt2")], ids=lambda case: case.name)
def test_gradients_are_those_of_autograd(case, tmp_path):
    oracle = model_cases.make_checkpoint(case, tmp_path / "model")
    sequences = model_cases.sequences_of(case)
    expected = model_cases.oracle_gradients(oracle, sequences)
    with model_cases.Driver(tmp_path / "model", "float32", tmp_path, "cuda:0") as driver:
        model_cases.assert_gradients_equal(driver, sequences, expected, tmp_path)
