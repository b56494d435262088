"""Samples against transformers: tokens, what is trained on, the end of a text."""

import json
import random

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import real_tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

WORDS = ["Grüße", "the", "é́", "don't", "世界", "  ", "\n", "12345", "e\u0301", "x=1;", "👩‍🚀", "ﬁ", "a b", "…", "Å"]

CHATML = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}
{%- else %}{{ message.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

# The answer begins within a word and with a space, and ends without a special token.
PLAIN = """{%- for message in messages %}
{%- if message.role == 'assistant' %}A:{% generation %} {{ message.content }};{%- endgeneration %}
{%- else %}[{{ message.role }}] {{ message.content }}{% endif %}
{%- endfor %}"""

UNMARKED = """{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# The same text, with the answers marked as the prompt leaves them: an answer ends with its newline.
MARKED_UNMARKED = """{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.role == 'assistant' %}{% generation %}{{ message.content + '<|im_end|>\\n' }}{% endgeneration %}
{%- else %}{{ message.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}"""

SPECIAL = ["<|im_start|>", "<|im_end|>"]
CORPUS = ["The capital of France is Paris.", "Grüße aus Zürich, 世界!", "user assistant system A: don't"] * 20


def trained(folder, kind):
    """A vocabulary trained here: of bytes, of bytes in another form of Unicode, or of text with space marks."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=kind == "marks", unk_token="<unk>" if kind == "marks" else None))
    alphabet, special = [], [AddedToken(token, special=True, normalized=False) for token in SPECIAL]
    if kind == "marks":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        special += ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    else:
        if kind == "composed":
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=700, special_tokens=special, initial_alphabet=alphabet, show_progress=False))
    folder.mkdir()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>").save_pretrained(folder)
    if kind == "marks":  # bytes are part of the vocabulary, not special
        file = folder / "tokenizer.json"
        content = json.loads(file.read_text())
        content["added_tokens"] = [token for token in content["added_tokens"] if not token["content"].startswith("<0x")]
        file.write_text(json.dumps(content, ensure_ascii=False))
    return folder


def real(folder, make):
    folder.mkdir()
    file = make(folder)
    (folder / "tokenizer.json").write_bytes(file.read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}))
    return folder


@pytest.fixture(scope="module", params=["bytes", "composed", "marks", "qwen"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    return real(folder, real_tokenizers.qwen) if request.param == "qwen" else trained(folder, request.param)


def conversations(count, seed=1):
    chance = random.Random(seed)

    def words():
        return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 8)))

    for _ in range(count):
        messages = [{"role": "system", "content": words()}] if chance.random() < 0.3 else []
        for _ in range(chance.randint(1, 3)):
            # An answer ends in a letter: transformers leaves out the later tokens of a last character that has several.
            messages += [{"role": "user", "content": words()}, {"role": "assistant", "content": words() + "z"}]
        yield messages


def peer_of(folder, template):
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("template", [CHATML, PLAIN], ids=["chatml", "plain"])
def test_marked_answers_are_trained_on_as_transformers_masks_them(driver, model, template):
    peer = peer_of(model, template)
    chats = list(conversations(60))
    samples = driver.prepare(model, [{"messages": messages} for messages in chats])["samples"]
    for messages, sample in zip(chats, samples, strict=True):
        expected = peer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        assert sample["tokens"] == expected["input_ids"]
        assert sample["mask"] == expected["assistant_masks"], messages


def test_the_last_answer_alone_is_what_follows_the_prompt(driver, model):
    peer = peer_of(model, UNMARKED)
    chats = list(conversations(40, seed=2))
    samples = driver.prepare(model, [{"messages": messages} for messages in chats], train_on="last")["samples"]
    for messages, sample in zip(chats, samples, strict=True):
        whole = peer.apply_chat_template(messages, return_dict=True)["input_ids"]
        prompt = peer.apply_chat_template(messages[:-1], add_generation_prompt=True, return_dict=True)["input_ids"]
        assert sample["tokens"] == whole
        if whole[: len(prompt)] == prompt:
            assert sample["mask"] == [0] * len(prompt) + [1] * (len(whole) - len(prompt))
        else:  # a token reaches over the boundary: it is the answer's
            first = sample["mask"].index(1)
            assert whole[:first] == prompt[:first] and all(sample["mask"][first:])


def test_every_answer_of_an_unmarked_template_is_trained_on_as_if_it_were_marked(driver, model):
    peer = peer_of(model, MARKED_UNMARKED)
    chats = list(conversations(40, seed=3))
    expected = [peer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True) for messages in chats]
    peer_of(model, UNMARKED)
    answer = driver.prepare(model, [{"messages": messages} for messages in chats])
    for sample, marked in zip(answer["samples"], expected, strict=True):
        assert sample["tokens"] == marked["input_ids"]
        for i, (mine, theirs) in enumerate(zip(sample["mask"], marked["assistant_masks"], strict=True)):
            if mine != theirs:  # of a last character in several bytes transformers takes the first token, and muster all
                assert mine == 1 and sample["mask"][i - 1] == 1
                assert peer.convert_ids_to_tokens(sample["tokens"][i]).startswith("<0x")
    assert answer["counts"]["conversations"] == len(chats) and answer["counts"]["split"] == 0
    last = driver.prepare(model, [{"messages": messages} for messages in chats], train_on="last")
    assert last["counts"]["trained_tokens"] < answer["counts"]["trained_tokens"]


def test_a_completion_is_tokenised_for_itself_and_ended(driver, model):
    peer = peer_of(model, UNMARKED)
    rows = [{"prompt": f"{word} {word}:", "completion": f" {other}"} for word in WORDS for other in WORDS]
    samples = driver.prepare(model, rows)["samples"]
    for row, sample in zip(rows, samples, strict=True):
        prompt = peer(row["prompt"]).input_ids
        completion = peer(row["completion"], add_special_tokens=False).input_ids + [peer.eos_token_id]
        assert sample["tokens"] == prompt + completion
        assert sample["mask"] == [0] * len(prompt) + [1] * len(completion)


def test_a_text_is_ended_and_trained_on_but_for_its_first_token(driver, model):
    peer = peer_of(model, UNMARKED)
    rows = [{"text": " ".join(words)} for words in zip(WORDS, WORDS[1:], WORDS[2:])]
    answer = driver.prepare(model, rows)
    for row, sample in zip(rows, answer["samples"], strict=True):
        assert sample["tokens"] == peer(row["text"]).input_ids + [peer.eos_token_id]
        assert sample["mask"] == [0] + [1] * (len(sample["tokens"]) - 1)
    assert answer["counts"]["trained_tokens"] == sum(sum(sample["mask"]) for sample in answer["samples"])
