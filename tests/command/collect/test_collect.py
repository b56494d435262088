"""`muster collect`: trajectories in the guide's form, the same bytes on any ranks."""

import json
import subprocess

import pytest
import train_runs

STOP = "[32,101,116,97,111]"
ROWS = [{"topic": topic, "opponent": [" no.", " never."]} for topic in ("Cats?", "Cars?", "Tea?")]


def run(classroom, *words):
    command = [str(train_runs.PROGRAM), "collect", "-m", str(classroom.model("llama-tied")), "--device", "cpu", *map(str, words)]
    return subprocess.run(command, env=classroom.environment, cwd=classroom.folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120)


def collect(classroom, rows, *words):
    done = run(classroom, "-e", "debate", "--data", classroom.data(rows), "--max-new-tokens", 24, "--stop-tokens", STOP, *words)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def alone(classroom):
    return collect(classroom, ROWS, "-n", 8)


def test_trajectories_have_the_form_of_the_guide(alone):
    trajectories = [json.loads(line) for line in alone.stdout.splitlines()]
    assert [one["metadata"]["episode"] for one in trajectories] == list(range(8))
    assert [one["metadata"]["row"] for one in trajectories] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert max(len(one["actions"]) for one in trajectories) > 1
    for one in trajectories:
        observations, actions, rewards = one["observations"], one["actions"], one["rewards"]
        assert len(observations) == len(actions) + 1 == len(rewards) + 1 <= 4
        assert [observation["done"] for observation in observations] == [False] * len(actions) + [True]
        assert {action["role"] for action in actions} == {"assistant"}
        assert ROWS[one["metadata"]["row"]]["topic"] in observations[0]["messages"][0]["content"]
        assert one["metadata"]["reward"] == pytest.approx(sum(reward["value"] for reward in rewards))
        assert len(one["metadata"]["info"]) == len(actions)
    assert "8 episodes" in alone.stderr


def test_episodes_of_one_row_differ(alone):
    actions = [json.dumps(json.loads(line)["actions"]) for line in alone.stdout.splitlines()]
    assert len(set(actions)) == 8


@pytest.mark.parametrize("words", [("--ranks", 2), ("--ranks", 3, "--batch-size", 1)])
def test_bytes_do_not_depend_on_ranks(classroom, alone, words):
    assert collect(classroom, ROWS, "-n", 8, *words).stdout == alone.stdout


def test_what_earned_too_little_is_left_out(classroom, alone, tmp_path):
    rewards = sorted(json.loads(line)["metadata"]["reward"] for line in alone.stdout.splitlines())
    least = (rewards[3] + rewards[4]) / 2
    output = tmp_path / "good.jsonl"
    done = collect(classroom, ROWS, "-n", 8, "--filter-reward", least, "-o", output, "--json")
    kept = [line for line in alone.stdout.splitlines() if json.loads(line)["metadata"]["reward"] >= least]
    assert output.read_text().splitlines() == kept and 0 < len(kept) < 8
    summary = json.loads(done.stdout)
    assert (summary["episodes"], summary["written"]) == (8, len(kept))
    assert summary["mean_reward"] == pytest.approx(sum(rewards) / 8)


@pytest.mark.parametrize("words, remedy", [
    ((), "-e code, math, tool, debate or program"),
    (("-e", "chess"), "environment.type"),
    (("-e", "debate", "-n", 0), "-n"),
    (("-e", "math", "environment.rounds=2"), "environment.rounds is set"),
    (("-e", "debate", "--json"), "-o FILE"),
    (("-e", "debate", "reward.functions=exact"), "reward.functions"),
])
def test_mistakes_are_told(classroom, words, remedy):
    done = run(classroom, "--data", classroom.data(ROWS), *words)
    assert done.returncode == 2 and remedy in done.stderr, done.stderr


def test_a_bad_row_is_refused_with_its_file_and_line(classroom):
    data = classroom.data([ROWS[0], {"answer": "1"}])
    done = run(classroom, "-e", "debate", "--data", data)
    assert done.returncode == 2 and f"{data}:2: " in done.stderr and "topic" in done.stderr, done.stderr


def test_a_program_is_an_environment(classroom):
    examples = train_runs.ROOT / "examples"
    done = run(classroom, "-e", "program", f'environment.program=["python3", "-S", "{examples}/guess_environment.py"]', "--data", examples / "guess.jsonl",
               "-n", 6, "--max-new-tokens", 8, "--stop-tokens", STOP, "--json", "-o", classroom.folder / "guesses.jsonl")
    assert done.returncode == 0, done.stderr
    trajectories = [json.loads(line) for line in (classroom.folder / "guesses.jsonl").read_text().splitlines()]
    assert len(trajectories) == 6 and json.loads(done.stdout)["unknown"] == 0
    for one in trajectories:
        assert one["observations"][0]["messages"][0]["content"].startswith("Guess my number, from 1 to 50.")
        assert all(seen["messages"][0]["content"] in ("That was no number.", "It is higher.", "It is lower.") for seen in one["observations"][1:-1])
        assert one["metadata"]["reward"] in (0, 1) and len(one["actions"]) <= 4


BARRIER = """
import json, sys
held = []
for line in sys.stdin:
    asked = json.loads(line)
    if "reset" in asked: print(json.dumps({"id": asked["id"], "messages": [{"role": "user", "content": "?"}]}), flush=True)
    if "answer" in asked: held.append(asked["id"])
    if len(held) == 3:
        for id in held: print(json.dumps({"id": id, "reward": 1, "done": True}), flush=True)
        held = []
"""


def test_episodes_of_a_slow_program_are_stepped_at_the_same_time(classroom, tmp_path):
    """It answers no step before it has three to answer."""
    (tmp_path / "barrier.py").write_text(BARRIER)
    done = run(classroom, "-e", "program", f'environment.program=["python3", "-S", "{tmp_path}/barrier.py"]', "--data", classroom.data(ROWS), "-n", 9,
               "--max-new-tokens", 8, "--batch-size", 3, "--json", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean_reward"] == 1
