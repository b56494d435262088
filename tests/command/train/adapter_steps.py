"""Steps of adapters by muster and by PEFT over transformers, on the same batches."""

import numpy
import peft
import torch
import torch_training
from peft_oracle import assert_adapters_equal, tensors_of, trained_parameters

SAFE_EPSILON = 1e-5  # as in test_training_against_torch.py
ADAMW = dict(learning_rate=2e-3, weight_decay=0.1, adam_beta2=0.98, adam_epsilon=SAFE_EPSILON, lr_scheduler="cosine")
LORA = {"model.use_lora": "true", "model.lora_r": 4, "model.lora_alpha": 12, "model.lora_dropout": 0}


# By name: ranks and settings.
LAYOUTS = {
    "two ranks": (2, {}),
    "full_shard": (3, {"distributed.strategy": "fsdp"}),
    "shard_grad_op": (2, {"distributed.strategy": "fsdp", "distributed.fsdp_sharding_strategy": "shard_grad_op"}),
    "hybrid_shard": (4, {"distributed.strategy": "fsdp", "distributed.fsdp_sharding_strategy": "hybrid_shard",
                         "distributed.fsdp_group_size": 2}),
    "offload": (2, {"distributed.strategy": "fsdp", "distributed.fsdp_cpu_offload": "true"}),
    "offload alone": (1, {"distributed.strategy": "fsdp", "distributed.fsdp_cpu_offload": "true"}),
}


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.1, betas=(0.9, 0.98), eps=SAFE_EPSILON)


def assert_steps_agree(classroom, model, rows, oracle, folder, steps, ranks=1, **settings):
    """From the oracle's adapters, which are written to the folder. What muster's run left, and how far each tensor has moved."""
    oracle.save_pretrained(folder)
    before = {name: tensor.clone() for name, tensor in peft.get_peft_model_state_dict(oracle).items()}
    run = classroom.train(model, rows, ranks, max_steps=steps, batch_size=8, warmup_steps=min(5, steps - 1),
                          **ADAMW | {"model.adapters": folder} | settings)
    lessons = torch_training.lessons_of(classroom.samples(model, rows, steps=steps, batch_size=8))
    optimizer = adamw(trained_parameters(oracle))
    losses, norms = torch_training.train(oracle, lessons, optimizer,
                                         torch_training.cosine(optimizer, min(5, steps - 1), steps))
    numpy.testing.assert_allclose(run.losses(), losses, atol=1e-5)
    numpy.testing.assert_allclose([float(norm) for norm in run.column("gradient_norm")], norms, rtol=1e-4)
    assert_adapters_equal(run.folder / "model", oracle, 1e-5)
    after = tensors_of(run.folder / "model")
    return run, {name: float((after[name] - tensor).abs().max()) for name, tensor in before.items()}


def assert_refused_over_a_changed_base(classroom, base, rows, begun_with, resume):
    """base: a model as transformers has it; the resumed run's base differs from it in one number."""
    changed = classroom.folder / f"changed-{len(list(classroom.folder.iterdir()))}"
    with torch.no_grad():
        base.model.layers[0].mlp.up_proj.weight[0, 0] += 1
    base.save_pretrained(changed)
    classroom.add_tokenizer(changed)
    refused = classroom.start(changed, rows, **begun_with | resume)
    assert refused.code == 2, refused.text
