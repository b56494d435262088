"""Peak GPU memory of DDP and FSDP ranks, as JSON lines: several ranks on one GPU, each made to look like a host of its own to NCCL.

    torchrun --standalone --nproc-per-node 2 bench/memory/measure_sharded.py sharded.jsonl [fsdp2]

One kind of sharding per process: what an earlier wrapper leaves behind would count for the next.
"""

import functools
import gc
import json
import os
import pathlib
import sys

os.environ["NCCL_HOSTID"] = f"host{os.environ['RANK']}"
os.environ.update(NCCL_NET="Socket", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo", NCCL_MAX_NCHANNELS="1",
                  NCCL_MAX_CTAS="1")

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy, fully_shard
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from measure import build, optimizer_of, peak
from shapes import shapes


def wrap(model, cell):
    block = type(next(m for m in model.modules() if type(m).__name__ in model._no_split_modules))
    mixed = cell["dtype"] == "mixed"
    if cell["strategy"] == "ddp":
        return DistributedDataParallel(model, device_ids=[0])
    if cell["strategy"].startswith("fsdp2"):
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16) if mixed else MixedPrecisionPolicy()
        again = cell["strategy"] == "fsdp2"
        for module in model.modules():
            if isinstance(module, block):
                fully_shard(module, mp_policy=policy, reshard_after_forward=again)
        fully_shard(model, mp_policy=policy, reshard_after_forward=again)
        return model
    policy = MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16) if mixed else None
    return FullyShardedDataParallel(
        model, sharding_strategy=ShardingStrategy[cell["strategy"].upper()], mixed_precision=policy, device_id=0,
        use_orig_params=True, auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={block}))


def run(cell):
    gc.collect()
    torch.cuda.empty_cache()
    base = torch.cuda.memory_allocated()
    model = build(shapes[cell["model"]], torch.float32 if cell["dtype"] == "mixed" else torch.bfloat16)
    model.config.use_cache = False
    model.train()
    if cell["checkpointing"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    vocabulary = model.config.vocab_size
    model = wrap(model, cell)
    optimizer = optimizer_of("adamw", model)
    ids = torch.randint(0, vocabulary, (cell["batch"], cell["sequence"]), device="cuda")
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        peak()
        model(input_ids=ids, labels=ids).loss.backward()
        high = peak()
        optimizer.step()
        high = max(high, peak())
        optimizer.zero_grad(set_to_none=True)
    return {**cell, "world": dist.get_world_size(), "peak": high, "base": base, "reserved": torch.cuda.max_memory_reserved()}


def main():
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    strategies = ("fsdp2", "fsdp2_keep") if sys.argv[2:] == ["fsdp2"] else ("full_shard", "shard_grad_op", "ddp")
    with open(sys.argv[1] if dist.get_rank() == 0 else os.devnull, "w") as file:
        for model, batch, sequence in (("qwen2-0.5b", 2, 1024), ("smollm2-135m", 1, 512)):
            for dtype in ("bfloat16", "mixed"):
                for strategy in strategies:
                    if dtype == "mixed" and strategy == "ddp":
                        continue
                    for checkpointing in (False, True) if strategy == "full_shard" else (False,):
                        result = run(dict(work="train", model=model, dtype=dtype, strategy=strategy, optimizer="adamw",
                                          checkpointing=checkpointing, batch=batch, sequence=sequence))
                        print(json.dumps(result), file=file, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
