"""A round of GRPO beside TRL's: the same model, prompts, numbers of answers, lengths and threads, in turn, in one run.

    python bench/train/policy_peer.py [--muster build/engine/apps/cli/muster] [--model FOLDER | --shape qwen2.5-0.5b] [--prompts 16]
        [--samples 16] [--tokens 6] [--rounds 12] [--turns 3] [--ranks 1] [--device cpu] [--peer trl|loop]

A round samples the answers, judges them by the built-in sums' right ones, and makes one update with all of them. The peer is
trl.GRPOTrainer with transformers' own generation, which is what it has where vLLM is not. Without --model the built-in model that was
stopped half-way is taken, which muster makes; --shape draws random weights, in bfloat16 alone. --peer loop is a plain PyTorch loop:
transformers' generate, one pass with gradients over all answers, and AdamW. Prints one JSON line: seconds of a round of both (medians over
all turns, the first round of each left out), where muster's go, the ratio, and the rate of sampling beside that of `muster generate`.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from random_model import write_model
from train_peer import SHAPES

RATE = 1e-5


def sums(count):
    return [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(10, 99) for b in range(10, 99)][:: max(1, 7921 // count)][:count]


def of_muster(given, model, data, folder):
    words = [given.muster, "train", "-m", model, "--device", given.device, f"data.path={data}", f"experiment.output={folder}",
             "training.algorithm=grpo", f"training.max_steps={given.rounds}", f"training.learning_rate={RATE}",
             f"training.num_rollouts_per_iteration={given.prompts * given.samples}", f"grpo.num_generations={given.samples}",
             f"generation.max_new_tokens={given.tokens}", f"distributed.ranks={given.ranks}",
             f"training.sequence_length={256 + given.tokens}", "training.save_at_end=nothing"]
    if given.shape:  # about half of the random answers have these digits somewhere
        words += ["model.init=random", "--dtype", "bfloat16", "training.mixed_precision=no", "reward.functions=format", "reward.format=999",
                  "reward.format_match=search"]
    else:
        words.append("reward.functions=exact")
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=3600)
    (run,) = folder.iterdir()
    with (run / "metrics.csv").open(newline="") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)][1:]
    steps = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    parts = [event["parts"] for event in steps if event["event"] == "step"][1:]
    shares = {name: statistics.median(part[name] for part in parts) for name in ("sampling", "judging", "compute", "update")}
    return seconds, shares


def rate_of_generate(given, model, data, folder):
    """Tokens a second that `muster generate` writes of the same prompts and numbers of answers, without its start."""
    prompts = folder / "to-answer.jsonl"
    prompts.write_text("".join(line + "\n" for line in data.read_text().splitlines()[:given.prompts]))
    words = [given.muster, "generate", "-m", str(model), "-p", str(prompts), "-o", str(folder / "answers.jsonl"), "--json", "--device",
             given.device, "--samples", str(given.samples), "--max-new-tokens", str(given.tokens), "--temperature", "1",
             "--batch-size", str(min(given.prompts * given.samples, 512))]
    if given.shape:
        words += ["--dtype", "bfloat16", "model.init=random"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        return {"generate_failed": done.stderr[-300:]}
    summary = json.loads(done.stdout)
    return {"generate": {name: value for name, value in summary.items() if isinstance(value, (int, float))}}


def of_peer(given, model, data, folder):
    """In a process of its own, with as many threads as muster's ranks together."""
    words = [sys.executable, __file__, "--peer", str(model), str(data), str(folder), str(given.prompts), str(given.samples), str(given.tokens),
             str(given.rounds), given.device, given.peer]
    environment = os.environ | {"OMP_NUM_THREADS": str(given.ranks), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=environment, timeout=3600)
    return json.loads(done.stdout.splitlines()[-1])


def be_peer(model, data, folder, prompts, samples, tokens, rounds, device):
    import datasets
    import torch
    import transformers
    import trl

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    rows = [json.loads(line) for line in pathlib.Path(data).read_text().splitlines()]
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    on_cpu = device == "cpu"
    config = trl.GRPOConfig(
        output_dir=folder, max_steps=rounds, learning_rate=RATE, num_generations=samples, per_device_train_batch_size=prompts * samples,
        max_completion_length=tokens, temperature=1.0, beta=0.0, use_cpu=on_cpu, bf16=not on_cpu, gradient_checkpointing=False, report_to=[],
        logging_steps=1, save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False)

    def reward(completions, answer, **others):
        return [float(given.strip() == right) for given, right in zip(completions, answer)]

    policy = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    moments = []

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, *arguments, **others):
            moments.append(time.perf_counter())

    trainer = trl.GRPOTrainer(model=policy, args=config, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer,
                              reward_funcs=reward, callbacks=[Watch()])
    trainer.train()
    print(json.dumps([later - earlier for earlier, later in zip(moments, moments[1:])]))


