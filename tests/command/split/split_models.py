"""Small checkpoints with text of every family, and muster generate over ranks that share one of them."""

import json
import os
import pathlib
import subprocess
import sys
import time

import torch
import transformers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "generate"))
from generate_runs import TINY, Generate  # noqa: E402

SIZES = {key: value for key, value in TINY.items() if key not in ("model_type", "architectures", "tie_word_embeddings")} | {
    "num_hidden_layers": 6, "initializer_range": 0.4}
FAMILIES = {
    "llama": transformers.LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama-untied": transformers.LlamaConfig(**SIZES, tie_word_embeddings=False),
    "qwen2": transformers.Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3-untied": transformers.Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=False),
    "gpt2": transformers.GPT2Config(vocab_size=400, n_positions=128, n_embd=32, n_layer=6, n_head=4, initializer_range=0.4),
}


def make_model(folder: pathlib.Path, name: str, config: transformers.PreTrainedConfig) -> None:
    """Random weights far enough from each other that choices are no coin tosses; a tokenizer trained on the spot."""
    generate = Generate(folder)
    generate.text()
    (folder / "tiny").rename(folder / name)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.float32)
    model.save_pretrained(folder / name)
    (folder / name / "generation_config.json").unlink(missing_ok=True)


def written(result, generate: Generate, name: str = "out.jsonl") -> bytes:
    assert result.returncode == 0, result.stderr
    return (generate.folder / name).read_bytes()


def limits(count: int, size: str) -> tuple[str, str]:
    return "--max-memory", ",".join(f"{rank}={size}" for rank in range(count))


def plan_of(generate: Generate, *arguments: str) -> dict:
    result = generate(*arguments, "--dry-run", "--json")
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


def ranks_in(folder: pathlib.Path) -> dict[int, int]:
    """The muster-workers that compute in this folder: by rank, their process ids."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() != "muster-worker" or os.readlink(process / "cwd") != str(folder.resolve()):
                continue
            environment = dict(entry.split("=", 1) for entry in (process / "environ").read_text().split("\0") if "=" in entry)
            found[int(environment["RANK"])] = int(process.name)
        except (OSError, KeyError):
            continue  # it has ended meanwhile
    return found


def begin(generate: Generate, *arguments: str, rows: int) -> subprocess.Popen:
    """A run over standard input that has got p.txt, has written so many rows, and goes on until that is closed."""
    output = generate.folder / "out.jsonl"
    output.unlink(missing_ok=True)
    process = generate.start(*arguments, "-p", "-", "-o", output.name, stdin=subprocess.PIPE)
    process.stdin.write((generate.folder / "p.txt").read_text())
    process.stdin.flush()
    deadline = time.monotonic() + 120
    while not output.exists() or output.read_bytes().count(b"\n") < rows:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def peaks(generate: Generate, *arguments: str, rows: int) -> dict[int, int]:
    """Runs to the end; by rank, the most bytes that its process held until all rows were written."""
    process = begin(generate, *arguments, rows=rows)
    highest = {}
    for rank, number in ranks_in(generate.folder).items():
        status = pathlib.Path(f"/proc/{number}/status").read_text()
        highest[rank] = int(status.split("VmHWM:")[1].split()[0]) * 1024
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return highest
