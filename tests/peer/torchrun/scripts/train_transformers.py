"""A Trainer script as people write them: a tiny model from its configuration, few steps, nothing downloaded."""

import json
import os

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)
torch.set_num_threads(1)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
    max_position_embeddings=32,
)
model = LlamaForCausalLM(config)
untrained = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
tokens = torch.randint(0, 64, (64, 16), generator=torch.Generator().manual_seed(1))
data = [{"input_ids": row, "labels": row} for row in tokens]
arguments = TrainingArguments(
    output_dir="trained",
    max_steps=4,
    per_device_train_batch_size=4,
    learning_rate=0.01,
    use_cpu=True,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    dataloader_pin_memory=False,
)
trainer = Trainer(model=model, args=arguments, train_dataset=data)
result = trainer.train()

loss = torch.tensor([result.training_loss])
weights = torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])
everyones = [torch.empty_like(weights) for _ in range(torch.distributed.get_world_size())]
torch.distributed.all_gather(everyones, weights)
with open(f"result-{os.environ['RANK']}.json", "w") as file:
    json.dump(
        {
            "loss": result.training_loss,
            "steps": result.global_step,
            "world_size": arguments.world_size,
            "process_index": arguments.process_index,
            "weights_equal": all(torch.equal(weights, other) for other in everyones),
            "weights_moved": not torch.equal(weights, untrained),
        },
        file,
    )
torch.distributed.barrier()  # every rank has written its result before the first one takes its group down
torch.distributed.destroy_process_group()
