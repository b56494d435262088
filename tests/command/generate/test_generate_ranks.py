"""muster generate over several ranks, with scripted workers: who gets which prompts, and what becomes of a dead rank's."""

import fcntl
import json
import pathlib
import signal
import subprocess
import time

import pytest
from generate_runs import Generate

BARE = ("-m", "tiny", "model.init=random", "--max-new-tokens", "16", "--device", "cpu")


def expected(count: int) -> list[str]:
    return [f"prompt {i}"[::-1] for i in range(count)]


def prompts(scripted: Generate, count: int) -> str:
    return scripted.prompts("p.txt", *(f"prompt {i}" for i in range(count)))


def texts(scripted: Generate, name: str = "out.jsonl") -> list[str]:
    return [row["text"] for row in scripted.rows(name)]


def taken(scripted: Generate) -> dict[int, list[int]]:
    """By rank: the indices of the requests it got."""
    found: dict[int, list[int]] = {}
    for line in scripted.rows("record.jsonl"):
        if line["order"] == "request":
            found.setdefault(line["rank"], []).append(line["index"])
    return found


def wait_for_lines(file: pathlib.Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_bytes().count(b"\n") >= count):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def peak_resident(pid: int) -> int:
    """Bytes; 0 where the process has ended."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


class TestSeveralRanks:
    @pytest.mark.parametrize("order", ["as-given", "backwards"])
    def test_answer_every_prompt_once_and_in_order(self, scripted, order):
        scripted.script(order=order, wants=5)
        result = scripted(*BARE, "--ranks", "4", "-p", prompts(scripted, 103), "-o", "out.jsonl", "--json")
        assert result.returncode == 0, result.stderr
        assert texts(scripted) == expected(103)
        assert sorted(index for indices in taken(scripted).values() for index in indices) == list(range(103))
        summary = json.loads(result.stdout)
        assert (summary["ranks"], summary["prompts"], summary["lost_ranks"], summary["redone_prompts"]) == (4, 103, 0, 0)

    def test_get_equal_shares_of_few_prompts_whatever_they_ask_for(self, scripted):
        scripted.script(wants=100, together=4)
        assert scripted(*BARE, "--ranks", "4", "-p", prompts(scripted, 8), "-o", "out.jsonl").returncode == 0
        assert sorted(len(indices) for indices in taken(scripted).values()) == [2, 2, 2, 2]

    def test_leave_the_work_of_one_that_is_late_to_the_others(self, scripted):
        scripted.script(wants=4, late={"1": 56})
        assert scripted(*BARE, "--ranks", "2", "-p", prompts(scripted, 60), "-o", "out.jsonl").returncode == 0
        assert texts(scripted) == expected(60)
        assert len(taken(scripted)[0]) >= 56

    def test_share_the_cores_and_are_all_in_the_plan(self, scripted):
        plan = json.loads(scripted(*BARE, "--ranks", "3", "-p", prompts(scripted, 8), "--dry-run", "--json").stdout)
        assert [rank["rank"] for rank in plan["ranks"]] == [0, 1, 2]
        single = json.loads(scripted(*BARE, "-p", "p.txt", "--dry-run", "--json").stdout)
        assert plan["ranks"][0]["peak_bytes"] == single["ranks"][0]["peak_bytes"]

    def test_tell_how_much_memory_the_fullest_took(self, scripted):
        scripted.script(memory=3 << 30)
        result = scripted(*BARE, "--ranks", "2", "-p", prompts(scripted, 8), "-o", "out.jsonl", "--json")
        assert json.loads(result.stdout)["peak_memory_bytes"] == 3 << 30
        scripted.script()  # silent: the kernel is asked
        result = scripted(*BARE, "-p", "p.txt", "-o", "out.jsonl", "--json")
        assert 1 << 20 < json.loads(result.stdout)["peak_memory_bytes"] < 1 << 30

    def test_score_too(self, scripted):
        rows = [{"prompt": "a", "completion": "x " * (i % 5 + 1)} for i in range(41)]
        for ranks in ("1", "3"):
            result = scripted(*BARE, "--score", "--ranks", ranks, "-p", scripted.prompts("s.jsonl", *rows), "-o", f"{ranks}.jsonl")
            assert result.returncode == 0, result.stderr
        assert (scripted.folder / "1.jsonl").read_bytes() == (scripted.folder / "3.jsonl").read_bytes() != b""


class TestGpus:
    def gpus(self, scripted: Generate, count: int) -> tuple[str, ...]:
        (scripted.folder / "gpus.yaml").write_text(f"gpus: [{{count: {count}, name: Big, memory_total: 40GiB, memory_used: 0, compute_capability: '9.0'}}]\n")
        scripted.environment["MUSTER_GPUS"] = str(scripted.folder / "gpus.yaml")
        return tuple(word for word in BARE if word not in ("--device", "cpu"))

    def ranks(self, scripted: Generate, *words: str) -> list[dict]:
        result = scripted(*words, "--dry-run", "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["ranks"]

    def test_all_work_on_a_file_one_on_a_stream(self, scripted):
        bare = self.gpus(scripted, 4)
        assert [rank["gpu"] for rank in self.ranks(scripted, *bare, "-p", prompts(scripted, 9))] == [0, 1, 2, 3]
        assert [rank["gpu"] for rank in self.ranks(scripted, *bare, "-p", "-")] == [0]

    def test_are_no_more_than_prompts_and_it_is_said(self, scripted):
        bare = self.gpus(scripted, 4)
        assert len(self.ranks(scripted, *bare, "-p", prompts(scripted, 2))) == 2
        result = scripted(*bare, "-p", "p.txt", "-o", "out.jsonl", "--dry-run")
        assert "2 of 4 GPUs compute: as many as there are prompts" in result.stdout and "GPU 0–1 Big" in result.stdout, result.stdout

    def test_are_several_for_one_prompt_where_the_model_does_not_fit_one(self, scripted):
        bare = self.gpus(scripted, 4)
        scripted.model(hidden_size=8192, intermediate_size=28672, num_hidden_layers=40, num_attention_heads=64, num_key_value_heads=8, vocab_size=32000)
        for words in (("-p", prompts(scripted, 1)), ("-p", "-")):
            ranks = self.ranks(scripted, *bare, *words, "--batch-size", "1")
            assert len(ranks) >= 2 and all("layers" in rank for rank in ranks)

    def test_are_those_that_were_asked_for(self, scripted):
        bare = self.gpus(scripted, 4)
        prompts(scripted, 9)
        assert [rank["gpu"] for rank in self.ranks(scripted, *bare, "-p", "p.txt", "--gpu-ids", "3", "1")] == [3, 1]
        assert len(self.ranks(scripted, *bare, "-p", "p.txt", "--num-gpus", "3")) == 3
        assert scripted(*bare, "-p", "p.txt", "--num-gpus", "5").returncode == 3
        assert [rank["gpu"] for rank in self.ranks(scripted, *bare, "-p", "p.txt", "--ranks", "2")] == [0, 1]
        shared = self.ranks(scripted, *bare, "-p", "p.txt", "--num-gpus", "1", "--ranks", "2")
        assert len(shared) == 2 and shared[0]["limit_bytes"] <= 20 << 30
        wasted = scripted(*bare, "-p", "p.txt", "--num-gpus", "3", "--ranks", "2")
        assert wasted.returncode == 2 and "--num-gpus 2" in wasted.stderr
        talking = scripted(*bare, "--interactive", "--num-gpus", "2")
        assert talking.returncode == 2 and "a conversation is one rank's work" in talking.stderr


class TestARankThatDies:
    @pytest.mark.parametrize("score", [False, True])
    def test_leaves_its_prompts_to_the_others_and_the_run_says_so(self, scripted, score):
        scripted.script(wants=6, die={"1": 3}, together=3)
        rows = [{"prompt": f"prompt {i}", "completion": "x y"} for i in range(60)]
        words = ("--score",) if score else ()
        result = scripted(*BARE, *words, "--ranks", "3", "-p", scripted.prompts("p.jsonl", *rows), "-o", "out.jsonl", "--json")
        assert result.returncode == 0, result.stderr
        assert [row["index"] for row in scripted.rows("out.jsonl")] == list(range(60))
        summary = json.loads(result.stdout)
        assert summary["lost_ranks"] == 1 and 1 <= summary["redone_prompts"] <= 6
        assert "rank 1 is gone" in result.stderr and "redone by the others" in result.stderr

    def test_at_the_very_end_finds_others_still_there(self, scripted):
        scripted.script(wants=2, die={"1": 1}, pause=0.3)
        result = scripted(*BARE, "--ranks", "2", "-p", prompts(scripted, 4), "-o", "out.jsonl")
        assert result.returncode == 0, result.stderr
        assert texts(scripted) == expected(4)

    def test_like_all_others_is_told_and_what_was_written_stays(self, scripted):
        scripted.script(wants=2, die={"0": 5, "1": 5}, pause=0.01)
        result = scripted(*BARE, "--ranks", "2", "-p", prompts(scripted, 100), "-o", "out.jsonl")
        assert result.returncode == 1 and "SIGKILL" in result.stderr, result.stderr
        assert "--resume" in result.stderr
        written = texts(scripted)
        assert 0 < len(written) < 100 and written == expected(len(written))

    def test_of_a_refusal_ends_the_job_with_it(self, scripted):
        scripted.script(refuse=[1], pause=0.05)
        result = scripted(*BARE, "--ranks", "3", "-p", prompts(scripted, 300), "-o", "out.jsonl")
        assert result.returncode == 2 and "rank 1: no such attention on this device" in result.stderr, result.stderr
        assert "go on" not in result.stderr

    def test_of_a_prompt_names_it_before_all_are_dead(self, scripted):
        scripted.script(deadly=7, wants=3)
        result = scripted(*BARE, "--ranks", "5", "-p", prompts(scripted, 60), "-o", "out.jsonl")
        assert result.returncode == 1, result.stderr
        assert "p.txt:8: 3 ranks died of this prompt" in result.stderr
        assert texts(scripted) == expected(7)

    def test_of_a_prompt_with_the_last_other_names_it(self, scripted):
        scripted.script(deadly=7, wants=1)
        result = scripted(*BARE, "--ranks", "2", "-p", prompts(scripted, 60), "-o", "out.jsonl")
        assert result.returncode == 1 and "p.txt:8 was with 2 ranks when they died" in result.stderr, result.stderr


class TestInterruptedRuns:
    def test_say_how_to_go_on_and_do(self, scripted):
        scripted.script(wants=3, stuck=[20])
        process = scripted.start(*BARE, "--ranks", "2", "-p", prompts(scripted, 150), "-o", "out.jsonl")
        wait_for_lines(scripted.folder / "out.jsonl", 5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        written = texts(scripted)
        assert written == expected(len(written)) and 5 <= len(written) <= 20
        assert f"interrupted: {len(written)} of 150 prompts" in errors and "--resume" in errors and "redone" not in errors
        scripted.script()
        result = scripted(*BARE, "-p", "p.txt", "-o", "out.jsonl", "--resume", "--json")
        assert result.returncode == 0, result.stderr
        assert texts(scripted) == expected(150)
        summary = json.loads(result.stdout)
        assert (summary["earlier_prompts"], summary["prompts"]) == (len(written), 150 - len(written))


class TestResuming:
    @pytest.fixture
    def half(self, scripted: Generate) -> Generate:
        """Two samples each; killed when some rows are there."""
        scripted.script(wants=2, stuck=[20])
        process = scripted.start(*BARE, "--ranks", "2", "--samples", "2", "-p", prompts(scripted, 40), "-o", "out.jsonl")
        wait_for_lines(scripted.folder / "out.jsonl", 9)
        process.kill()
        process.communicate(timeout=60)
        scripted.script()
        (scripted.folder / "record.jsonl").unlink()
        return scripted

    def resume(self, scripted: Generate, *words: str) -> subprocess.CompletedProcess:
        return scripted(*BARE, "--samples", "2", "-p", "p.txt", "-o", "out.jsonl", "--resume", *words)

    def test_after_kill_9_gives_the_file_of_an_undisturbed_run_and_does_nothing_twice(self, half):
        kept = (half.folder / "out.jsonl").read_bytes()
        there = kept.count(b"\n") // 2
        assert self.resume(half).returncode == 0
        assert [index for indices in taken(half).values() for index in indices] == list(range(there, 40))
        assert half(*BARE, "--samples", "2", "-p", "p.txt", "-o", "whole.jsonl").returncode == 0
        assert (half.folder / "out.jsonl").read_bytes() == (half.folder / "whole.jsonl").read_bytes()

    @pytest.mark.parametrize("cut", [1, 2, 30, 90, 150])
    def test_cuts_a_torn_line_and_redoes_a_prompt_that_lacks_samples(self, half, cut):
        file = half.folder / "out.jsonl"
        kept = file.read_bytes()[:-cut]
        file.write_bytes(kept)
        assert self.resume(half).returncode == 0
        assert taken(half)[0][0] == kept.count(b"\n") // 2
        half(*BARE, "--samples", "2", "-p", "p.txt", "-o", "whole.jsonl")
        assert file.read_bytes() == (half.folder / "whole.jsonl").read_bytes()

    def test_a_complete_output_has_nothing_left_to_do(self, half):
        assert self.resume(half).returncode == 0
        (half.folder / "record.jsonl").unlink()
        before = (half.folder / "out.jsonl").read_bytes()
        result = self.resume(half, "--json")
        assert result.returncode == 0 and "nothing is left to do" in result.stderr
        assert json.loads(result.stdout)["earlier_prompts"] == 40
        assert (half.folder / "out.jsonl").read_bytes() == before and not (half.folder / "record.jsonl").exists()

    def test_where_there_is_nothing_begins_at_the_beginning(self, scripted):
        prompts(scripted, 5)
        for _ in range(2):
            assert self.resume(scripted).returncode == 0
            assert len(texts(scripted)) == 10
            (scripted.folder / "out.jsonl").write_bytes(b"")

    def test_is_refused_with_what_differs(self, half):
        before = (half.folder / "out.jsonl").read_bytes()
        changes = (("--temperature", "0.5"), "temperature was 1.0 and is 0.5"), (("--seed", "7"), "seed was 42 and is 7"), (("--stop", "x"), 'stop was [] and is ["x"]')
        for words, difference in changes:
            result = self.resume(half, *words)
            assert result.returncode == 2 and difference in result.stderr, result.stderr
        half.prompts("p.txt", "other")
        result = self.resume(half)
        assert result.returncode == 2 and "prompts.count was 40 and is 1" in result.stderr
        (half.folder / "out.jsonl.job").unlink()
        result = self.resume(half)
        assert result.returncode == 2 and "no out.jsonl.job says what they were made from" in result.stderr
        assert (half.folder / "out.jsonl").read_bytes() == before

    def test_is_refused_for_a_model_that_is_another_one_now(self, half):
        half.model(rms_norm_eps=1e-6)
        result = self.resume(half)
        assert result.returncode == 2 and "files.config.json was" in result.stderr, result.stderr

    def test_is_asked_for_by_the_environment_too(self, half):
        there = (half.folder / "out.jsonl").read_bytes().count(b"\n") // 2
        half.environment["MUSTER_EXPERIMENT_RESUME"] = "auto"
        assert half(*BARE, "--samples", "2", "-p", "p.txt", "-o", "out.jsonl").returncode == 0
        assert [index for indices in taken(half).values() for index in indices] == list(range(there, 40))

    def test_is_refused_while_another_run_writes_the_file(self, half):
        with open(half.folder / "out.jsonl") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            result = self.resume(half)
        assert result.returncode == 3 and "another run writes out.jsonl" in result.stderr

    def test_is_refused_for_rows_of_a_stream_that_were_written_over_it(self, half):
        assert half(*BARE, "--samples", "2", "-p", "-", "-o", "out.jsonl", input="other\n").returncode == 0
        result = self.resume(half)
        assert result.returncode == 2 and "no out.jsonl.job" in result.stderr

    def test_is_refused_for_rows_that_are_no_prefix(self, half):
        lines = (half.folder / "out.jsonl").read_text().splitlines(keepends=True)
        for wrong in ([*lines[:2], *lines[4:]], [lines[0], "{}\n", *lines[2:]], [lines[0], "text\n"]):
            (half.folder / "out.jsonl").write_text("".join(wrong))
            result = self.resume(half)
            assert result.returncode == 2 and "is not the row of prompt" in result.stderr, result.stderr

    def test_is_not_for_streams(self, scripted):
        result = scripted(*BARE, "-p", prompts(scripted, 3), "--resume")
        assert result.returncode == 2 and "-o FILE" in result.stderr
        result = scripted(*BARE, "-p", "-", "-o", "out.jsonl", "--resume")
        assert result.returncode == 2 and "standard input cannot be read twice" in result.stderr

    def test_is_asked_for_else_the_file_is_written_anew(self, half):
        assert half(*BARE, "-p", half.prompts("q.txt", "ab"), "-o", "out.jsonl").returncode == 0
        assert texts(half) == ["ba"]


class TestManyPrompts:
    def test_stream_through_little_memory(self, scripted):
        """bench/generate/stream_bench.py has a million."""
        count = 50_000
        scripted.script(record=None, wants=512)
        with open(scripted.folder / "p.txt", "w") as file:
            file.writelines(f"prompt {i}\n" for i in range(count))
        process = scripted.start(*BARE, "--ranks", "2", "-p", "p.txt", "-o", "out.jsonl", stdout=None, stderr=None)
        peak = 0
        while process.poll() is None:
            peak = max(peak, peak_resident(process.pid))
            time.sleep(0.02)
        assert process.returncode == 0
        assert 1 << 20 < peak < 64 << 20
        with open(scripted.folder / "out.jsonl") as file:
            assert [json.loads(line)["text"] for line in file] == expected(count)
