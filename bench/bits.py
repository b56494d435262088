#!/usr/bin/env python3
"""Deterministic runs of one or two programs: training in every strategy and family, generation in every layout.

    bench/bits.py PROGRAM [OTHER_PROGRAM]

Prints a digest of the bits of each run: of losses, norms and the trained model, or of the answers. With two programs, says
which runs give the same bits with both; the exit code is 1 where any differs. PROGRAM: the clone's ./muster, or a built
program. A change that is meant to change no number is held against the commit before it. About a minute a program on two
cores; the model that answers is smollm2, which must be there (`muster model get smollm2`).
"""

import csv
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = 12
FAMILIES = {
    "llama": dict(model_type="llama", tie_word_embeddings=True),
    "mistral": dict(model_type="mistral", sliding_window=16),
    "qwen2": dict(model_type="qwen2"),
    "qwen3": dict(model_type="qwen3", head_dim=16),
}
SHAPE = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, rms_norm_eps=1e-6)  # fmt: skip
GPT2 = dict(model_type="gpt2", n_embd=64, n_layer=3, n_head=4, n_positions=512)


class Program:
    def __init__(self, path: str, folder: pathlib.Path):
        self.path = str(pathlib.Path(path).resolve())
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("MUSTER_") or name == "MUSTER_MODELS"}
        self.environment |= {"MUSTER_CACHE": str(folder / "cache"), "MUSTER_STATE": str(folder / "state"),
                             "MUSTER_LEASE_DIR": str(folder / "leases")}  # fmt: skip

    def __call__(self, *words: str) -> str:
        done = subprocess.run([self.path, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{self.path} {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout

    def train(self, name: str, *words: str) -> str:
        self("train", "--device", "cpu", "--output", f"run-{name}", f"training.max_steps={STEPS}", "training.batch_size=12",
             "training.deterministic=true", "training.eval_steps=1000", *words)  # fmt: skip
        folder = next((self.folder / f"run-{name}").glob("**/metrics.csv")).parent
        digest = hashlib.sha256()
        with open(folder / "metrics.csv", newline="") as file:
            for row in csv.DictReader(file):
                digest.update(f"{row['step']} {row['loss']} {row['gradient_norm']} {row['eval_loss']}\n".encode())
        for weights in sorted((folder / "model").glob("*.safetensors")):
            size = int.from_bytes(weights.read_bytes()[:8], "little")
            digest.update(weights.read_bytes()[8 + size:])
        return digest.hexdigest()

    def generate(self, name: str, *words: str) -> str:
        self("generate", "-m", "smollm2", "--device", "cpu", "-o", f"{name}.jsonl", *words)
        return hashlib.sha256((self.folder / f"{name}.jsonl").read_bytes()).hexdigest()


def make_family(program: Program, name: str, config: dict) -> str:
    """A random model with the tokenizer of the built-in one."""
    folder = program.folder / f"family-{name}"
    folder.mkdir()
    tokenizers = sorted((program.folder / "cache/models").glob("*/tokenizer*.json"))
    for file in tokenizers:
        (folder / file.name).write_bytes(file.read_bytes())
    vocabulary = json.loads(next(f for f in tokenizers if f.name == "tokenizer.json").read_text())["model"]["vocab"]
    added = json.loads(next(f for f in tokenizers if f.name == "tokenizer.json").read_text())["added_tokens"]
    size = max([*vocabulary.values(), *(token["id"] for token in added)]) + 1
    shape = GPT2 if config["model_type"] == "gpt2" else SHAPE | config
    (folder / "config.json").write_text(json.dumps(shape | {"vocab_size": size}))
    return str(folder)


def digests(path: str) -> dict[str, str]:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        program = Program(path, pathlib.Path(folder))
        found["train single"] = program.train("single")
        for name, words in {
            "train ddp, 2 ranks": ["--ranks", "2", "--strategy", "ddp"],
            "train full_shard, 2 ranks, recomputed": ["--ranks", "2", "--strategy", "fsdp", "training.gradient_checkpointing=full"],
            "train shard_grad_op, 3 ranks": ["--ranks", "3", "--strategy", "fsdp", "distributed.fsdp_sharding_strategy=shard_grad_op"],
            "train hybrid_shard, 4 ranks": ["--ranks", "4", "--strategy", "fsdp", "distributed.fsdp_sharding_strategy=hybrid_shard", "distributed.fsdp_group_size=2"],
            "train bf16, packed": ["training.mixed_precision=bf16", "training.packing=true", "training.sequence_length=64"],
            "train fp16": ["training.mixed_precision=fp16"],
        }.items():  # fmt: skip
            found[name] = program.train(name.replace(" ", "-").replace(",", ""), *words)
        rows = program.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"prompt": f"{i} and {i * 7 % 31} are", "completion": f" {i + i * 7 % 31}."}) + "\n" for i in range(64)))
        for family, config in (FAMILIES | {"gpt2": GPT2}).items():
            model = make_family(program, family, config)
            found[f"train {family}, 2 ranks"] = program.train(family, "-m", model, "model.init=random", "--data", str(rows), "--ranks", "2")
        prompts = program.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in ("The capital of France is", "Two and two", "Once upon a time", "A list of fruit:")))
        greedy = ["-p", str(prompts), "--max-new-tokens", "12", "--temperature", "0"]
        drawn = ["-p", str(prompts), "--max-new-tokens", "12", "--temperature", "0.8", "generation.samples=3", "--seed", "7"]
        for name, words in {
            "generate greedy": greedy,
            "generate drawn": drawn,
            "generate drawn, 2 ranks": [*drawn, "--ranks", "2"],
            "generate drawn, split over 2 ranks": [*drawn, "--ranks", "2", "--device-map", "balanced"],
        }.items():  # fmt: skip
            found[name] = program.generate(name.replace(" ", "-").replace(",", ""), *words)
        scored = program.folder / "scored.jsonl"
        scored.write_text("".join(json.dumps({"prompt": "The capital of France is", "completion": text}) + "\n" for text in (" Paris.", " Rome.", " a city.")))
        found["score"] = program.generate("score", "--score", "-p", str(scored))
    return found


def main() -> int:
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    first = digests(sys.argv[1])
    second = digests(sys.argv[2]) if len(sys.argv) == 3 else {}
    for name, digest in first.items():
        verdict = "" if not second else "same bits" if second[name] == digest else f"OTHER BITS: {second[name][:16]}"
        print(f"{name:40} {digest[:16]}  {verdict}")
    return int(any(first[name] != digest for name, digest in second.items()))


if __name__ == "__main__":
    sys.exit(main())
