"""Whatever of the training state lies on which rank, a run gives the same bits; and any layout goes on where another stopped."""

import itertools

import pytest
import train_runs

# A batch of 12, 8 steps over 30 rows: the last batch of an epoch has 6, which 4 ranks share with empty passes.
SETTINGS = dict(max_steps=8, batch_size=12, learning_rate=2e-3, lr_scheduler="cosine", warmup_steps=2, deterministic="true")
MODES = {
    "single": {"distributed.strategy": "single"},
    "ddp": {"distributed.strategy": "ddp"},
    "full_shard": {"distributed.strategy": "fsdp"},
    "shard_grad_op": {"distributed.strategy": "fsdp", "distributed.fsdp_sharding_strategy": "shard_grad_op"},
    "no_shard": {"distributed.strategy": "fsdp", "distributed.fsdp_sharding_strategy": "no_shard"},
    "hybrid_shard": {"distributed.strategy": "fsdp", "distributed.fsdp_sharding_strategy": "hybrid_shard"},
}
OFFLOAD = {"distributed.fsdp_cpu_offload": "true"}


def of_mode(mode, ranks, offload=False):
    words = dict(MODES[mode])
    if mode == "hybrid_shard":
        words["distributed.fsdp_group_size"] = 2 if ranks % 2 == 0 else ranks
    return words | (OFFLOAD if offload else {})


@pytest.fixture(scope="module")
def rows(classroom):
    return classroom.data(train_runs.pairs(30))


@pytest.fixture(scope="module")
def alone(classroom, rows):
    """One rank that holds everything."""
    return classroom.train(classroom.model("llama-tied"), rows, **SETTINGS)


# Every mode on 2 to 4 ranks, with and without offload, with what is computed again going round.
RECOMPUTED = itertools.cycle(["none", "full", "selective"])
LAYOUTS = [(mode, ranks, offload, next(RECOMPUTED)) for mode in MODES if mode != "single" for ranks in (2, 3, 4) for offload in (False, True)
           if not (offload and mode in ("ddp", "no_shard"))] + [("full_shard", 1, True, "full")]


@pytest.mark.parametrize("mode, ranks, offload, recomputed", LAYOUTS)
def test_every_mode_gives_the_same_bits(classroom, rows, alone, mode, ranks, offload, recomputed):
    other = classroom.train(classroom.model("llama-tied"), rows, ranks, gradient_checkpointing=recomputed,
                            micro_batch_size=12 // ranks if ranks == 3 else 12 // ranks // 3, **SETTINGS | of_mode(mode, ranks, offload))
    train_runs.assert_same_bits(alone, other)
    assert alone.column("gradient_norm") == other.column("gradient_norm")


@pytest.mark.parametrize("family", ["gpt2", "qwen3", "qwen2"])
def test_in_other_families_and_bfloat16(classroom, rows, family):
    settings = SETTINGS | dict(mixed_precision="bf16", max_steps=4)
    model = classroom.model(family)
    train_runs.assert_same_bits(classroom.train(model, rows, **settings),
                                classroom.train(model, rows, 3, micro_batch_size=2, **settings | of_mode("full_shard", 3)))


def test_a_state_of_bfloat16_alone_is_sharded_saved_and_exported(classroom, rows):
    settings = {name: value for name, value in SETTINGS.items() if name != "deterministic"}
    settings |= {"model.dtype": "bfloat16", "mixed_precision": "no", "micro_batch_size": 6, "save_steps": 5}
    model = classroom.model("llama-tied")
    whole, sharded = (classroom.train(model, rows, 2, **settings | of_mode(mode, 2)) for mode in ("ddp", "full_shard"))
    train_runs.assert_same_bits(whole, sharded)
    checkpoint = {"experiment.resume": sharded.folder / "checkpoints" / "step-5"}
    assert classroom.start(model, rows, 2, **settings | of_mode("ddp", 2) | checkpoint).code == 0
    train_runs.assert_same_bits(whole, sharded)


@pytest.mark.parametrize("mode, ranks", [("full_shard", 2), ("shard_grad_op", 3)])
def test_evaluations_and_answers_are_the_same(classroom, mode, ranks):
    """Answers of different lengths, so that ranks have different numbers of passes."""
    settings = dict(max_steps=6, eval_steps=3, batch_size=12, deterministic="true", **{"data.digits": 1, "data.held_out": 0.07})
    runs = [classroom.train("builtin:llama-0.6m", "builtin:arithmetic", ranks, **settings | of_mode(each, ranks))
            for each in ("ddp", mode)]
    without_time = lambda event: {name: value for name, value in event.items() if name not in ("time", "seconds")}
    whole, sharded = [[without_time(event) for event in run.events("evaluated")] for run in runs]
    assert len(whole) == 2 and len({len(sample["answer"]) for sample in whole[0]["samples"]}) > 1
    assert sharded == whole


@pytest.mark.parametrize("mode, ranks, offload", [("single", 1, False), ("hybrid_shard", 2, False), ("full_shard", 3, True)])
def test_what_four_shards_saved_any_layout_goes_on_from(classroom, rows, alone, mode, ranks, offload):
    """The first steps after it, and everything up to the end, are those of one rank that never stopped."""
    model = classroom.model("llama-tied")
    begun = classroom.train(model, rows, 4, save_steps=5, **SETTINGS | of_mode("full_shard", 4))
    checkpoint = {"experiment.resume": begun.folder / "checkpoints" / "step-5"}
    gone_on = classroom.start(model, rows, ranks, save_steps=5, **SETTINGS | of_mode(mode, ranks, offload) | checkpoint)
    assert gone_on.code == 0 and "resuming after step 5" in gone_on.text, gone_on.text
    assert [event["after_step"] for event in begun.events("attempt")] == [0, 5]
    train_runs.assert_same_bits(alone, begun)
