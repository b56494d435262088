"""Answers and scores of every family, whatever the schedule: against transformers, and against themselves."""

import model_cases
import numpy
import pytest
import torch
from json_lines import ModelProgram

FIXED = ("llama", "mistral", "qwen2", "qwen3", "gpt2", "arcee", "mistral-window")
# Rotary embeddings that depend on how long a sequence may become: transformers changes those of earlier tokens as it
# grows, and a score is made for the length that it has.
BY_LENGTH = ("llama-dynamic", "llama-longrope-long")
CASES = {case.name: case for case in model_cases.cases()}
NEW_TOKENS = 24
# One at a time; together; with room for hardly more than one, so that sequences go to the host; in odd parts.
SCHEDULES = [
    {"most_sequences": 1},
    {"most_sequences": 8},
    {"most_sequences": 8, "blocks": 4, "most_prompt_rows": 50},
    {"most_sequences": 3, "most_prompt_rows": 7, "patience": 0.5},
]


class Driver(ModelProgram):
    def __init__(self, model, threads=2):
        super().__init__(model_cases.PROGRAMS / "generate_driver", model, "float32", threads)


@pytest.fixture(scope="module")
def checkpoint(request, tmp_path_factory):
    case = CASES[request.param]
    folder = tmp_path_factory.mktemp(case.name)
    return case, folder, model_cases.make_checkpoint(case, folder), model_cases.sequences_of(case)


def of(*names):
    return pytest.mark.parametrize("checkpoint", names, indirect=True)


def requests_of(sequences, samples=1, most_tokens=NEW_TOKENS):
    return [{"prompt": ids, "branches": [{"index": i, "sample": s, "most_tokens": most_tokens} for s in range(samples)]}
            for i, ids in enumerate(sequences)]


@of(*FIXED)
def test_greedy_tokens_are_those_of_transformers_in_ragged_batches(checkpoint):
    """A token may differ only where the oracle's own two best are within 1e-3; each is compared after our own tokens."""
    _, folder, oracle, sequences = checkpoint
    with Driver(folder) as driver:
        answers = driver.ask(requests=requests_of(sequences), most_sequences=8)["answers"]
    for ids, (_, _, tokens, scores, finish) in zip(sequences, answers, strict=True):
        assert len(tokens) == NEW_TOKENS and finish == "length"
        logits = model_cases.oracle_logits(oracle, [ids + tokens])[len(ids) - 1:-1].astype(numpy.float64)
        best = numpy.sort(logits, axis=1)
        sure = best[:, -1] - best[:, -2] >= 1e-3
        assert (logits.argmax(axis=1) == tokens)[sure].all()
        theirs = logits - numpy.log(numpy.exp(logits - best[:, -1:]).sum(axis=1, keepdims=True)) - best[:, -1:]
        assert numpy.abs(theirs[numpy.arange(NEW_TOKENS), tokens] - scores).max() <= 1e-4


@of(*FIXED, *BY_LENGTH)
def test_answers_have_the_same_bits_however_they_are_scheduled(checkpoint):
    case, folder, _, _ = checkpoint
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(0, case.settings["vocab_size"], (length,), generator=generator).tolist() for length in (50, 61, 128)]
    requests = requests_of(prompts, 2, most_tokens=80)
    rules = {"temperature": 1.1, "top_k": 40, "top_p": 0.95, "repetition_penalty": 1.1}
    with Driver(folder) as driver:
        found = [driver.ask(requests=requests, rules=rules, seed=3, **schedule) for schedule in SCHEDULES]
        found.append(driver.ask(requests=requests[::-1], rules=rules, seed=3))
    with Driver(folder, threads=1) as driver:
        found.append(driver.ask(requests=requests, rules=rules, seed=3))
    assert all(each["answers"] == found[0]["answers"] for each in found)
    assert len({tuple(answer[2]) for answer in found[0]["answers"]}) > len(prompts)
    assert all(each["rows"] == found[0]["rows"] for each in found)  # nothing is computed twice
    assert found[1]["moves"] == 2  # of the blocks that prompts leave half full, a copy for the other sample
    assert found[2]["moves"] > 10  # to the host and back


@of(*FIXED)
def test_log_probabilities_of_answers_are_the_scores_of_their_tokens(checkpoint):
    _, folder, _, sequences = checkpoint
    with Driver(folder) as driver:
        for temperature in (0.0, 1.0):
            answers = driver.ask(requests=requests_of(sequences, 2), rules={"temperature": temperature})["answers"]
            texts = [{"index": number, "tokens": sequences[index] + tokens, "context": len(sequences[index])}
                     for number, (index, _, tokens, _, _) in enumerate(answers)]
            for schedule in SCHEDULES:
                scores = driver.ask(texts=texts, rules={"temperature": 1}, **schedule)
                assert [score[3] for score in scores["answers"]] == [answer[3] for answer in answers]
            assert scores["rows"] < sum(len(text["tokens"]) - 1 for text in texts)  # answers to one prompt share its rows