def be_loop(model, data, prompts, samples, tokens, rounds, device):
    import torch
    import transformers

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    rows = [json.loads(line)["prompt"] for line in pathlib.Path(data).read_text().splitlines()]
    tokenizer = transformers.AutoTokenizer.from_pretrained(model, padding_side="left")
    with torch.device(device):
        policy = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(model), dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=RATE, fused=device != "cpu")
    seconds, at_once = [], 16
    for number in range(rounds):
        start = time.perf_counter()
        asked = [rows[(number * prompts + i) % len(rows)] for i in range(prompts) for _ in range(samples)]
        batch = tokenizer(asked, return_tensors="pt", padding=True).to(device)
        with torch.no_grad():
            whole = policy.eval().generate(**batch, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=tokens,
                                           min_new_tokens=tokens, pad_token_id=tokenizer.eos_token_id)
        answers = whole[:, batch["input_ids"].shape[1]:]
        sampled = time.perf_counter()
        texts = tokenizer.batch_decode(answers)
        rewards = torch.tensor([len(set(text.split())) / max(len(text.split()), 1) for text in texts], device=device).view(prompts, samples)
        advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).view(-1)
        mask = torch.cat([batch["attention_mask"], torch.ones_like(answers)], 1)
        policy.train()
        optimizer.zero_grad()
        for first in range(0, len(whole), at_once):
            part = slice(first, first + at_once)
            logits = policy(whole[part], attention_mask=mask[part], use_cache=False, logits_to_keep=answers.shape[1] + 1).logits[:, :-1]
            logs = torch.gather(logits.float().log_softmax(-1), 2, answers[part, :, None]).squeeze(2)
            (-(advantages[part, None] * (logs - logs.detach()).exp()).sum() / answers.numel()).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        print(f"round {number}: {sampled - start:.2f} s of sampling", file=sys.stderr)
    print(json.dumps(seconds[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", default="build/engine/apps/cli/muster")
    parser.add_argument("--model")
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--peer", default="trl", choices=["trl", "loop"])
    parser.add_argument("--device", default="cpu")
    for name, usual in (("prompts", 16), ("samples", 16), ("tokens", 6), ("rounds", 12), ("turns", 3), ("ranks", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = write_model(folder / "model", SHAPES[given.shape]) if given.shape else given.model
        if model is None:
            made = [given.muster, "train", "-m", "builtin:llama-0.6m-halfway", "training.algorithm=grpo", "training.max_steps=1",
                    "data.held_out=0", "--device", "cpu", f"experiment.output={folder / 'made'}"]
            subprocess.run(made, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=3600)
            model = next((folder / "made").iterdir()) / "model"
        data = folder / "prompts.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in sums(max(given.prompts * 4, 64))))
        ours, theirs, shares = [], [], {}
        generated = rate_of_generate(given, model, data, folder)
        for turn in range(given.turns):
            seconds, shares = of_muster(given, model, data, folder / f"muster-{turn}")
            ours += seconds
            theirs += of_peer(given, model, data, folder / f"peer-{turn}")
    row = {"model": given.shape or given.model or "builtin:llama-0.6m-halfway", "device": given.device, "prompts": given.prompts, "samples": given.samples,
           "tokens": given.tokens, "threads": given.ranks, "muster_seconds": statistics.median(ours), "peer_seconds": statistics.median(theirs),
           "ratio": statistics.median(theirs) / statistics.median(ours), "peer": given.peer,
           "sampling_rate": given.prompts * given.samples * given.tokens / shares["sampling"]} | generated
    print(json.dumps(row | {name: round(share, 5) for name, share in shares.items()}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        *paths, device, peer = *sys.argv[2:5], *sys.argv[9:11]
        counts = map(int, sys.argv[5:9])
        be_loop(*paths[:2], *counts, device) if peer == "loop" else be_peer(*paths, *counts, device)
    else:
        main()
