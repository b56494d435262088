"""Episodes whose environment is a server's: the same as here, and unknown, never 0, where it is gone."""

import json
import signal
import subprocess
import threading

import pytest
import train_runs
from environment_servers import PROGRAM

STOP = "[32,101,116,97,111]"
ROWS = [{"topic": topic, "opponent": [" no.", " never."]} for topic in ("Cats?", "Cars?", "Tea?")]


def collect(classroom, data, *words):
    command = [str(PROGRAM), "collect", "-m", str(classroom.model("llama-tied")), "--device", "cpu", "-e", "debate", "--data", str(data), "-n", "8",
               "--max-new-tokens", "24", "--stop-tokens", STOP, *map(str, words)]
    return subprocess.run(command, env=classroom.environment, cwd=classroom.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)


def test_collected_trajectories_are_those_of_the_environment_here(classroom, serve, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret-7")
    token.chmod(0o600)
    server = serve("-e", "debate,math", "--token-file", token, "environment.rounds=2")
    data = classroom.data(ROWS)
    here = collect(classroom, data, "environment.rounds=2")
    there = collect(classroom, data, f"environment.server={server.address}", f"environment.token_file={token}")
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    # The order of facts is not the protocol's to keep.
    ours, theirs = ([json.loads(line) for line in done.stdout.splitlines()] for done in (here, there))
    assert ours == theirs and len(ours) == 8
    without = collect(classroom, data, f"environment.server={server.address}")
    assert without.returncode == 2 and "a token is wanted" in without.stderr, without.stderr
    assert "rows-" in without.stderr, "the row that it was asked for"


def settings_of(**more):
    return {"algorithm": "grpo", "max_steps": 2, "learning_rate": 5e-3, "deterministic": "true", "sequence_length": 400,
            "num_rollouts_per_iteration": 8, "batch_size": 8, "micro_batch_size": 4, "generation.max_new_tokens": 60, "grpo.num_generations": 4,
            "generation.stop_tokens": STOP, "environment.type": "debate"} | more


def test_training_with_a_server_has_the_bits_of_training_here(classroom, serve):
    server = serve("-e", "debate")
    model, data = classroom.model("llama-tied"), classroom.data(ROWS)
    here = classroom.train(model, data, **settings_of())
    there = classroom.train(model, data, 2, **settings_of(**{"environment.server": server.address, "environment.at_once": 3}))
    train_runs.assert_same_bits(here, there)
    for name in ("round-000001.jsonl", "round-000002.jsonl"):
        assert (here.folder / "rollouts" / name).read_bytes() == (there.folder / "rollouts" / name).read_bytes()


def test_episodes_are_unknown_where_the_server_dies_and_the_next_round_fails(classroom, serve, tmp_path):
    """It dies after the first answers of the first round: at the first step that lasts."""
    program = tmp_path / "dies.py"
    program.write_text("""
import json, os, signal, sys
rows = steps = 0
for line in sys.stdin:
    asked = json.loads(line)
    rows += "reset" in asked
    steps += "answer" in asked
    if steps == 3: os.kill(os.getppid(), signal.SIGKILL)
    if "id" in asked: print(json.dumps({"id": asked["id"], "messages": [{"role": "user", "content": "?"}], "reward": 1, "done": "answer" in asked}), flush=True)
""")
    server = serve("-e", "program", f'environment.program=["python3", "-S", "{program}"]')
    words = {"environment.type": "program", "environment.server": server.address, "environment.program_seconds": 3, "environment.program_restarts": 0,
             "distributed.max_restarts": 0}
    run = classroom.start(classroom.model("llama-tied"), classroom.data(ROWS), **settings_of(**words))
    assert run.code == 1 and "gave no answer within 3 s" in run.text, run.text
    assert any("what an episode is worth is unknown" in log.read_text() for log in run.folder.rglob("stderr.log"))
    answers = [json.loads(line) for line in (run.folder / "rollouts/round-000001.jsonl").read_text().splitlines()[1:]]
    rewards = [answer["reward"] for answer in answers]
    assert rewards.count(None) >= 6 and set(rewards) <= {1, None}, rewards


def test_a_server_that_comes_back_is_told_the_episodes_again(classroom, serve, protocol):
    """Sessions are lost with the server; rows, seeds and answers are not."""
    first = serve("-e", "debate", "environment.rounds=2")
    client = subprocess.Popen([str(PROGRAM.parents[1] / "environments/muster-environments"), "ask", first.address, "debate", "20"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(**asked):
        client.stdin.write(json.dumps(asked) + "\n")
        client.stdin.flush()
        return json.loads(client.stdout.readline())

    begun = say(id=0, session=0, reset=ROWS[0], seed=1)
    assert say(id=1, session=0, answer="Because of studies.")["done"] is False
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    restarted = threading.Timer(1, lambda: serve("-e", "debate", "-p", first.told["port"], "environment.rounds=2"))
    restarted.start()
    assert first.address in say(id=2, session=0, answer="Second.")["failed"]
    assert say(id=3, session=1, reset=ROWS[0], seed=1)["messages"] == begun["messages"]
    restarted.join()
    client.stdin.close()
    assert client.wait(timeout=20) == 0


@pytest.mark.parametrize("words, told", [
    (("environment.server=no port",), "environment.server"),
    (("environment.server=localhost:1", "environment.rounds=2"), "environment.server has the environment"),
    (("environment.token_file=token",), "environment.server is not"),
])
def test_mistakes_are_told(classroom, words, told):
    done = collect(classroom, classroom.data(ROWS), *words)
    assert done.returncode == 2 and told in done.stderr, done.stderr
