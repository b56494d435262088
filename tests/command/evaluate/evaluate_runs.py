"""muster evaluate as a user runs it, and a small model that was taught a few answers by heart."""

import json
import math
import os
import pathlib
import subprocess
import sys

import torch
import transformers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from tiny_tokenizer import make_model_text  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))

KNOWN = [("The capital of France is", " Paris."), ("1+2=", "3"), ("Grüße aus", " Zürich, 世界!"), ("f(x):", " return x")]
ASKED = {"role": "user", "content": "Who are you?"}
TOLD = {"role": "assistant", "content": "don't you're 12345"}


def pair_tokens(tokenizer: transformers.PreTrainedTokenizerBase, prompt: str, completion: str) -> tuple[list, list]:
    """Tokens, and labels of the completion and the end."""
    asked = tokenizer(prompt)["input_ids"]
    answer = tokenizer(completion, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    return asked + answer, [-100] * len(asked) + answer


def chat_tokens(tokenizer: transformers.PreTrainedTokenizerBase, messages: list) -> tuple[list, list]:
    """Labels of what the assistant writes."""
    made = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    return made["input_ids"], [
        token if told else -100 for token, told in zip(made["input_ids"], made["assistant_masks"], strict=True)
    ]


def summed_loss(model: transformers.PreTrainedModel, tokens: list, labels: list) -> tuple[float, int]:
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, :-1].double()
    targets = torch.tensor(labels[1:])
    loss = torch.nn.functional.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")
    return loss.item(), int((targets != -100).sum())


def mean_loss(model: transformers.PreTrainedModel, rows: list) -> tuple[float, int]:
    sums = [summed_loss(model, *row) for row in rows]
    tokens = sum(count for _, count in sums)
    return math.fsum(loss for loss, _ in sums) / tokens, tokens


def make_taught_model(folder: pathlib.Path) -> pathlib.Path:
    torch.manual_seed(7)
    make_model_text(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=400, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
    )
    model = transformers.LlamaForCausalLM(config)
    rows = [pair_tokens(tokenizer, *pair) for pair in KNOWN] + [chat_tokens(tokenizer, [ASKED, TOLD])]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        for tokens, labels in rows:
            model(torch.tensor([tokens]), labels=torch.tensor([labels])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval().save_pretrained(folder)
    return folder


class Evaluate:
    """Runs `muster evaluate ARGS` in a folder of its own, on the CPU."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        dropped = ("MUSTER_", "CUDA_", "HF_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        self.environment |= {
            "MUSTER_LEASE_DIR": str(folder / "leases"),
            "MUSTER_MODELS": str(folder / "models"),
            "MUSTER_CACHE": str(folder / "cache"),
            "HF_HUB_CACHE": str(folder / "hub"),
        }

    def rows(self, name: str, *rows: dict) -> str:
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return name

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(PROGRAM), "evaluate", "--device", "cpu", *arguments], env=self.environment, cwd=self.folder,
            text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=300,
        )

    def json(self, *arguments: str) -> dict:
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def peer(self) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "model", dtype=torch.float32)
        return model.eval(), transformers.AutoTokenizer.from_pretrained(self.folder / "model")
