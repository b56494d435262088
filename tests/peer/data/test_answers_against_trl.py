"""Which tokens of a conversation are trained on, against the templates that TRL has for training.

TRL ships many models' chat templates twice: as the model has them, and with {% generation %} around what the assistant writes.
muster gets the first; transformers' mask of the second says what it should find. TRL's marks differ from one template to the next in whether
they hold words of the generation prompt ("<|im_start|>assistant\\n"), which the model never writes: those are taken out of the mask.
"""

import pathlib

import pytest
import trl
from transformers import AutoTokenizer

TEMPLATES = pathlib.Path(trl.__file__).parent / "chat_templates"

# The same text for the plain template as for the one for training, and earlier turns stay as they are.
STEADY = ["cohere", "cohere2", "gemma", "gemma3", "lfm2_v2", "llama3", "muse_glimmer", "qwen2_5", "qwen3_8", "qwen3_instruct_2507", "qwen3_vl"]
# Earlier turns lose their reasoning, or end otherwise than the last one: each answer becomes a sample.
CHANGING = ["gptoss", "phi3", "phi3_5", "qwen3", "qwen3_6"]

USER = {"role": "user", "content": "What is the capital of France?"}
MORE = {"role": "user", "content": "And of Italy?\n\n  Please."}
PARIS = {"role": "assistant", "content": "Paris, of course."}
ROME = {"role": "assistant", "content": "Rome z"}
REASONED = {"role": "assistant", "content": "Rome.", "reasoning_content": "Italy's capital is Rome."}
CHATS = [
    [USER, PARIS],
    [USER, PARIS, MORE, ROME],
    [USER, PARIS, MORE, ROME, USER, PARIS],
    [USER, PARIS, MORE, REASONED],
    [USER, REASONED, MORE, REASONED],
    [USER, PARIS, MORE],
]
CALL = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": {"city": "Zürich"}}}]}
RESULT = {"role": "tool", "name": "look", "content": "sunny"}


@pytest.fixture(scope="module")
def model(driver, tmp_path_factory):
    """Bytes are tokens, so that a mask says of every byte whether it is trained on."""
    folder = tmp_path_factory.mktemp("bytes")
    assert driver.order(write_byte_tokenizer=str(folder)) == {}
    return folder


def peer_of(folder, name):
    (folder / "chat_template.jinja").write_text((TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8"), encoding="utf-8")
    return AutoTokenizer.from_pretrained(folder)


def encoded(peer, messages, **options):
    return peer.apply_chat_template(messages, return_dict=True, **options)


def without_prompts(mask, tokens, peer, messages):
    """The mask without tokens of generation prompts that it holds."""
    kept = list(mask)
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = encoded(peer, messages[:i])["input_ids"]
        prompt = encoded(peer, messages[:i], add_generation_prompt=True)["input_ids"]
        assert tokens[: len(prompt)] == prompt
        kept[len(before) : len(prompt)] = [0] * (len(prompt) - len(before))
    return kept


@pytest.mark.parametrize("name", STEADY)
def test_every_answer_is_what_the_template_for_training_marks(driver, model, name):
    chats = CHATS + ([[USER, CALL, RESULT, ROME, MORE, PARIS]] if name.startswith("qwen") or name == "lfm2_v2" else [])
    training = peer_of(model, f"{name}_training")
    expected = [encoded(training, messages, return_assistant_tokens_mask=True) for messages in chats]
    plain = peer_of(model, name)
    answer = driver.prepare(model, [{"messages": messages} for messages in chats], sequence_length=8192)
    assert "error" not in answer, answer
    assert answer["counts"]["split"] == 0
    for messages, sample, marked in zip(chats, answer["samples"], expected, strict=True):
        assert sample["tokens"] == marked["input_ids"]
        assert sample["mask"] == without_prompts(marked["assistant_masks"], sample["tokens"], plain, messages), messages


@pytest.mark.parametrize("name", CHANGING)
def test_where_earlier_turns_change_each_answer_is_a_sample_that_ends_with_it(driver, model, name):
    plain = peer_of(model, name)
    messages = [USER, REASONED, MORE, REASONED, USER, PARIS]
    answer = driver.prepare(model, [{"messages": messages}], sequence_length=8192)
    assert "error" not in answer, answer
    assert (answer["counts"]["conversations"], answer["counts"]["split"], len(answer["samples"])) == (1, 1, 3)
    for sample, end in zip(answer["samples"], (2, 4, 6), strict=True):
        whole = encoded(plain, messages[:end])["input_ids"]
        prompt = encoded(plain, messages[: end - 1], add_generation_prompt=True)["input_ids"]
        assert sample["tokens"] == whole
        if whole[: len(prompt)] == prompt:
            assert sample["mask"] == [0] * len(prompt) + [1] * (len(whole) - len(prompt))
        else:  # the prompt opens <think>, and an answer without reasoning is written without
            first = sample["mask"].index(1)
            assert whole[:first] == prompt[:first] and all(sample["mask"][first:])
        if end < 6 and not name.startswith("phi"):  # which writes no reasoning at all
            assert "capital is Rome" in plain.decode([t for t, trained in zip(sample["tokens"], sample["mask"]) if trained])


def test_a_prompt_that_opens_reasoning_is_left_where_the_answer_parts_from_it(driver, model):
    plain = peer_of(model, "deepseek_r1_distill")
    answer = driver.prepare(model, [{"messages": [USER, PARIS, MORE, ROME]}])
    (sample,) = answer["samples"]
    assert sample["tokens"] == encoded(plain, [USER, PARIS, MORE, ROME])["input_ids"]
    trained = plain.decode([token for token, mask in zip(sample["tokens"], sample["mask"]) if mask])
    assert trained == "Paris, of course.<｜end▁of▁sentence｜>Rome z<｜end▁of▁sentence｜>"
