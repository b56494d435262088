"""From the command to the first token, beside what transformers takes to be imported.

    python bench/generate/first_token_peer.py --program build/engine/apps/cli/muster [--device cuda] [--model FOLDER|GGUF]

Without --model: the shape of SmolLM2-135M with random weights and a small tokenizer. Prints one JSON line, in seconds: the
whole command (lease, launch, load, first token, end), and `import` of what a script needs before it can load anything.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from score_peer import SMOLLM2


def make_model(folder):
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(["the quick brown fox"], tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|end|>"]))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(SMOLLM2))
    return ["-m", str(folder), "model.init=random"]


def seconds(command, **options):
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, text=True, **options)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = ["-m", arguments.model] if arguments.model else make_model(pathlib.Path(folder))
        command = [arguments.program, "generate", *model, "-p", "-", "--device", arguments.device, "--max-new-tokens", "1"]
        ours = [seconds(command, input="the quick\n") for _ in range(arguments.repeats)]
        imports = "import torch; from transformers import AutoModelForCausalLM, AutoTokenizer"
        theirs = [seconds([sys.executable, "-c", imports]) for _ in range(arguments.repeats)]
    print(json.dumps({"question": "first token", "device": arguments.device, "muster": [round(s, 2) for s in ours],
                      "transformers_import": [round(s, 2) for s in theirs],
                      "ratio": round(min(ours) / min(theirs), 3)}))


if __name__ == "__main__":
    main()
