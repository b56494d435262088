"""A model split by layers over CPU ranks gives the bytes of one process."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import transformers
from split_models import FAMILIES, Generate, begin, make_model, peaks, plan_of, ranks_in, written

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "peer/logits"))
from model_cases import PROGRAMS  # noqa: E402

SAMPLED = ("--max-new-tokens", "20", "--temperature", "0.8", "--top-p", "0.95", "--samples", "2", "--seed", "3", "--logprobs")


def answers(generate: Generate, model: str, *arguments: str) -> bytes:
    result = generate("-m", model, "--device", "cpu", "-p", "p.txt", "-o", "out.jsonl", *SAMPLED, *arguments)
    return written(result, generate)


@pytest.mark.parametrize("model", FAMILIES)
def test_answers_and_log_probabilities_of_a_split_model_are_those_of_one_process(generate: Generate, model: str):
    alone = answers(generate, model)
    for ranks in ("2", "4"):
        assert answers(generate, model, "--ranks", ranks, "--device-map", "balanced") == alone


@pytest.mark.parametrize("model", ["llama", "gpt2"])
def test_scores_of_a_split_model_are_those_of_one_process(generate: Generate, model: str):
    rows = [{"prompt": prompt, "completion": " and " + prompt[::-1]} for prompt in (generate.folder / "p.txt").read_text().splitlines()]
    generate.prompts("pairs.jsonl", *rows)
    score = ("-m", model, "--device", "cpu", "--score", "--logprobs", "-p", "pairs.jsonl", "-o", "out.jsonl")
    alone = written(generate(*score), generate)
    for ranks in ("2", "3"):
        assert written(generate(*score, "--ranks", ranks, "--device-map", "balanced"), generate) == alone


def test_replicas_of_a_split_model_give_the_same_bytes(generate: Generate):
    whole = plan_of(generate, "-m", "llama", "--device", "cpu", "-p", "p.txt", *SAMPLED, "--batch-size", "4", "--ranks", "4")
    assert [rank.get("layers") for rank in whole["ranks"]] == [None] * 4
    too_little = whole["ranks"][0]["total_bytes"] - 1
    split = ("--batch-size", "4", "--ranks", "4", "--max-memory", ",".join(f"{rank}={too_little}" for rank in range(4)))
    plan = plan_of(generate, "-m", "llama", "--device", "cpu", "-p", "p.txt", *SAMPLED, *split)
    assert [(rank["layers"]["first"], rank["layers"]["end"]) for rank in plan["ranks"]] == [(0, 3), (3, 6)] * 2
    assert answers(generate, "llama", *split) == answers(generate, "llama")


def test_a_device_map_as_written_gives_the_same_bytes(generate: Generate):
    places = {"transformer.wte": "1", "transformer.wpe": "1", **{f"transformer.h.{i}": "1" if i < 2 else "0" for i in range(6)},
              "transformer.ln_f": "0", "lm_head": "0"}
    written_map = ("--ranks", "2", "--device-map", json.dumps(places))
    assert answers(generate, "gpt2", *written_map) == answers(generate, "gpt2")


def test_each_rank_reads_its_layers_and_nothing_else(folder: pathlib.Path):
    def bytes_read(*layers: int) -> int:
        words = [str(PROGRAMS / "logits_driver"), str(folder / "llama-untied"), "float32", "cpu", "1", *map(str, layers)]
        return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["bytes_read"]

    stages = [bytes_read(first, first + 2) for first in (0, 2, 4)]
    assert sum(stages) == bytes_read(0, 6)
    assert stages[1] == 2 * bytes_read(1, 2)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """A model of 106 MiB."""
    folder = tmp_path_factory.mktemp("large")
    make_model(folder, "large", transformers.LlamaConfig(
        vocab_size=4000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4,
        max_position_embeddings=256, tie_word_embeddings=False))
    generate = Generate(folder)
    generate.prompts("p.txt", *(f"{i} bottles of beer on the wall, {i} bottles of beer" for i in range(16)))
    return generate


LARGE = ("-m", "large", "--device", "cpu", "--max-new-tokens", "8", "generation.sequence_length=64")


@pytest.mark.parametrize("spread", [("--ranks", "2", "--device-map", "balanced"), ("--ranks", "4", "--device-map", "balanced")])
def test_every_rank_keeps_to_its_share_of_the_plan(large: Generate, spread: tuple):
    planned = [rank["total_bytes"] for rank in plan_of(large, *LARGE, "-p", "-", *spread)["ranks"]]
    highest = peaks(large, *LARGE, *spread, rows=16)
    assert sorted(highest) == list(range(len(planned)))
    for rank, bytes in highest.items():
        assert 0.8 * planned[rank] < bytes < 1.1 * planned[rank], (rank, bytes, planned[rank])


def test_layers_on_disk_take_no_memory_and_give_the_same_bytes(large: Generate):
    whole = peaks(large, *LARGE, rows=16)[0]
    expected = (large.folder / "out.jsonl").read_bytes()
    on_disk = ("--max-memory", "cpu=0,disk=1TB")
    assert peaks(large, *LARGE, *on_disk, rows=16)[0] < whole - (30 << 20)  # of 106 MiB; what a process holds wavers by 10
    assert (large.folder / "out.jsonl").read_bytes() == expected
    assert peaks(large, *LARGE, "--ranks", "2", "--max-memory", "0=0,1=220MiB,disk=1TB", rows=16).keys() == {0}
    assert (large.folder / "out.jsonl").read_bytes() == expected


SLOW = ("-m", "large", "--device", "cpu", "--batch-size", "4", "--max-new-tokens", "24")


def test_a_stage_that_dies_ends_its_replica_and_is_named(large: Generate):
    process = begin(large, *SLOW, "--ranks", "3", "--device-map", "balanced", rows=1)
    os.kill(ranks_in(large.folder)[1], signal.SIGKILL)
    assert process.wait(timeout=120)
    said = process.stderr.read()
    assert "rank 1" in said and "SIGKILL" in said, said
    assert ranks_in(large.folder) == {}


def test_prompts_of_a_replica_that_lost_a_stage_are_redone_by_another(large: Generate):
    expected = written(large(*SLOW, "-p", "p.txt", "-o", "out.jsonl"), large)
    too_little = plan_of(large, *SLOW, "-p", "-", "--ranks", "4")["ranks"][0]["total_bytes"] - 1
    process = begin(large, *SLOW, "--ranks", "4", "--max-memory", ",".join(f"{rank}={too_little}" for rank in range(4)), rows=1)
    os.kill(ranks_in(large.folder)[3], signal.SIGKILL)
    while "rank 3" not in (said := process.stderr.readline()):
        assert said, "nobody missed it"
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert (large.folder / "out.jsonl").read_bytes() == expected
