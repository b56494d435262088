"""muster generate with a scripted worker: everything that is the controlling program's affair."""

import json
import os
import pty
import signal
import subprocess
import time

BARE = ("-m", "tiny", "model.init=random", "--max-new-tokens", "16", "--device", "cpu")


def refused(result: subprocess.CompletedProcess, code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
    assert result.stdout == ""


class TestAnswers:
    def test_are_written_in_the_order_of_the_prompts_with_their_ids(self, scripted):
        scripted.script(order="backwards", wants=7)
        rows = [{"prompt": f"prompt {i}", "id": f"name {i}"} for i in range(30)]
        result = scripted(*BARE, "-p", scripted.prompts("p.jsonl", *rows), "-o", "out.jsonl")
        assert result.returncode == 0, result.stderr
        assert scripted.rows("out.jsonl") == [
            {"index": i, "id": f"name {i}", "sample": 0, "text": f"prompt {i}"[::-1], "tokens": [ord(c) for c in f"prompt {i}"[::-1]], "finish": "stop"}
            for i in range(30)
        ]
        assert "30 prompts" in result.stderr and "tokens/s" in result.stderr and "cpu in float32" in result.stderr

    def test_go_to_standard_output_where_no_file_is_named(self, scripted):
        prompts = scripted.prompts("p.txt", "eins", "zwei", "ü 🙂")
        for output in ((), ("-o", "-")):
            result = scripted(*BARE, "-p", prompts, *output)
            assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["snie", "iewz", "🙂 ü"]

    def test_of_several_samples_come_one_line_each(self, scripted):
        result = scripted(*BARE, "-p", scripted.prompts("p.txt", "ab", "cd"), "--samples", "3", "--logprobs")
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert [(row["index"], row["sample"], row["text"]) for row in rows] == [
            (0, 0, "ba"), (0, 1, "ba 1"), (0, 2, "ba 2"), (1, 0, "dc"), (1, 1, "dc 1"), (1, 2, "dc 2")
        ]
        assert all(len(row["logprobs"]) == len(row["tokens"]) for row in rows)
        assert "2 prompts, 6 answers" in result.stderr

    def test_to_prompts_that_come_slowly_come_at_once(self, scripted):
        process = scripted.start(*BARE, "-p", "-", stdin=subprocess.PIPE)
        for word in ("one", "two"):
            process.stdin.write(word + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == word[::-1]
        process.stdin.close()
        assert process.wait(timeout=30) == 0

    def test_of_scoring_are_the_completions_log_likelihoods(self, scripted):
        rows = [{"prompt": "a", "completion": "one three", "id": 7}, {"messages": [{"role": "user", "content": "x"}], "completion": "two"}]
        result = scripted(*BARE, "--score", "-p", scripted.prompts("p.jsonl", *rows))
        assert [json.loads(line) for line in result.stdout.splitlines()] == [
            {"index": 0, "id": 7, "logprob": -8.0, "token_count": 2},
            {"index": 1, "id": None, "logprob": -3.0, "token_count": 1},
        ]
        assert "3 tokens scored" in result.stderr

    def test_to_prompts_that_lost_their_beginning_say_so(self, scripted):
        scripted.script(dropped={"1": 12, "2": 40})
        result = scripted(*BARE, "-p", scripted.prompts("p.txt", "a", "b", "c"))
        assert [json.loads(line).get("dropped_tokens") for line in result.stdout.splitlines()] == [None, 12, 40]
        assert "2 of 3 prompts were too long, and lost their beginning: up to 40 tokens; the first is p.txt:2" in result.stderr


class TestPromptsAsWords:
    def test_are_answered_in_their_order_beside_settings(self, scripted):
        result = scripted(*BARE, "a prompt", "12+34=", "generation.samples=2", "two\nlines")
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert result.returncode == 0, result.stderr
        assert [(row["index"], row["sample"], row["text"]) for row in rows] == [
            (0, 0, "tpmorp a"), (0, 1, "tpmorp a 1"), (1, 0, "=43+21"), (1, 1, "=43+21 1"), (2, 0, "senil\nowt"), (2, 1, "senil\nowt 1")
        ]

    def test_are_resumed_like_those_of_a_file(self, scripted):
        assert scripted(*BARE, "one", "two", "-o", "out.jsonl").returncode == 0
        result = scripted(*BARE, "one", "two", "-o", "out.jsonl", "--resume")
        assert result.returncode == 0 and "all of 2 prompts" in result.stderr
        refused(scripted(*BARE, "one", "three", "-o", "out.jsonl", "--resume"), 2, "other settings or prompts")

    def test_exclude_other_sources_of_prompts(self, scripted):
        prompts = scripted.prompts("p.txt", "eins")
        refused(scripted(*BARE, "a prompt", "-p", prompts), 2, "a prompt is given", "-p")
        refused(scripted(*BARE, "a prompt", "--interactive"), 2, "a prompt is given", "--interactive")
        refused(scripted(*BARE, "a prompt", "--score"), 2, "a prompt is given", "--score")
        refused(scripted(*BARE, prompts), 2, "p.txt is a file", "-p p.txt")
        refused(scripted(*BARE, " "), 2, "is empty")

    def test_that_look_like_a_setting_are_one(self, scripted):
        refused(scripted(*BARE, "a prompt", "generation.sample=2"), 2, "generation.sample", "generation.samples")


class TestAnswersThatFailed:
    def test_are_named_and_leave_the_others_as_they_are(self, scripted):
        reason = "the model's logits for token 3 of the answer are not numbers (NaN)"
        scripted.script(errors={"1": reason})
        result = scripted(*BARE, "-p", scripted.prompts("p.txt", "ab", "cd", "ef"), "-o", "out.jsonl")
        assert result.returncode == 1
        assert f"1 of 3 prompts failed; the first is p.txt:2: {reason}" in result.stderr and "--dtype float32" in result.stderr
        assert [(row["text"], row["finish"], row.get("error")) for row in scripted.rows("out.jsonl")] == [
            ("ba", "stop", None), ("", "error", reason), ("fe", "stop", None)
        ]

    def test_have_no_score(self, scripted):
        scripted.script(errors={"0": "not numbers"})
        rows = [{"prompt": "a", "completion": "one"}, {"prompt": "b", "completion": "two"}]
        result = scripted(*BARE, "--score", "-p", scripted.prompts("p.jsonl", *rows))
        assert result.returncode == 1 and "p.jsonl:1: not numbers" in result.stderr
        first, second = (json.loads(line) for line in result.stdout.splitlines())
        assert first["logprob"] is None and first["error"] == "not numbers" and second["logprob"] == -3.0 and "error" not in second


class TestTheWorker:
    def test_gets_every_setting_and_the_rows_as_they_were_written(self, scripted):
        rows = [
            {"prompt": "a", "max_new_tokens": 3, "id": 1, "label": "not the model's affair"},
            {"messages": [{"role": "user", "content": "b"}], "tools": [{"z": 1, "a": 2}], "template_variables": {"q": True}},
        ]
        result = scripted(
            *BARE, "-p", scripted.prompts("p.jsonl", *rows), "--temperature", "0.5", "--top-k", "7", "--top-p", "0.9",
            "--repetition-penalty", "1.25", "--min-p", "0.05", "--stop", "a, b", "--stop", "\n\n", "--stop-tokens", "5,6", "--batch-size", "3", "--seed", "11", "--samples", "2", "system.attn_impl=eager",
            "system.deterministic=true", "generation.sequence_length=100", "model.tokenizer=other",
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assignment, requests = scripted.recorded()
        task = assignment["task"]
        assert assignment["seed"] == 11 and assignment["device"] == "cpu"
        expected = {
            "model": "tiny", "tokenizer": "other", "random_weights": True, "dtype": "float32", "attention": "eager",
            "deterministic": True, "batch_size": 3, "sequence_length": 100, "max_new_tokens": 16, "samples": 2,
            "temperature": 0.5, "top_k": 7, "top_p": 0.9, "repetition_penalty": 1.25, "min_p": 0.05, "stop": ["a, b", "\n\n"], "stop_tokens": [5, 6], "cache_blocks": 0, "stages": [], "score": False, "stream": False,
        }  # fmt: skip
        assert {key: task[key] for key in expected} == expected
        assert requests == [
            {"prompt": "a", "max_new_tokens": 3},
            {"messages": [{"role": "user", "content": "b"}], "tools": [{"z": 1, "a": 2}], "template_variables": {"q": True}},
        ]
        assert list(requests[1]["tools"][0]) == ["z", "a"]

    def test_that_fails_is_told_in_its_words_and_its_answers_before_that_stay(self, scripted):
        scripted.script(answer="fail", at=2)
        result = scripted(*BARE, "-p", scripted.prompts("p.txt", "a", "b", "c", "d"), "-o", "out.jsonl")
        refused(result, 1, "the device is on fire", "another model")
        assert [row["text"] for row in scripted.rows("out.jsonl")] == ["a", "b"]

    def test_that_dies_is_told_with_its_last_words(self, scripted):
        scripted.script(answer="leave", at=1)
        refused(scripted(*BARE, "-p", scripted.prompts("p.txt", "a", "b"), "-o", "out.jsonl"), 1, "exit code 9", "out of words")
        assert len(scripted.rows("out.jsonl")) == 1


class TestInterruptedRuns:
    def test_leave_whole_lines_only(self, scripted):
        scripted.script(pause=0.02)
        scripted.prompts("p.txt", *(f"prompt {i} " + "x" * 3000 for i in range(1000)))
        process = scripted.start(*BARE, "-p", "p.txt", "-o", "out.jsonl")
        output = scripted.folder / "out.jsonl"
        deadline = time.monotonic() + 60
        while not (output.exists() and output.read_text().count("\n") >= 3):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        rows = scripted.rows("out.jsonl")  # every line parses
        assert 3 <= len(rows) < 1000 and [row["index"] for row in rows] == list(range(len(rows)))
        assert output.read_text().endswith("\n")
        assert f"interrupted: {len(rows)} of 1000 prompts" in errors

    def test_by_a_reader_that_is_gone_say_so(self, scripted):
        scripted.script(pause=0.05)
        process = scripted.start(*BARE, "-p", scripted.prompts("p.txt", *("ab" * 100 for _ in range(1000))))
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=30) == 1
        assert "standard output was closed by its reader" in errors and "-o FILE" in errors

    def test_by_a_full_disk_say_so(self, scripted):
        result = scripted(*BARE, "-p", scripted.prompts("p.txt", "a"), "-o", "/dev/full")
        refused(result, 1, "cannot write /dev/full: No space left on device")


class TestRefusals:
    """Before anything is started: the scripted worker leaves no record."""

    def none_started(self, scripted) -> bool:
        return not (scripted.folder / "record.jsonl").exists() and not (scripted.folder / "out.jsonl").exists()

    def test_name_every_wrong_row_with_its_line(self, scripted):
        prompts = scripted.prompts("p.jsonl", {"prompt": "good"}, "nonsense", {"question": "?"})
        refused(scripted(*BARE, "-p", prompts, "-o", "out.jsonl"), 2, "p.jsonl:2: ", 'p.jsonl:3: neither "prompt" nor "messages"')
        assert self.none_started(scripted)

    def test_name_a_row_that_scoring_cannot_use(self, scripted):
        refused(scripted(*BARE, "--score", "-p", scripted.prompts("p.jsonl", {"prompt": "a"})), 2, 'p.jsonl:1: no "completion" to score')
        refused(scripted(*BARE, "--score", "-p", scripted.prompts("p.txt", "a")), 2, "p.txt:1: a line of text")

    def test_name_a_wrong_row_of_standard_input_when_it_comes(self, scripted):
        result = scripted(*BARE, "-p", "-", input='{"prompt": "ab"}\n{"prompt": 1}\n')
        assert result.returncode == 2 and 'standard input:2: "prompt" is 1' in result.stderr

    def test_tell_what_is_missing(self, scripted):
        prompts = scripted.prompts("p.txt", "a")
        refused(scripted("-p", prompts), 2, "no model is named", "-m MODEL")
        refused(scripted("-m", "tiny"), 2, "no prompts are given", "--interactive")
        refused(scripted("-m", "nowhere", "-p", prompts), 2, "nowhere", str(scripted.folder / "cache"))
        refused(scripted(*BARE, "-p", "What is it?"), 2, "What is it?", "without -p")
        refused(scripted("-m", "tiny", "-p", prompts, "--max-new-tokens", "16"), 2, "tiny has no weights", "model.init=random")
        refused(scripted(*BARE, "-p", scripted.prompts("empty.txt", "")), 2, "empty.txt has no prompts")
        refused(scripted(*BARE, "-p", prompts, "-o", "no/out.jsonl"), 2, "mkdir -p no")
        assert self.none_started(scripted)

    def test_do_not_overwrite_the_prompts(self, scripted):
        prompts = scripted.prompts("p.txt", "a")
        refused(scripted(*BARE, "-p", prompts, "-o", "./p.txt"), 2, "both the prompts and the output")
        assert (scripted.folder / "p.txt").read_text() == "a\n"

    def test_name_options_of_other_commands(self, scripted):
        prompts = scripted.prompts("p.txt", "a")
        refused(scripted(*BARE, "-p", prompts, "--output", "x"), 2, "the file for the answers is -o FILE")

    def test_never_fall_back_to_the_cpu(self, scripted):
        (scripted.folder / "none.yaml").write_text("gpus: []\n")
        scripted.environment["MUSTER_GPUS"] = str(scripted.folder / "none.yaml")
        prompts = scripted.prompts("p.txt", "a")
        bare = BARE[:-2]
        refused(scripted(*bare, "-p", prompts, "--device", "cuda"), 3, "none is visible", "--device cpu")
        refused(scripted(*bare, "-p", prompts, "--num-gpus", "1"), 3, "none is visible")
        assert scripted(*bare, "-p", prompts).returncode == 0

    def test_name_lengths_that_leave_no_room_for_a_prompt(self, scripted):
        prompts = scripted.prompts("p.txt", "a")
        words = ("-m", "tiny", "model.init=random", "--device", "cpu", "-p", prompts)
        refused(scripted(*words), 2, "generation.max_new_tokens is 256", "the model's longest sequence is 128", "--max-new-tokens 64")
        refused(scripted(*words, "--max-new-tokens", "50", "generation.sequence_length=50"), 2, "generation.sequence_length=100")
        scores = scripted.prompts("s.jsonl", {"prompt": "a", "completion": "b"})
        assert scripted(*words[:-1], scores, "--score").returncode == 0

    def test_of_options_that_contradict_each_other(self, scripted):
        prompts = scripted.prompts("p.txt", "a")
        refused(scripted(*BARE, "-p", prompts, "--interactive"), 2, "-p has no meaning in a conversation")
        refused(scripted(*BARE, "-p", prompts, "--system", "x"), 2, "--system is for --interactive")
        refused(scripted(*BARE, "-p", prompts, "--json"), 2, "-o FILE")
        refused(scripted(*BARE, "--interactive", "--samples", "2"), 2, "one answer a turn")

    def test_tell_both_numbers_where_the_model_does_not_fit(self, scripted):
        scripted.model(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, vocab_size=32000, max_position_embeddings=4096)
        words = ("-m", "tiny", "model.init=random", "-p", scripted.prompts("p.txt", "a"), "-o", "out.jsonl", "--device", "cpu")
        refused(scripted(*words, "--max-memory", "cpu=1GiB"), 3, "may use 1.0 GiB")
        assert self.none_started(scripted)


class TestDryRun:
    def test_shows_the_plan_and_starts_nothing(self, scripted):
        prompts = scripted.prompts("p.txt", "a")
        result = scripted(*BARE, "-p", prompts, "-o", "out.jsonl", "--dry-run")
        assert result.returncode == 0 and "fits" in result.stdout and "muster's engine" in result.stdout
        plan = json.loads(scripted(*BARE, "-p", prompts, "--dry-run", "--json").stdout)
        assert plan["fits"] and plan["ranks"][0]["gpu"] is None
        assert not (scripted.folder / "record.jsonl").exists() and not (scripted.folder / "out.jsonl").exists()

    def test_takes_bfloat16_where_the_gpu_has_it_and_says_so(self, scripted):
        for capability, word in (("8.0", "bfloat16"), ("7.5", "float32")):
            (scripted.folder / "gpus.yaml").write_text(f"gpus: [{{memory_total: 40GiB, memory_used: 0, compute_capability: '{capability}'}}]\n")
            scripted.environment["MUSTER_GPUS"] = str(scripted.folder / "gpus.yaml")
            result = scripted("-m", "tiny", "model.init=random", "--max-new-tokens", "16", "-p", scripted.prompts("p.txt", "a"), "--dry-run")
            assert f"inference in {word}" in result.stdout, result.stdout + result.stderr


class TestTheSummary:
    def test_is_json_for_programs(self, scripted):
        result = scripted(*BARE, "-p", scripted.prompts("p.txt", "ab", "cde"), "-o", "out.jsonl", "--json")
        summary = json.loads(result.stdout)
        assert summary["prompts"] == summary["answers"] == 2
        assert summary["tokens"] == summary["prompt_tokens"] == 5
        assert summary["model"] == "tiny" and summary["dtype"] == "float32" and not summary["interrupted"]

    def test_follows_a_progress_line_on_a_terminal(self, scripted):
        scripted.script(pause=0.8)
        controller, terminal = pty.openpty()
        scripted.environment["TERM"] = "xterm"
        process = scripted.start(*BARE, "-p", scripted.prompts("p.txt", *"abcde"), "-o", "out.jsonl", stderr=terminal)
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(controller, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
        os.close(controller)
        assert process.wait(timeout=30) == 0
        text = shown.decode()
        assert "/5 prompts, " in text and " left" in text and "tokens/s" in text
        assert text.rstrip().splitlines()[-1].split("\x1b[K")[-1].startswith("muster: 5 prompts")


class TestSettings:
    def test_come_from_the_file_the_environment_and_the_command_line(self, scripted):
        (scripted.folder / "run.yaml").write_text("model: {path: tiny, init: random}\ngeneration: {max_new_tokens: 9, top_k: 3}\ntraining: {bf16: true}\n")
        scripted.environment["MUSTER_GENERATION_TOP_K"] = "4"
        result = scripted("-c", "run.yaml", "-p", scripted.prompts("p.txt", "a"), "--device", "cpu", "--temperature", "0")
        assert result.returncode == 0, result.stderr
        task = scripted.recorded()[0]["task"]
        assert (task["max_new_tokens"], task["top_k"], task["temperature"]) == (9, 4, 0)

    def test_are_shown_with_their_origin(self, scripted):
        result = scripted(*BARE, "--print-config", "--json")
        assert json.loads(result.stdout)["generation.max_new_tokens"] == {"value": "16", "origin": "--max-new-tokens"}
