"""A training as people write it for torchrun: DistributedDataParallel over gloo. ddp_script.py MODEL LESSONS LOSSES"""

import json
import os
import pathlib
import sys

import torch
import torch.distributed as distributed
import torch_training
import transformers

model_folder, lessons, output = sys.argv[1:]
prepared = json.loads(pathlib.Path(lessons).read_text())
distributed.init_process_group("gloo")
rank, ranks = distributed.get_rank(), distributed.get_world_size()
torch.set_num_threads(1)
model = transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, betas=(0.9, 0.98), eps=1e-8)
schedule = transformers.get_linear_schedule_with_warmup(optimizer, 10, len(prepared["batches"]))
curve = []
for step in prepared["batches"]:
    samples = [prepared["samples"][number] for unit in step for number in unit]
    total = torch_training.trained_tokens(torch_training.lesson(samples))
    # DDP gives the mean over ranks.
    loss = torch_training.summed_loss(parallel, torch_training.lesson(samples[rank::ranks])) * ranks / total
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    mean = loss.detach() / ranks
    distributed.all_reduce(mean)
    curve.append(mean.item())
if rank == 0:
    pathlib.Path(output).write_text(json.dumps(curve))
distributed.barrier()
os._exit(0)  # torch's threads of gloo now and then abort a process that takes its group down
