import json
import math

import pytest
import torch
from evaluate_runs import ASKED, KNOWN, TOLD, chat_tokens, mean_loss, pair_tokens

UNKNOWN = [("The capital of Zürich is", " 世界"), ("you're", " France")]
PAIRS = [{"prompt": prompt, "completion": completion} for prompt, completion in KNOWN + UNKNOWN]


def test_the_loss_of_pairs_is_that_of_transformers_and_perplexity_follows_from_it(evaluate):
    data = evaluate.rows("pairs.jsonl", *PAIRS)
    model, tokenizer = evaluate.peer()
    loss, tokens = mean_loss(model, [pair_tokens(tokenizer, *pair) for pair in KNOWN + UNKNOWN])
    found = evaluate.json("-m", "model", "--data", data)
    assert found["tokens"] == tokens
    assert found["samples"] == len(PAIRS)
    assert found["loss"] == pytest.approx(loss, abs=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]), rel=1e-12)
    assert "exact_match" not in found


def test_the_loss_of_conversations_counts_what_the_assistant_writes(evaluate):
    chats = [[ASKED, TOLD], [{"role": "user", "content": "f(x)?"}, {"role": "assistant", "content": "12345"}]]
    data = evaluate.rows("chats.jsonl", *({"messages": messages} for messages in chats))
    model, tokenizer = evaluate.peer()
    loss, tokens = mean_loss(model, [chat_tokens(tokenizer, messages) for messages in chats])
    found = evaluate.json("-m", "model", "--data", data)
    assert found["tokens"] == tokens
    assert found["loss"] == pytest.approx(loss, abs=1e-5)


def test_the_loss_of_text_counts_every_token_but_the_first_and_the_end(evaluate):
    texts = ["The capital of France is Paris.", "def f(x): return 1"]
    data = evaluate.rows("texts.jsonl", *({"text": text} for text in texts))
    model, tokenizer = evaluate.peer()
    rows = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in texts]
    loss, tokens = mean_loss(model, [(row, [-100, *row[1:]]) for row in rows])
    found = evaluate.json("-m", "model", "--data", data)
    assert found["tokens"] == tokens
    assert found["loss"] == pytest.approx(loss, abs=1e-5)


def test_exact_match_counts_the_rows_whose_completion_the_model_writes(evaluate):
    data = evaluate.rows("pairs.jsonl", *PAIRS)
    model, tokenizer = evaluate.peer()
    answers = []
    for row in PAIRS:
        asked = torch.tensor([tokenizer(row["prompt"])["input_ids"]])
        made = model.generate(asked, do_sample=False, max_new_tokens=16, pad_token_id=tokenizer.eos_token_id)
        answers.append(tokenizer.decode(made[0, asked.shape[1]:], skip_special_tokens=True))
    right = [answer.strip() == row["completion"].strip() for answer, row in zip(answers, PAIRS, strict=True)]
    assert right == [True] * len(KNOWN) + [False] * len(UNKNOWN)
    found = evaluate.json("-m", "model", "--data", data, "--exact-match", "-o", "result.json")
    assert (found["correct"], found["questions"]) == (len(KNOWN), len(PAIRS))
    assert found["exact_match"] == len(KNOWN) / len(PAIRS)
    written = json.loads((evaluate.folder / "result.json").read_text())
    assert [answer["right"] for answer in written.pop("answers")] == right
    assert written == found


def test_the_last_message_of_a_conversation_is_the_right_answer(evaluate):
    data = evaluate.rows("chats.jsonl", {"messages": [ASKED, TOLD]}, {"messages": [ASKED, {**TOLD, "content": "no"}]})
    evaluate.json("-m", "model", "--data", data, "--exact-match", "-o", "result.json")
    answers = json.loads((evaluate.folder / "result.json").read_text())["answers"]
    assert [(answer["answer"], answer["right"]) for answer in answers] == [(TOLD["content"], True), (TOLD["content"], False)]


