"""muster generate with the real worker, held against transformers: a tiny model with a vocabulary trained here."""

import json
import pathlib

import pytest
import torch
import transformers
from generate_runs import TINY, Generate
from terminal import Terminal

PROMPTS = ["The capital of France", "Grüße", "def f(x): return {'a': x}[0] and then some more of it", "1", "世界 don't you're 12345"]
CPU = ("-m", "model", "--device", "cpu", "--max-new-tokens", "24")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder that holds a real model: random weights far enough from each other that its choices are no coin tosses."""
    folder = tmp_path_factory.mktemp("engine")
    generate = Generate(folder)
    generate.text()
    (folder / "tiny").rename(folder / "model")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{**{k: v for k, v in TINY.items() if k not in ("model_type", "architectures")}, "initializer_range": 0.4})
    transformers.LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder / "model")
    (folder / "model" / "generation_config.json").unlink(missing_ok=True)
    return folder


@pytest.fixture
def generate(folder: pathlib.Path) -> Generate:
    return Generate(folder)


@pytest.fixture(scope="module")
def model(folder: pathlib.Path) -> transformers.LlamaForCausalLM:
    return transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)


@pytest.fixture(scope="module")
def tokenizer(folder: pathlib.Path):
    return transformers.AutoTokenizer.from_pretrained(folder / "model")


def rows(result) -> list[dict]:
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def greedy(model, tokenizer, ids: list[int], count: int) -> list[int]:
    """Up to the end token, which is part of the answer."""
    ids, answer = list(ids), []
    with torch.no_grad():
        while len(answer) < count:
            answer.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
            ids.append(answer[-1])
            if answer[-1] == tokenizer.eos_token_id:
                break
    return answer


class TestAnswers:
    def test_are_transformers_greedy_answers_whatever_the_batch(self, generate, model, tokenizer):
        prompts = generate.prompts("p.txt", *PROMPTS)
        outputs = [generate(*CPU, "-p", prompts, "--temperature", "0", "--batch-size", size) for size in ("1", "3", "16")]
        for row, prompt in zip(rows(outputs[0]), PROMPTS, strict=True):
            expected = greedy(model, tokenizer, tokenizer(prompt)["input_ids"], 24)
            assert row["tokens"] == expected
            assert row["text"] == tokenizer.decode(expected, skip_special_tokens=True)
            assert row["finish"] == ("stop" if expected[-1] == tokenizer.eos_token_id else "length")
        assert outputs[0].stdout == outputs[1].stdout == outputs[2].stdout

    def test_to_messages_go_through_the_chat_template(self, generate, model, tokenizer):
        messages = [{"role": "system", "content": "brief"}, {"role": "user", "content": "The capital?"}]
        result = generate(*CPU, "-p", generate.prompts("m.jsonl", {"messages": messages, "id": "m", "max_new_tokens": 5}), "--temperature", "0")
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert rows(result)[0]["tokens"] == greedy(model, tokenizer, ids, 5)

    def test_repeat_with_the_seed_and_differ_between_samples(self, generate):
        prompts = generate.prompts("p.txt", *PROMPTS)
        words = (*CPU, "-p", prompts, "--samples", "3", "--temperature", "1.2", "--top-k", "50", "--logprobs")
        first = generate(*words, "--seed", "5")
        assert generate(*words, "--seed", "5", "--batch-size", "2").stdout == first.stdout
        assert generate(*words, "--seed", "6").stdout != first.stdout
        answers = rows(first)
        assert [(row["index"], row["sample"]) for row in answers] == [(i, s) for i in range(len(PROMPTS)) for s in range(3)]
        assert len({tuple(row["tokens"]) for row in answers}) > len(PROMPTS)
        assert all(len(row["logprobs"]) == len(row["tokens"]) and max(row["logprobs"]) <= 0 for row in answers)

    def test_to_a_prompt_that_is_too_long_are_those_to_its_end(self, generate, model, tokenizer):
        long = "The capital of France is Paris. " * 40
        result = generate(*CPU, "-p", generate.prompts("long.txt", long.strip()), "--temperature", "0")
        ids = tokenizer(long.strip())["input_ids"]
        room = TINY["max_position_embeddings"] - 24
        row = rows(result)[0]
        assert row["dropped_tokens"] == len(ids) - room
        assert row["tokens"] == greedy(model, tokenizer, ids[-room:], 24)
        assert "1 of 1 prompts was too long" in result.stderr


class TestStopping:
    def test_ends_an_answer_before_the_text_and_keeps_the_tokens_that_made_it(self, generate, tokenizer):
        prompts = generate.prompts("p.txt", *PROMPTS)
        words = (*CPU, "-p", prompts, "--samples", "2", "--seed", "3")
        whole = rows(generate(*words))
        stops = [row["text"][len(row["text"]) // 2:][:3] for row in whole[:3]]
        found = rows(generate(*words, *(word for stop in stops for word in ("--stop", stop))))
        assert sum(row["tokens"] != before["tokens"] for row, before in zip(found, whole, strict=True)) >= 3
        for row, before in zip(found, whole, strict=True):
            assert row["tokens"] == before["tokens"][:len(row["tokens"])]
            assert not any(stop in row["text"] for stop in stops)
            written = tokenizer.decode(row["tokens"], skip_special_tokens=True)
            assert written.startswith(row["text"])
            if any(stop in written for stop in stops):
                assert row["finish"] == "stop"
                earlier = tokenizer.decode(row["tokens"][:-1], skip_special_tokens=True)
                assert not any(stop in earlier.rstrip("\ufffd") for stop in stops)
            else:
                assert row == before

    def test_shows_nothing_of_a_stop_text_while_it_comes(self, generate):
        words = (*CPU, "--interactive", "--temperature", "0")
        whole = generate(*words, input="The capital\n").stdout
        stop = whole[10:14]
        assert generate(*words, "--stop", stop, input="The capital\n").stdout == whole[:whole.index(stop)] + "\n"

    def test_happens_at_tokens_too(self, generate):
        words = (*CPU, "-p", generate.prompts("p.txt", *PROMPTS), "--temperature", "0")
        whole = rows(generate(*words))
        token = whole[0]["tokens"][5]
        for row, before in zip(rows(generate(*words, "--stop-tokens", str(token))), whole, strict=True):
            end = before["tokens"].index(token) + 1 if token in before["tokens"] else len(before["tokens"])
            assert row["tokens"] == before["tokens"][:end]
            assert row["finish"] == ("stop" if token in before["tokens"] else before["finish"])


class TestScores:
    def test_are_transformers_log_likelihoods(self, generate, model, tokenizer):
        pairs = [("The capital of France", " is Paris."), ("Grüße", " aus Zürich, 世界!"), ("1", "2345"), ("def f", "(x): return x")]
        file = generate.prompts("pairs.jsonl", *({"prompt": a, "completion": b, "id": a} for a, b in pairs))
        found = rows(generate("-m", "model", "--device", "cpu", "--score", "--logprobs", "-p", file))
        for row, (prompt, completion) in zip(found, pairs, strict=True):
            before = tokenizer(prompt)["input_ids"]
            after = tokenizer(completion, add_special_tokens=False)["input_ids"]
            with torch.no_grad():
                logits = model(torch.tensor([before + after])).logits[0].double().log_softmax(-1)
            expected = [float(logits[len(before) - 1 + i, token]) for i, token in enumerate(after)]
            assert row["id"] == prompt and row["token_count"] == len(after)
            assert row["logprobs"] == pytest.approx(expected, abs=1e-4)
            assert row["logprob"] == pytest.approx(sum(expected), abs=1e-4 * len(after))

    def test_are_the_same_whatever_the_batch(self, generate):
        file = generate.prompts("many.jsonl", *({"prompt": PROMPTS[i % 5], "completion": " " + "x y z " * (i % 7 + 1)} for i in range(20)))
        words = ("-m", "model", "--device", "cpu", "--score", "-p", file, "--batch-size")
        assert generate(*words, "1").stdout == generate(*words, "7").stdout != ""


class TestTheModel:
    def test_may_have_drawn_weights(self, generate):
        bare = generate.folder / "bare"
        bare.mkdir(exist_ok=True)
        (bare / "config.json").write_text(json.dumps(TINY))
        words = ("-m", "bare", "model.tokenizer=model", "model.init=random", "--device", "cpu", "--max-new-tokens", "8", "-p", generate.prompts("p.txt", "a"))
        first = generate(*words)
        assert len(rows(first)[0]["tokens"]) <= 8
        assert generate(*words).stdout == first.stdout

    def test_refuses_tokens_that_the_model_does_not_know(self, generate):
        small = generate.folder / "small"
        small.mkdir()
        (small / "config.json").write_text(json.dumps({**TINY, "vocab_size": 16}))
        for arguments in ((), ("--score",)):
            row = json.dumps({"prompt": "The capital of France", "completion": " is"})
            result = generate("-m", "small", "model.init=random", "model.tokenizer=model", "--device", "cpu", "--max-new-tokens", "8", "-p", "-",
                              *arguments, input=row + "\n")
            assert result.returncode == 2 and "the model knows 16 tokens" in result.stderr, result.stderr

    def test_refuses_an_attention_that_the_device_lacks(self, generate):
        result = generate(*CPU, "-p", generate.prompts("p.txt", "a"), "system.attn_impl=flash_attention_2")
        assert result.returncode == 2 and "system.attn_impl" in result.stderr and result.stdout == ""


class TestAConversation:
    def test_of_two_turns_says_what_the_same_messages_give(self, generate, model, tokenizer):
        terminal = Terminal(generate.words(*CPU, "--interactive", "--temperature", "0"), generate.environment, generate.folder)
        terminal.until("> ")
        messages = []
        for line in ("The capital of France?", "Grüße aus Zürich!"):
            terminal.type(line + "\n")
            terminal.until(line + "\n")  # the terminal's echo
            messages.append({"role": "user", "content": line})
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            answer = tokenizer.decode(greedy(model, tokenizer, ids, 24), skip_special_tokens=True)
            messages.append({"role": "assistant", "content": answer})
            shown = terminal.until("\n> ")
            assert shown.startswith(answer.replace("\r\n", "\n") + "\n"), (shown, answer)
        terminal.type("\x04")
        assert terminal.end() == 0
