"""SmolLM2-135M fine-tuned on real text: does the loss on text that it never saw fall, and does transformers agree?

python bench/train/smollm2_finetune.py [--steps 100] [--batch 4] [--length 128] [--ranks 1] [--folder FOLDER]
The text is Python's own language reference, as the interpreter carries it for help(): about 300 topics in English, cut
into pieces of a few lines; every tenth topic is held out. The model is what `muster model get smollm2` fetches. Before
and after, transformers computes the held-out loss in float32 with its own tokenizer. One JSON line; exit code 1 where
the held-out loss falls by less than 5 %, or the two losses on the export differ by more than 1e-4.
"""

import argparse
import json
import pathlib
import pydoc_data.topics
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUSTER = ROOT / "build" / "engine" / "apps" / "cli" / "muster"


def pieces(text: str, size: int) -> list[str]:
    """Whole paragraphs, of about this many letters together."""
    found = [""]
    for paragraph in text.split("\n\n"):
        if found[-1] and len(found[-1]) + len(paragraph) > size:
            found.append("")
        found[-1] += paragraph + "\n\n"
    return [piece.strip() for piece in found if piece.strip()]


def write_texts(folder: pathlib.Path, letters: int, most_held_out: int) -> tuple[pathlib.Path, pathlib.Path]:
    texts: list[list[str]] = [[], []]
    for number, (_, text) in enumerate(sorted(pydoc_data.topics.topics.items())):
        texts[number % 10 == 0] += pieces(text, letters)
    stride = max(1, len(texts[1]) // most_held_out)
    paths = folder / "training.jsonl", folder / "held_out.jsonl"
    for path, rows in zip(paths, (texts[0], texts[1][::stride])):
        path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    return paths


def held_out_loss(model_folder: pathlib.Path, texts: pathlib.Path, length: int) -> tuple[float, int]:
    """By transformers, sample by sample: a longer text is several, which share the token where one ends."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    total, count = 0.0, 0
    for line in texts.read_text().splitlines():
        tokens = tokenizer(json.loads(line)["text"])["input_ids"] + [tokenizer.eos_token_id]
        for first in range(0, len(tokens) - 1, length - 1):
            part = torch.tensor([tokens[first : first + length]])
            with torch.no_grad():
                logits = model(part).logits[0, :-1]
            total += torch.nn.functional.cross_entropy(logits, part[0, 1:], reduction="sum").item()
            count += part.shape[1] - 1
    return total / count, count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rate", default="5e-5")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--held-out", type=int, default=60, help="texts that are evaluated on, about")
    parser.add_argument("--folder", type=pathlib.Path, help="where the run goes; not said: a folder that is removed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = (given.folder or pathlib.Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        training, held_out = write_texts(folder, 4 * given.length, given.held_out)
        before_folder = folder / "before"
        subprocess.run([MUSTER, "model", "get", "smollm2"], check=True, stdout=sys.stderr)
        if not before_folder.exists():
            subprocess.run([MUSTER, "model", "convert", "smollm2", before_folder, "--dtype", "float32"], check=True, stdout=sys.stderr)
        before, tokens = held_out_loss(before_folder, held_out, given.length)
        command = [MUSTER, "train", "--json", "-m", "smollm2", f"data.path={training}", f"data.eval_path={held_out}",
                   f"training.max_steps={given.steps}", f"training.batch_size={given.batch}", "training.mixed_precision=no",
                   f"training.sequence_length={given.length}", f"training.learning_rate={given.rate}",
                   f"distributed.ranks={given.ranks}", f"experiment.output={folder / 'runs'}", "--device", "cpu"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        result = json.loads(done.stdout.splitlines()[-1])
        theirs, _ = held_out_loss(pathlib.Path(result["folder"]) / "model", held_out, given.length)
    ours = result["eval_loss"]
    report = {"bench": "train/smollm2_finetune", "steps": given.steps, "batch": given.batch, "length": given.length,
              "held_out_tokens": tokens, "before": before, "after": ours, "after_transformers": theirs,
              "fell": 1 - ours / before, "difference": abs(ours - theirs), "seconds": result["seconds"]}
    print(json.dumps(report))
    return 0 if report["fell"] >= 0.05 and report["difference"] <= 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
