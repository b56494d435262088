"""The same bits, however a global batch is laid over ranks, passes and sequences."""

import numpy
import pytest
import train_runs

# Ranks, sequences of a pass, what is computed again: a batch of 12 in 1 to 3 passes of a rank.
LAYOUTS = [(1, 12, "none"), (1, 4, "full"), (2, 3, "selective"), (3, 2, "none"), (4, 1, "full"), (4, 3, "selective")]
SETTINGS = dict(max_steps=8, batch_size=12, learning_rate=2e-3, lr_scheduler="cosine", warmup_steps=2)


@pytest.fixture(scope="module")
def rows(classroom):
    """Batches of 12, and one of 6 at the end of an epoch."""
    return classroom.data(train_runs.pairs(30))


def layouts_of(classroom, rows, layouts, family="llama-tied", **settings):
    model = classroom.model(family)
    for ranks, pass_size, recomputed in layouts:
        yield classroom.train(model, rows, ranks, micro_batch_size=pass_size, gradient_checkpointing=recomputed,
                              **SETTINGS | settings)


@pytest.mark.parametrize("computed_in, layouts", [("no", LAYOUTS), ("bf16", [LAYOUTS[0], *LAYOUTS[2:5]])], ids=["fp32", "bf16"])
def test_ranks_and_passes_do_not_change_a_bit_in_deterministic_mode(classroom, rows, computed_in, layouts):
    first, *others = layouts_of(classroom, rows, layouts, deterministic="true", mixed_precision=computed_in)
    assert len(set(first.column())) == SETTINGS["max_steps"]
    for other in others:
        train_runs.assert_same_bits(first, other)


@pytest.mark.parametrize("computed_in", ["no", "bf16"])
def test_nor_do_threads(classroom, rows, monkeypatch, computed_in):
    def with_threads(threads):
        monkeypatch.setitem(classroom.environment, "OMP_NUM_THREADS", str(threads))
        (run,) = layouts_of(classroom, rows, [(1, 12, "none")], deterministic="true", mixed_precision=computed_in)
        return run

    train_runs.assert_same_bits(with_threads(1), with_threads(3))


@pytest.mark.parametrize("family", ["gpt2", "qwen3"])
def test_nor_do_they_in_other_families(classroom, rows, family):
    first, other = layouts_of(classroom, rows, [(1, 12, "none"), (3, 2, "full")], family, deterministic="true")
    train_runs.assert_same_bits(first, other)


@pytest.mark.parametrize("computed_in", ["no", "bf16"])
def test_packed_batches_do_not_change_a_bit_either(classroom, rows, computed_in):
    settings = dict(deterministic="true", packing="true", sequence_length=64, batch_size=6, mixed_precision=computed_in)
    layouts = [(1, 6, "none"), (2, 1, "full"), (3, 2, "selective")]
    first, *others = layouts_of(classroom, rows, layouts, **settings)
    for other in others:
        train_runs.assert_same_bits(first, other)
    # Several samples to a sequence.
    units = classroom.samples(classroom.model("llama-tied"), rows, steps=1, batch_size=6, packing=True, sequence_length=64)
    assert max(len(unit) for unit in units["batches"][0]) > 1


def test_samples_give_the_same_bits_packed_or_apart(classroom, rows):
    """All of the data as one batch."""
    settings = dict(deterministic="true", batch_size=30, max_steps=4)
    (apart,) = layouts_of(classroom, rows, [(2, 5, "none")], **settings)
    (packed,) = layouts_of(classroom, rows, [(2, 3, "full")], **settings, packing="true", sequence_length=512)
    assert packed.events("step")[0]["tokens"] == apart.events("step")[0]["tokens"]
    train_runs.assert_same_bits(apart, packed)


def test_layouts_differ_by_rounding_alone_without_deterministic_mode(classroom, rows):
    settings = dict(learning_rate=5e-4, adam_epsilon=1e-5)
    first, *others = layouts_of(classroom, rows, [LAYOUTS[0], (3, 2, "selective"), (2, 2, "full")], **settings)
    exact, = layouts_of(classroom, rows, LAYOUTS[:1], **settings, deterministic="true")
    assert others[0].column() != first.column()  # the same bits would come of anything
    for other in (*others, exact):
        assert numpy.abs(first.losses() - other.losses()).max() <= 1e-5
        assert train_runs.furthest(first.tensors(), other.tensors()) <= 1e-5


def test_accumulation_gives_the_gradient_of_the_whole_batch(classroom, rows):
    """In 1, 2 and 3 passes, said as people say it."""
    model = classroom.model("llama-tied")
    settings = {name: value for name, value in SETTINGS.items() if name != "batch_size"} | dict(deterministic="true")
    runs = [classroom.train(model, rows, micro_batch_size=12 // passes, gradient_accumulation_steps=passes, **settings)
            for passes in (1, 2, 3)]
    train_runs.assert_same_bits(runs[0], runs[1])
    train_runs.assert_same_bits(runs[0], runs[2])


def test_a_batch_that_ranks_cannot_share_is_refused_with_the_nearest_that_they_can(classroom, rows):
    run = classroom.start(classroom.model("llama-tied"), rows, ranks=3, max_steps=1, batch_size=8)
    assert run.code == 2 and "a batch of 8 sequences cannot be shared evenly by 3 ranks" in run.text
    assert "training.batch_size=9, or 6" in run.text


def test_nccl_is_refused_to_cpu_ranks_before_anything_is_written(classroom, rows):
    run = classroom.start(classroom.model("llama-tied"), rows, ranks=2, **SETTINGS, **{"distributed.backend": "nccl"})
    assert run.code == 2 and "distributed.backend is nccl" in run.text and "write gloo" in run.text
    assert not run.folder.exists()
    assert classroom.start(classroom.model("llama-tied"), rows, ranks=2, max_steps=1, batch_size=2,
                           **{"distributed.backend": "gloo"}).code == 0
