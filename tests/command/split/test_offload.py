"""Parameters that do not stay on the device change no logit."""

import pathlib
import sys

import numpy
import pytest
from split_models import FAMILIES

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "peer/logits"))
from model_cases import Driver  # noqa: E402

SEQUENCES = [[1, 5, 9, 200, 399, 0, 7], [3], list(range(40, 90))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("model", FAMILIES)
def test_a_device_that_keeps_nothing_computes_the_same_logits(folder: pathlib.Path, tmp_path: pathlib.Path, model: str, dtype: str):
    with Driver(folder / model, dtype, tmp_path) as driver:
        expected = [driver.ask(SEQUENCES), driver.ask(SEQUENCES, cache=True, chunks=[9, 1])]
    for offloaded in ("in-host-memory", "on-disk"):
        with Driver(folder / model, dtype, tmp_path, offloaded=offloaded) as driver:
            reads = []
            for logits, settings in zip(expected, ({}, {"cache": True, "chunks": [9, 1]})):
                assert numpy.array_equal(driver.ask(SEQUENCES, **settings), logits)
                reads.append(driver.answer["bytes_read"])
            assert (reads[1] > reads[0]) == (offloaded == "on-disk"), "the disk is read for each pass, host memory filled once"
