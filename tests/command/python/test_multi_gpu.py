import logging

import pytest
from rank_group import RankGroup

import muster


def test_without_a_launch_there_is_no_group_and_nothing_to_clean_up():
    config = muster.setup_multi_gpu(muster.MultiGPUConfig(timeout_minutes=5))
    assert config == muster.MultiGPUConfig(timeout_minutes=5)
    muster.cleanup_multi_gpu()
    with muster.distributed_context() as config:
        assert config.backend is None


def test_gpus_that_one_process_leaves_idle_are_told(machine, caplog):
    machine.has_a100s(4)
    with caplog.at_level(logging.WARNING, logger="muster"):
        muster.setup_multi_gpu()
    assert "4 GPUs are visible, and this is one process" in caplog.text


def test_the_configuration_takes_what_the_guide_writes():
    config = muster.MultiGPUConfig(
        backend="nccl",
        timeout_minutes=30,
        auto_device_map=True,
        tensor_parallel=False,
        pipeline_parallel=False,
        use_gradient_checkpointing=True,
        find_unused_parameters=False,
    )
    assert config.use_gradient_checkpointing is True


def test_what_needs_a_model_and_is_harmless_is_left_to_the_caller_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, logger="muster"):
        muster.setup_multi_gpu(muster.MultiGPUConfig(use_gradient_checkpointing=True, find_unused_parameters=True))
    assert "use_gradient_checkpointing=True is left to you: model.gradient_checkpointing_enable()" in caplog.text
    assert "find_unused_parameters=True is left to you: DistributedDataParallel(" in caplog.text


def test_what_cannot_be_honoured_is_refused_by_name_all_at_once():
    config = muster.MultiGPUConfig(
        tensor_parallel=True,
        pipeline_parallel=True,
        auto_device_map=False,
    )
    with pytest.raises(ValueError) as failure:
        muster.setup_multi_gpu(config)
    for words in (
        "tensor_parallel=True\n  try: ",
        "pipeline_parallel=True\n  try: ",
        "auto_device_map=False\n  try: ",
    ):
        assert words in str(failure.value)


CONTEXT = """
import torch.distributed as distributed
seen = []
try:
    with muster.distributed_context(muster.MultiGPUConfig(backend="gloo")) as config:
        seen += [config.backend, distributed.is_initialized()]
        with muster.distributed_context():
            pass
        seen += [distributed.is_initialized()]
        raise KeyError
except KeyError:
    seen += [distributed.is_initialized()]
seen += [muster.setup_multi_gpu().backend]
muster.cleanup_multi_gpu()
report(seen=seen)
"""


def test_a_context_joins_the_group_of_the_launch_and_leaves_it_even_by_an_exception():
    with RankGroup(CONTEXT, [{"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}]) as launched:
        assert launched.report(0)["seen"] == ["gloo", True, True, False, "gloo"]
