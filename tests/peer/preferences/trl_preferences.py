"""The same training by TRL: what muster is held against."""

import warnings

import datasets
import model_cases
import torch
import transformers

USUAL = dict(use_cpu=True, bf16=False, gradient_checkpointing=False, optim="sgd", lr_scheduler_type="constant", max_grad_norm=0.0,
             report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False, weight_decay=0.0)


def tokenizer_of(model):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def train(trainer_class, config_class, model, rows, folder, steps, rate, reference=False, **settings):
    """Steps over all rows at once. Returns the trained model and what was logged of each step."""
    config = config_class(output_dir=str(folder), max_steps=steps, learning_rate=rate, per_device_train_batch_size=len(rows),
                          **USUAL | settings)
    policy = model_cases.load(model, torch.float32)
    words = dict(model=policy, args=config, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer_of(model))
    if reference:
        words["ref_model"] = model_cases.load(model, torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = trainer_class(**words)
        trainer.train()
    return policy, [line for line in trainer.state.log_history if "loss" in line]
