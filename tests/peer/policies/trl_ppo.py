"""TRL's PPOTrainer over answers that muster sampled and judged. The last release that has it, in a folder of its own
(scripts/test-requirements-apart.txt): run as a program, so that no other test finds it.

    trl_ppo.py ASKED.json    {"policy", "critic", "answers", "prompts": their tokens, "output", "settings": of PPOConfig}

Writes policy.safetensors and critic.safetensors into the output folder, and logged.json: the metrics of the last update."""

import json
import sys
from pathlib import Path


def main():
    sys.path.insert(0, str(Path(sys.prefix) / "apart"))
    import datasets
    import safetensors.torch
    import torch
    import transformers
    from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

    asked = json.loads(Path(sys.argv[1]).read_text())
    answers = [tuple(answer["tokens"]) for answer in asked["answers"]]
    used = {token for tokens in answers + asked["prompts"] for token in tokens}
    tokenizer = transformers.AutoTokenizer.from_pretrained(asked["policy"], padding_side="left")
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(next(token for token in range(len(tokenizer)) if token not in used))
    padding = tokenizer.pad_token_id
    policy = transformers.AutoModelForCausalLM.from_pretrained(asked["policy"], dtype=torch.float32)
    critic = transformers.AutoModelForSequenceClassification.from_pretrained(asked["critic"], num_labels=1, dtype=torch.float32)

    left = {}
    rewards = {}
    for prompt, tokens, answer in zip(asked["prompts"], answers, asked["answers"], strict=True):
        left.setdefault(tuple(prompt), []).append(tokens)
        rewards[tuple(prompt), tokens] = answer["reward"]

    def without_padding(tokens):
        return tuple(token for token in tokens.tolist() if token != padding)

    def generate(model, queries, *others):
        given = torch.tensor([left[without_padding(query)].pop(0) for query in queries])
        whole = torch.cat([queries, given], 1)
        logits = ppo_trainer.forward(model, whole, padding).logits[:, queries.shape[1] - 1:-1]
        return whole, logits / (asked["settings"]["temperature"] + 1e-7)

    judge = torch.nn.Linear(1, 1)
    score = ppo_trainer.get_reward

    def get_reward(model, whole, pad, context):
        if model is not judge:
            return score(model, whole, pad, context)
        found = [rewards[without_padding(row[:context]), tuple(row[context:].tolist())] for row in whole]
        return None, torch.tensor(found), None

    ppo_trainer.batch_generation, ppo_trainer.get_reward = generate, get_reward
    count = len(answers)
    config = PPOConfig(output_dir=asked["output"], per_device_train_batch_size=count, gradient_accumulation_steps=1, num_mini_batches=1,
                       total_episodes=count, response_length=len(answers[0]), local_rollout_forward_batch_size=count, num_sample_generations=0,
                       kl_coef=0.0, missing_eos_penalty=None, optim="sgd", lr_scheduler_type="constant", weight_decay=0.0, use_cpu=True, bf16=False,
                       gradient_checkpointing=False, report_to=[], save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
                       logging_steps=1, **asked["settings"])
    trainer = PPOTrainer(args=config, processing_class=tokenizer, model=policy, ref_model=None, reward_model=judge, value_model=critic,
                         train_dataset=datasets.Dataset.from_list([{"input_ids": prompt} for prompt in asked["prompts"]]))
    trainer.train()
    output = Path(asked["output"])
    for name, model in (("policy", policy), ("critic", critic)):
        safetensors.torch.save_model(model, str(output / f"{name}.safetensors"))
    (output / "logged.json").write_text(json.dumps(trainer.state.log_history[-1]))


if __name__ == "__main__":
    main()
