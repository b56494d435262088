"""The same bytes whatever the layout: the real worker, over ranks and batches, with a rank killed and a run resumed."""

import itertools
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from generate_runs import Generate

PROMPTS = [f"{word} {number}" + " and so on" * (number % 7) for number, word in enumerate(("The capital", "Grüße", "def f(x):", "1", "世界") * 30)]
FILE = ("-p", "p.jsonl")
WORDS = (
    "-m", "tiny", "model.init=random", "--device", "cpu", "--max-new-tokens", "60", "--samples", "2",
    "--temperature", "1.1", "--top-k", "40", "--logprobs",
)  # fmt: skip


@pytest.fixture(scope="module")
def generate(tmp_path_factory: pytest.TempPathFactory) -> Generate:
    generate = Generate(tmp_path_factory.mktemp("identity"))
    generate.text()
    # Answers of different lengths: ranks and batches fall out of step.
    generate.prompts("p.jsonl", *({"prompt": prompt, "id": i, "max_new_tokens": 4 + 14 * (i % 5)} for i, prompt in enumerate(PROMPTS)))
    return generate


@pytest.fixture(scope="module")
def undisturbed(generate: Generate) -> bytes:
    result = generate(*WORDS, *FILE, "-o", "one.jsonl", "--batch-size", "1")
    assert result.returncode == 0, result.stderr
    rows = generate.rows("one.jsonl")
    assert [(row["index"], row["sample"]) for row in rows] == list(itertools.product(range(len(PROMPTS)), range(2)))
    assert len({row["text"] for row in rows}) > len(PROMPTS)
    return (generate.folder / "one.jsonl").read_bytes()


def environment_of(pid: int) -> dict[str, str]:
    try:
        text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def workers_of(generate: Generate) -> dict[int, int]:
    """Process numbers by rank, of this test's own workers: they carry its lease folder."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            environment = environment_of(int(entry.name))
            if "MUSTER_CONTROL" in environment and environment.get("MUSTER_LEASE_DIR") == generate.environment["MUSTER_LEASE_DIR"]:
                found[int(environment["RANK"])] = int(entry.name)
    return found


def all_workers(generate: Generate, process: subprocess.Popen, ranks: int) -> dict[int, int]:
    deadline = time.monotonic() + 60
    while len(workers := workers_of(generate)) < ranks:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.005)
    return workers


def wait_for_rows(file: pathlib.Path, process: subprocess.Popen, count: int) -> None:
    """Or for the end of the process."""
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_bytes().count(b"\n") >= count) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)


class TestTheOutput:
    @pytest.mark.parametrize(("ranks", "batch"), [(1, 4), (1, 16), (2, 1), (2, 4), (2, 16), (3, 1), (3, 4), (3, 16), (4, 1), (4, 4), (4, 16)])
    def test_does_not_depend_on_ranks_and_batches(self, generate, undisturbed, ranks, batch):
        result = generate(*WORDS, *FILE, "-o", "out.jsonl", "--ranks", str(ranks), "--batch-size", str(batch))
        assert result.returncode == 0, result.stderr
        assert (generate.folder / "out.jsonl").read_bytes() == undisturbed

    def with_a_rank_killed(self, generate: Generate, output: str, ranks: int, batch: int, killed: int, pause: float) -> dict:
        """The summary of a run that lost a rank on the way; pause: seconds that the ranks get to ask for prompts."""
        words = ("-p", "-", "-o", output, "--ranks", str(ranks), "--batch-size", str(batch), "--json")
        process = generate.start(*WORDS, *words, stdin=subprocess.PIPE)
        workers = all_workers(generate, process, ranks)
        rows = (generate.folder / "p.jsonl").read_text().splitlines(keepends=True)
        process.stdin.write("".join(rows[:40]))
        process.stdin.flush()
        wait_for_rows(generate.folder / output, process, 6)
        time.sleep(pause)
        # Stopped, it gets the prompts that it has asked for and answers none; so it dies with them.
        os.kill(workers[killed], signal.SIGSTOP)
        process.stdin.write("".join(rows[40:]))
        process.stdin.close()
        process.stdin = None
        time.sleep(pause / 3)
        os.kill(workers[killed], signal.SIGKILL)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return json.loads(out)

    @pytest.mark.parametrize(("ranks", "batch", "killed"), [(2, 4, 0), (3, 1, 2), (4, 16, 1)])
    def test_does_not_depend_on_a_rank_that_is_killed_in_the_middle(self, generate, undisturbed, ranks, batch, killed):
        for attempt in range(5):  # a rank that was slow to start had asked for nothing when it was killed
            summary = self.with_a_rank_killed(generate, f"killed-{attempt}.jsonl", ranks, batch, killed, pause=0.3 * 2**attempt)
            assert summary["lost_ranks"] == 1
            assert (generate.folder / f"killed-{attempt}.jsonl").read_bytes() == undisturbed
            if summary["redone_prompts"] > 0:
                return
        raise AssertionError("it never had a prompt")

    def cut_short(self, generate: Generate, undisturbed: bytes, ranks: int, batch: int) -> bytes:
        """What a run that was killed in the middle has written."""
        file = generate.folder / "resumed.jsonl"
        for _ in range(10):
            file.unlink(missing_ok=True)
            process = generate.start(*WORDS, *FILE, "-o", file.name, "--ranks", str(ranks), "--batch-size", str(batch))
            wait_for_rows(file, process, 6)
            process.kill()
            process.communicate(timeout=60)
            if (there := file.read_bytes()) != undisturbed:
                return there
        raise AssertionError("it was always too late")

    @pytest.mark.parametrize(("before", "after"), [((1, 4), (2, 16)), ((3, 1), (1, 4))])
    def test_does_not_depend_on_a_run_that_was_killed_and_resumed(self, generate, undisturbed, before, after):
        there = self.cut_short(generate, undisturbed, *before)
        assert undisturbed.startswith(there)
        words = ("-o", "resumed.jsonl", "--ranks", str(after[0]), "--batch-size", str(after[1]), "--resume", "--json")
        result = generate(*WORDS, *FILE, *words)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["earlier_prompts"] == there.count(b"\n") // 2
        assert (generate.folder / "resumed.jsonl").read_bytes() == undisturbed

    def test_of_scoring_does_not_depend_on_them_either(self, generate):
        rows = [{"prompt": prompt, "completion": " and" * (i % 9 + 1)} for i, prompt in enumerate(PROMPTS)]
        generate.prompts("s.jsonl", *rows)
        outputs = set()
        for ranks, batch in ((1, 1), (2, 16), (3, 4)):
            result = generate("-m", "tiny", "model.init=random", "--device", "cpu", "--score", "-p", "s.jsonl", "--ranks", str(ranks), "--batch-size", str(batch))
            assert result.returncode == 0, result.stderr
            outputs.add(result.stdout)
        assert len(outputs) == 1 and outputs.pop().count("\n") == len(PROMPTS)
