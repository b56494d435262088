"""What generation_config.json says about sampling, against transformers' reading of the same file."""

import json

import pytest
from transformers import GenerationConfig

BARE = ("-m", "tiny", "model.init=random", "--device", "cpu")
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_new_tokens")
BUILT_IN = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "repetition_penalty": 1, "max_new_tokens": 16}

# As models have them; the last ones have what transformers leaves out, null, and values that change nothing.
FILES = {
    "qwen2.5": {"do_sample": True, "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "eos_token_id": [5, 6]},
    "llama3": {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "max_length": 4096, "bos_token_id": 1},
    "greedy": {"do_sample": False, "max_new_tokens": 12},
    "short": {"do_sample": True, "min_p": 0.1, "max_new_tokens": 9, "num_beams": 1, "num_return_sequences": 1, "typical_p": 1.0},
    "nulls": {"do_sample": True, "temperature": None, "top_k": None, "min_p": None},
}


@pytest.fixture
def saying(scripted):
    def write(content):
        text = content if isinstance(content, str) else json.dumps(content)
        (scripted.folder / "tiny" / "generation_config.json").write_text(text)
        return scripted

    scripted.text()
    return write


def task(scripted, *more):
    (scripted.folder / "record.jsonl").unlink(missing_ok=True)
    # The tiny model has room for 128 tokens; the built-in 256 new ones would be refused.
    length = () if any("max_new_tokens" in word or "--max-new-tokens" in word for word in more) else ("generation.sequence_length=128",)
    result = scripted(*BARE, "a prompt", *length, *more)
    assert result.returncode == 0, result.stderr
    return scripted.recorded()[0]["task"], result.stderr


@pytest.mark.parametrize("name", FILES)
def test_sampling_follows_the_file_as_transformers_reads_it(saying, name):
    content = FILES[name]
    scripted = saying(content)
    theirs = GenerationConfig.from_pretrained(scripted.folder / "tiny")
    length = () if content.get("max_new_tokens") else ("--max-new-tokens", "16")
    ours, notes = task(scripted, *length)
    for key in SAMPLING:
        given = content.get(key) is not None
        expected = getattr(theirs, key) if given else BUILT_IN[key]
        if key == "temperature" and theirs.do_sample is False:
            expected = 0
        assert ours[key] == expected, key
        if given:
            assert f"{key} " in notes
    assert "not supported" not in notes


def test_what_the_user_sets_wins_and_the_origin_of_each_value_is_shown(saying):
    scripted = saying({"do_sample": False, "temperature": 0.6, "top_k": 20, "max_new_tokens": 7})
    ours, _ = task(scripted, "--temperature", "0.9", "--max-new-tokens", "5")
    assert (ours["temperature"], ours["top_k"], ours["max_new_tokens"]) == (0.9, 20, 5)
    shown = scripted(*BARE, "--top-k", "3", "--print-config").stdout
    lines = {line.split(":")[0].strip(): line.split("#")[1].strip() for line in shown.splitlines() if "#" in line}
    assert lines["temperature"].endswith("tiny/generation_config.json")
    assert (lines["top_k"], lines["top_p"]) == ("--top-k", "built-in")


def test_what_is_not_supported_is_named(saying):
    scripted = saying({"num_beams": 4, "no_repeat_ngram_size": 3, "early_stopping": True, "max_length": 20, "suppress_tokens": [1, 2]})
    _, notes = task(scripted, "--max-new-tokens", "5")
    assert "not supported, and left out: num_beams 4, no_repeat_ngram_size 3" in notes
    assert "suppress_tokens" in notes and "max_length 20" in notes


def test_a_length_that_leaves_no_room_for_a_prompt_is_lowered(saying):
    scripted = saying({"max_new_tokens": 4096})
    ours, notes = task(scripted)
    assert ours["max_new_tokens"] == 64 and "4096 lowered to 64" in notes


def test_texts_that_end_an_answer_are_taken(saying):
    assert task(saying({"stop_strings": ["\n\n", "END"]}), "--max-new-tokens", "5")[0]["stop"] == ["\n\n", "END"]
    assert task(saying({"stop_strings": "END"}), "--max-new-tokens", "5")[0]["stop"] == ["END"]


def test_values_that_make_no_sense_are_refused_with_the_file(saying):
    result = saying({"top_p": 7})(*BARE, "a prompt")
    assert result.returncode == 2 and 'generation_config.json: "top_p" is 7' in result.stderr and "generation.top_p" in result.stderr
    result = saying("{")(*BARE, "a prompt")
    assert result.returncode == 2 and "generation_config.json" in result.stderr


def test_a_conversation_has_the_same_defaults_and_scores_have_none(saying):
    scripted = saying({"temperature": 0.25, "max_new_tokens": 6})
    assert scripted(*BARE, "--interactive", input="hello\n").returncode == 0
    assert scripted.recorded()[0]["task"]["temperature"] == 0.25
    (scripted.folder / "record.jsonl").unlink()
    result = scripted(*BARE, "--score", "-p", scripted.prompts("p.jsonl", {"prompt": "a", "completion": "b"}))
    assert result.returncode == 0 and "generation_config" not in result.stderr
    assert scripted.recorded()[0]["task"]["temperature"] == 1
