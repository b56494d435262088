"""Trains a small network with DistributedDataParallel for a few steps and writes its weights to weights-<rank>.bin.

A checkpoint of every step is taken up where there is one. With --fail-at STEP rank 1 ends itself there, in the first round.
"""

import os
import sys

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

STEPS = 8
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
first = 0
if os.path.exists("checkpoint.pt"):
    saved = torch.load("checkpoint.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
torch.distributed.barrier()

for step in range(first, STEPS):
    if "--fail-at" in sys.argv and step == int(sys.argv[-1]) and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os._exit(9)
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs, targets = torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
    if rank == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
        torch.save(state, "checkpoint.part")
        os.rename("checkpoint.part", "checkpoint.pt")
    torch.distributed.barrier()

weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
with open(f"weights-{rank}.bin", "wb") as file:
    file.write(weights.numpy().tobytes())
with open(f"first-{rank}", "a") as file:
    file.write(f"{first}\n")
torch.distributed.barrier()
os._exit(0)  # torch's threads of gloo now and then abort a process that takes its group down
