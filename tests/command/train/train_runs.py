"""Runs `muster train` on CPU ranks as a user would, on tiny random models and small made-up texts."""

import csv
import dataclasses
import json
import os
import pathlib
import random
import subprocess

import model_cases
import numpy
import safetensors.torch
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))
CASES = {case.name: case for case in model_cases.cases()}
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gpt2")
WORDS = "river stone morning under seven quiet lamp follows green a the of it window paper and small north".split()


def pairs(count, seed=1, most_words=4):
    """Questions and answers of different lengths."""
    chance = random.Random(seed)
    words = lambda most: " ".join(chance.choices(WORDS, k=chance.randint(1, most)))
    return [{"prompt": words(most_words) + "?", "completion": " " + words(most_words)} for _ in range(count)]


@dataclasses.dataclass
class Run:
    code: int
    text: str  # standard error
    folder: pathlib.Path

    def column(self, name="loss"):
        """As metrics.csv has it, to the last digit."""
        with open(self.folder / "metrics.csv", newline="") as file:
            return [row[name] for row in csv.DictReader(file)]

    def losses(self):
        return numpy.array([float(loss) for loss in self.column()])

    def events(self, kind):
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def result(self):
        return json.loads((self.folder / "result.json").read_text())

    def tensors(self):
        """Of the exported model, by name."""
        return read_tensors(self.folder / "model")


def read_tensors(folder):
    files = sorted(folder.glob("*.safetensors"))
    assert files, f"no weights in {folder}"
    found = {}
    for file in files:
        found |= safetensors.torch.load_file(file)
    return found


def furthest(ours, theirs):
    """The largest difference of two models' weights."""
    assert ours.keys() == theirs.keys()
    return max((ours[name].float() - theirs[name].float()).abs().max().item() for name in ours)


def assert_same_bits(one, other):
    assert one.column() == other.column()
    ours, theirs = one.tensors(), other.tensors()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor.view(torch.uint8), theirs[name].view(torch.uint8)), name


class Classroom:
    """Models, data and runs of one session of tests."""

    def __init__(self, folder, data_program):
        self.folder = folder
        self.data_program = data_program
        self.models = {}
        self.count = 0
        kept = ("MUSTER_", "CUDA_", "OMP_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(kept)}
        # Threads of so small models would mostly wait for each other, and keep processors from the tests beside.
        self.environment |= {"MUSTER_CACHE": str(folder / "cache"), "MUSTER_LEASE_DIR": str(folder / "leases"), "OMP_NUM_THREADS": "1"}

    def model(self, name):
        """The folder of a tiny random model with a tokenizer of bytes."""
        return self.model_of(CASES[name])

    def model_of(self, case):
        if case.name not in self.models:
            folder = self.folder / "models" / case.name
            model_cases.make_checkpoint(case, folder)
            self.add_tokenizer(folder)
            self.models[case.name] = folder
        return self.models[case.name]

    def add_tokenizer(self, folder):
        generation = (folder / "generation_config.json").read_text()
        assert self.data_program.order(write_byte_tokenizer=str(folder)) == {}
        (folder / "generation_config.json").write_text(generation)

    def data(self, rows):
        self.count += 1
        path = self.folder / f"rows-{self.count}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def samples(self, model, data, **options):
        """What a run reads: {"samples": tokens and mask of each, "batches": which of them each step takes}."""
        found = self.data_program.order(model=str(model), data=str(data), cache=str(self.folder / "cache"), **options)
        assert "error" not in found, found
        return found

    def start(self, model, data, ranks=1, **settings):
        self.count += 1
        output = self.folder / f"runs-{self.count}"
        words = [f"data.path={data}", f"distributed.ranks={ranks}", f"experiment.output={output}"]
        words += [f"{name if '.' in name else 'training.' + name}={value}" for name, value in settings.items()]
        command = [str(PROGRAM), "train", "-m", str(model), "--device", "cpu", *words]
        done = subprocess.run(command, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300)
        folders = sorted(output.iterdir()) if output.exists() else [output]
        return Run(done.returncode, done.stderr, folders[0])

    def train(self, model, data, ranks=1, **settings):
        run = self.start(model, data, ranks, **settings)
        assert run.code == 0, run.text
        return run
