"""One rank's all-reduce over NCCL, by torch, through muster's store. Run by gpu_host_check.sh."""

import os

import torch
import torch.distributed

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
value = torch.arange(4, device="cuda", dtype=torch.float32)
torch.distributed.all_reduce(value)
torch.distributed.barrier()
print(f"torch {torch.__version__}: NCCL over muster's store gives {value.tolist()}")
torch.distributed.destroy_process_group()
