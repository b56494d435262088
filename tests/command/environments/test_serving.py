"""`muster serve-environments`, asked by a client that was generated from the protocol: every method, and everything that is refused."""

import json
import math
import shutil
import signal
import socket
import threading
import time

import grpc
import pytest
from environment_servers import PROGRAM, start

MATH = {"question": "What is 6 times 7?", "answer": "42"}
CODE = {"prompt": "Write f.", "tests": ["assert f(1) == 2", "assert f(2) == 3", "assert f(3) == 4"]}
TOOL = {"prompt": "What is 6 * 7?", "answer": "42", "required_tools": ["calculator"]}
CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "6 * 7"}}</tool_call>'


@pytest.fixture(scope="module")
def shared(protocol, tmp_path_factory):
    """A server of all kinds, for tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("rows")
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"What is {i} + 1?", "answer": str(i + 1)}) + "\n" for i in range(3)))
    server = start(protocol, "-e", "code,math,tool,debate", "--data", f"math={rows}", "environment.reward_steps=true", "environment.max_attempts=2",
                   "environment.rounds=1")
    yield server
    assert server.end()[0] == 143


@pytest.fixture
def client(shared):
    with shared.client() as client:
        yield client


def refused(code, *words):
    """As pytest.raises, for a status and words of its message."""

    class Refused:
        def __enter__(self):
            self.raises = pytest.raises(grpc.RpcError)
            self.found = self.raises.__enter__()

        def __exit__(self, *failure):
            assert self.raises.__exit__(*failure)
            error = self.found.value
            assert error.code() == code, error
            for word in words:
                assert word in error.details(), error.details()
            return True

    return Refused()


@pytest.mark.parametrize("environment, row, answers, reward", [
    ("math", MATH, ["The answer is 42"], 1),
    ("math", MATH, ["42.0002"], 0),
    ("math", MATH, ["No idea"], -0.3),
    ("math", MATH, ["6 * 6 = 36\n36 + 6 = 42\nThe answer is 42"], 1.2),
    ("code", CODE, ["```python\ndef f(x):\n  return x + 1\n```"], 2),
    ("code", CODE, ["def f(x):\n  return y\n", "def f(x):\n  return 2 if x == 1 else 0\n"], 1 / 3),
    ("code", CODE, ["def f(x):\n  return y\n", "def f(x:"], -0.5),
    ("tool", TOOL, [CALL, "42"], 0.5 + 0.3 + 0.2 * (1 - 2 / 8)),
    ("tool", TOOL, ["41"], 0),
    ("tool", TOOL, ["<tool_call>calculator"], -0.1),
])
def test_steps_earn_what_the_table_says(client, environment, row, answers, reward):
    response = client.play(environment, row, *answers)
    assert response.reward.value == pytest.approx(reward, abs=1e-12)
    assert response.status == "success"


def test_an_episode_goes_from_its_beginning_to_its_end(client):
    begun = client.reset("tool", TOOL, seed=3)
    assert [message.role for message in begun.observation.messages] == ["system", "user"]
    assert not begun.observation.done and begun.observation.info["seed"] == "3"
    first = client.step(begun.session_id, CALL)
    assert [(message.role, message.content) for message in first.observation.messages] == [("tool", "42")]
    assert (first.observation.done, first.reward.value, first.observation.state["turn"]) == (False, pytest.approx(0.3), "1")
    assert client.step(begun.session_id, "42").observation.done
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "is over", "Reset"):
        client.step(begun.session_id, "42")


def test_a_client_of_the_guide_gets_the_servers_rows_in_turn(client):
    """It says nothing but the environment's name, and acts as the user."""
    texts = [client.reset("math").observation.messages[-1].content for _ in range(4)]
    assert texts[0] == texts[3] and len(set(texts)) == 3
    begun = client.reset("math", index=2)
    assert begun.observation.messages[-1].content == "What is 2 + 1?"
    action = client.messages.MessageProto(role="user", content="3")
    assert client.call("Step", client.messages.StepRequest(session_id=begun.session_id, action=action)).reward.value == 1