def test_questions_of_a_file_are_answered_without_data(evaluate):
    questions = evaluate.rows(
        "questions.jsonl",
        {"prompt": "1+2=", "answer": "3"},
        {"prompt": "1+2=", "answer": "4"},
        {"messages": [ASKED], "answer": TOLD["content"]},
    )
    found = evaluate.json("-m", "model", "--questions", questions)
    assert (found["correct"], found["questions"]) == (2, 3)
    assert "loss" not in found


def test_one_rank_and_three_write_the_same_bytes(evaluate):
    data = evaluate.rows("pairs.jsonl", *PAIRS)
    for ranks in ("1", "3"):
        done = evaluate("-m", "model", "--data", data, "--exact-match", "--ranks", ranks, "--json", "-o", f"{ranks}.json")
        assert done.returncode == 0, done.stderr
        (evaluate.folder / f"{ranks}.out").write_text(done.stdout)
    for kind in ("json", "out"):
        assert (evaluate.folder / f"1.{kind}").read_bytes() == (evaluate.folder / f"3.{kind}").read_bytes()


def test_the_configuration_of_a_run_that_began_from_nothing_evaluates_what_came_of_it(evaluate):
    data = evaluate.rows("pairs.jsonl", *PAIRS)
    (evaluate.folder / "spec.yaml").write_text(f"model: {{path: elsewhere, init: random}}\ndata: {{eval_path: {data}}}\n")
    assert evaluate.json("-c", "spec.yaml", "-m", "model") == evaluate.json("-m", "model", "--data", data)


def test_arithmetic_asks_its_held_out_questions(evaluate):
    found = evaluate.json("-m", "model", "--data", "builtin:arithmetic", "data.digits=1", "data.held_out=0.3")
    assert 10 < found["questions"] < 60
    assert found["samples"] == found["questions"]


def test_the_result_for_people_says_loss_perplexity_and_answers(evaluate):
    done = evaluate("-m", "model", "--data", evaluate.rows("pairs.jsonl", *PAIRS), "--exact-match")
    assert done.returncode == 0, done.stderr
    assert "perplexity" in done.stdout
    assert "66.67 %: 4 of 6 questions right" in done.stdout
    assert "  1+2= → 3\n" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--data", "builtin:arithmetic"], 2, "no model is named"),
        (["-m", "model"], 2, "neither data nor questions are named"),
        (["-m", "nowhere", "--data", "builtin:arithmetic"], 2, "nowhere"),
        (["-m", "builtin:llama-0.6m", "--data", "builtin:arithmetic"], 2, "has no weights"),
        (["-m", "model", "--data", "texts.jsonl", "--exact-match"], 2, "texts.jsonl:1: a text asks nothing"),
        (["-m", "model", "--questions", "bad.jsonl"], 2, "bad.jsonl:2"),
        (["-m", "model", "--questions", "long.jsonl"], 2, "the model has 64 positions"),
        (["-m", "model", "--data", "texts.jsonl", "--num-gpus", "2"], 2, "GPUs are asked for"),
        (["-m", "model", "--data", "texts.jsonl", "model.device_map=balanced"], 2, "the whole model"),
        (["-m", "model", "--data", "texts.jsonl", "--ranks", "2", "model.max_memory={0: 1KiB, 1: 1KiB}"], 3, "fit"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_anything_starts(evaluate, arguments, code, words):
    evaluate.rows("texts.jsonl", {"text": "The capital"})
    evaluate.rows("bad.jsonl", {"prompt": "1+2=", "answer": "3"}, {"prompt": "1+2="})
    evaluate.rows("long.jsonl", {"prompt": "1+2=" * 40, "answer": "3"})
    done = evaluate(*arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "try:" in done.stderr or "; " in done.stderr


def test_the_plan_is_shown_without_a_worker(evaluate):
    evaluate.environment["MUSTER_WORKER"] = str(evaluate.folder / "there-is-none")
    done = evaluate("-m", "model", "--data", evaluate.rows("pairs.jsonl", *PAIRS), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fits"]
