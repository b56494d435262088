"""The same training by TRL, over the answers that muster sampled and judged: what muster is held against."""

import inspect
import json
import warnings

import datasets
import model_cases
import torch
import transformers

USUAL = dict(use_cpu=True, bf16=False, gradient_checkpointing=False, optim="sgd", lr_scheduler_type="constant", max_grad_norm=0.0,
             report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False, weight_decay=0.0,
             shuffle_dataset=False)


def answers_of(run, number=1):
    """The answers of a round, as muster wrote them down."""
    lines = (run.folder / f"rollouts/round-{number:06}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def tokenizer_of(model):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def train(trainer_class, config_class, model, answers, folder, steps, rate, stop=None, **settings):
    """Updates with the answers of one round, which stop ends. Returns the trained model and what was logged of each step."""
    groups = {}
    for answer in answers:
        groups.setdefault(answer["question"], []).append(answer)
    size = len(next(iter(groups.values())))
    tokenizer = tokenizer_of(model)
    if stop is not None:
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(stop)

    def take(prompts):
        return [groups[prompt][i % size] for i, prompt in enumerate(prompts)]

    def roll_out(prompts, trainer):
        asked = take(prompts)
        return {"prompt_ids": [tokenizer(answer["question"])["input_ids"] for answer in asked],
                "completion_ids": [answer["tokens"] for answer in asked],
                "logprobs": [answer["log_probabilities"] for answer in asked]}

    def reward(prompts, completion_ids, **more):
        found = []
        for prompt, ids in zip(prompts, completion_ids, strict=True):
            found.append(next(answer["reward"] for answer in groups[prompt] if answer["tokens"] == list(ids)))
        return found

    class Replaying(trainer_class):
        """Of a trainer that takes no rollout_func."""

        def _generate_single_turn(self, prompt_ids, *others):
            texts = {tuple(tokenizer(prompt)["input_ids"]): prompt for prompt in groups}
            return [answer["tokens"] for answer in take([texts[tuple(ids)] for ids in prompt_ids])]

    config = config_class(output_dir=str(folder), max_steps=steps, learning_rate=rate, num_generations=size,
                          per_device_train_batch_size=len(answers), **USUAL | settings)
    policy = model_cases.load(model, torch.float32)
    rows = datasets.Dataset.from_list([{"prompt": prompt} for prompt in groups])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = dict(model=policy, args=config, train_dataset=rows, processing_class=tokenizer, reward_funcs=reward)
        takes_answers = "rollout_func" in inspect.signature(trainer_class.__init__).parameters
        trainer = trainer_class(rollout_func=roll_out, **words) if takes_answers else Replaying(**words)
        trainer.train()
    return policy, [line for line in trainer.state.log_history if "loss" in line]