def test_an_episode_that_is_cut_short_earns_what_its_last_attempt_did(client):
    session = client.reset("code", CODE).session_id
    client.step(session, "def f(x):\n  return 2 if x == 1 else 0\n")
    ended = client.step(session, "", end="true")
    assert ended.observation.done and ended.reward.value == pytest.approx(1 / 3)


def test_what_nobody_knows_is_not_a_number(client):
    response = client.play("code", {"prompt": "Write f.", "tests": "assert ("}, "def f(x): return x")
    assert math.isnan(response.reward.value) and "unknown" in response.reward.info and "fault" in response.observation.info


def test_a_batch_is_stepped_as_a_whole_or_not_at_all(client):
    sessions = [client.reset("math", MATH).session_id for _ in range(20)]
    requests = [client.request(session, str(40 + i)) for i, session in enumerate(sessions)]
    with refused(grpc.StatusCode.NOT_FOUND, "requests[20]", "none of the 21 was stepped"):
        client.call("BatchStep", client.messages.BatchStepRequest(requests=[*requests, client.request("nobody", "1")]))
    with refused(grpc.StatusCode.ABORTED, "requests[20]", "one at a time"):
        client.call("BatchStep", client.messages.BatchStepRequest(requests=[*requests, requests[0]]))
    done = client.call("BatchStep", client.messages.BatchStepRequest(requests=requests))
    assert [response.reward.value for response in done.responses] == [float(i == 2) for i in range(20)]
    assert len(client.call("BatchStep", client.messages.BatchStepRequest()).responses) == 0


def test_a_stream_steps_until_a_request_is_refused(client):
    sessions = [client.reset("math", MATH).session_id for _ in range(3)]
    answers = client.stub.StreamStep(iter([client.request(session, "42") for session in sessions]), timeout=60)
    assert [answer.reward.value for answer in answers] == [1, 1, 1]
    last = client.reset("math", MATH).session_id
    answers = client.stub.StreamStep(iter([client.request(last, "42"), client.request(last, "42")]), timeout=60)
    assert next(answers).observation.done
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "is over"):
        next(answers)


def test_environments_and_health_are_told(client):
    listed = client.call("ListEnvironments", client.messages.ListEnvironmentsRequest()).environments
    assert [one.environment_id for one in listed] == ["code", "math", "tool", "debate"]
    assert {one.environment_id: one.metadata["rows"] for one in listed}["math"] == "3" and {one.mode for one in listed} == {"client"}
    only = client.call("ListEnvironments", client.messages.ListEnvironmentsRequest(environment_type="tool")).environments
    assert [one.environment_type for one in only] == ["tool"]
    health = client.call("HealthCheck", client.messages.HealthCheckRequest())
    assert health.status == "healthy" and health.info["num_environments"] == "4" and abs(health.timestamp - time.time()) < 600
    assert client.call("HealthCheck", client.messages.HealthCheckRequest(service="other")).status == "unknown"


def test_what_makes_no_sense_is_told(client):
    with refused(grpc.StatusCode.NOT_FOUND, '"chess"', "code, math, tool, debate"):
        client.reset("chess", {})
    with refused(grpc.StatusCode.NOT_FOUND, "no session", "Reset"):
        client.step("nobody", "1")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "no right answer"):
        client.reset("math", {"question": "?"})
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "the server has no data for code", "--data code=FILE"):
        client.reset("code")
    with refused(grpc.StatusCode.OUT_OF_RANGE, "3 rows"):
        client.reset("math", index=3)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, '"level"', "row, index and seed"):
        client.reset("math", level=3)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "whole number"):
        client.reset("math", seed="many")


def test_sessions_of_two_clients_are_two(shared):
    with shared.client() as one, shared.client() as other:
        first, second = one.reset("tool", TOOL).session_id, other.reset("tool", TOOL).session_id
        assert one.step(first, CALL).observation.state["turn"] == "1"
        assert other.step(second, "42").reward.value == pytest.approx(0.5 + 0.2 * (1 - 1 / 8))
        assert one.step(first, "42").observation.done


SLOW = """
import json, pathlib, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if "answer" in asked:
        while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)
    if "id" in asked:
        print(json.dumps({"id": asked["id"], "messages": [{"role": "user", "content": "?"}], "reward": 1, "done": True}), flush=True)
"""


def test_a_slow_environment_keeps_no_other_waiting(serve, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    server = serve("-e", "math,program", f'environment.program=["python3", "-S", "{tmp_path}/slow.py", "{tmp_path}/go"]', "environment.at_once=2")
    with server.client() as client:
        sessions = [client.reset("program", {}).session_id for _ in range(5)]
        results = []
        threads = [threading.Thread(target=lambda session=session: results.append(client.step(session, "x").reward.value)) for session in sessions]
        for thread in threads:
            thread.start()
        assert client.play("math", MATH, "42").reward.value == 1
        assert results == []
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join()
        assert results == [1] * 5


def test_sessions_are_bounded_and_expire(serve):
    server = serve("-e", "math", "--sessions", 2, "--session-timeout", "2s")
    with server.client() as client:
        first = client.reset("math", MATH).session_id
        client.reset("math", MATH)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "2 sessions are open", "--sessions"):
            client.reset("math", MATH)
        deadline = time.monotonic() + 60
        while client.call("HealthCheck", client.messages.HealthCheckRequest()).info["num_sessions"] != "0":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with refused(grpc.StatusCode.NOT_FOUND, "has expired", "--session-timeout"):
            client.step(first, "42")
        assert client.reset("math", MATH).session_id


def test_only_those_with_the_token_are_answered(serve, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret-7\n")
    token.chmod(0o600)
    server = serve("-e", "math", "--token-file", token, "--message-limit", "64KiB")
    assert server.told["token"] is True
    for wrong, word in ((None, "a token is wanted"), ("secret-8", "not this server's"), ("secret-77", "not this server's")):
        with server.client(wrong) as client:
            for method, request in (("Reset", "ResetRequest"), ("Step", "StepRequest"), ("BatchStep", "BatchStepRequest"),
                                    ("ListEnvironments", "ListEnvironmentsRequest"), ("HealthCheck", "HealthCheckRequest")):
                with refused(grpc.StatusCode.UNAUTHENTICATED, word):
                    client.call(method, getattr(client.messages, request)())
            with refused(grpc.StatusCode.UNAUTHENTICATED, word):
                next(client.stub.StreamStep(iter([]), metadata=client.metadata, timeout=60))
    with server.client("secret-7") as client:
        session = client.reset("math", MATH).session_id
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"):
            client.step(session, "4" * 100_000)
        assert client.step(session, "42").reward.value == 1
    code, text = server.end(signal.SIGINT)
    assert code == 130 and "secret" not in text


def test_what_cannot_be_served_is_refused(refusal, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o644)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "1 + 1?", "answer": "2"}\n{"question": "?"}\n')
    for words, code, told in (
        (("-e", "chess"), 2, "code,math,tool,debate,program"),
        (("-e", "math,math"), 2, "twice"),
        (("-e", "math", "--host", "0.0.0.0"), 2, "--token-file"),
        (("-e", "math", "--token-file", token), 2, "chmod 600"),
        (("-e", "math", "--data", rows), 2, "rows.jsonl:2: "),
        (("-e", "math,code", "--data", rows), 2, "--data math=FILE"),
        (("-e", "math", "environment.rounds=2"), 2, "environment.rounds is set"),
        (("-e", "math", "environment.server=localhost:1"), 2, "not read by muster serve-environments"),
        (("-e", "program"), 2, "environment.program"),
        (("-e", "math", "--message-limit", "1"), 2, "1KiB"),
    ):
        found, text = refusal(*words)
        assert found == code and told in text, text
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found, text = refusal("-e", "math", "-p", taken.getsockname()[1])
    assert found == 3 and "may be taken" in text, text


def test_a_build_without_grpc_says_what_to_install(refusal, tmp_path):
    alone = tmp_path / "muster"
    shutil.copy(PROGRAM, alone)
    found, text = refusal("-e", "math", program=alone)
    assert found == 3 and "libgrpc++-dev" in text, text
