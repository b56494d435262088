"""What a trainer takes as the loss of a token is what a sampler takes as its log-probability, bit for bit."""

import json
import subprocess

import model_cases
import numpy
import pytest
import train_runs


@pytest.fixture(scope="module")
def answers(classroom):
    """Tokens of several texts for each family, as a sampler drew them, with their log-probabilities."""
    found = {}
    for family in train_runs.FAMILIES:
        case = train_runs.CASES[family]
        requests = [{"prompt": ids, "branches": [{"index": index, "most_tokens": 20}]}
                    for index, ids in enumerate(model_cases.sequences_of(case))]
        found[family] = (requests, ask(classroom.model(family), {"requests": requests, "rules": {"temperature": 1}}))
    return found


def ask(model, *requests, dtype="float32", threads=2):
    command = [model_cases.PROGRAMS / "generate_driver", model, dtype, str(threads)]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("family", train_runs.FAMILIES)
def test_losses_of_drawn_tokens_are_the_log_probabilities_that_their_sampler_gave(classroom, answers, family):
    requests, (drawn,) = answers[family]
    lessons, expected = [], []
    for index, _, tokens, log_probabilities, _ in drawn["answers"]:
        prompt = requests[index]["prompt"]
        lessons.append({"tokens": prompt + tokens, "context": len(prompt)})
        expected.append(log_probabilities)
    for threads in (1, 2):
        (found,) = ask(classroom.model(family), {"lessons": lessons}, threads=threads)
        ours = [numpy.float32(loss) for each in found["losses"] for loss in each]
        theirs = [-numpy.float32(value) for each in expected for value in each]
        assert len(ours) == 80 and min(ours) > 1e-5  # exact multiples of 2^-44 from there on
        assert [value.tobytes() for value in ours] == [value.tobytes() for value in theirs]
        # Sums of a step are the sums of these, with and without a backward pass.
        total = sum(loss for each in found["losses"] for loss in each)
        assert found["learnt"] == found["measured"] == total


def test_the_loss_of_a_step_is_the_sum_of_scores(classroom):
    """muster train's metrics against muster generate --score on the same texts."""
    model = classroom.model("qwen2")
    rows = train_runs.pairs(8)
    run = classroom.train(model, classroom.data(rows), ranks=2, max_steps=1, batch_size=8)
    prompts = classroom.folder / "scored.jsonl"
    # A completion is trained with the token that ends it.
    prompts.write_text("".join(json.dumps(row | {"completion": row["completion"] + "<|end|>"}) + "\n" for row in rows))
    out = classroom.folder / "scores.jsonl"
    subprocess.run([train_runs.PROGRAM, "generate", "-m", model, "-p", prompts, "-o", out, "--score", "--logprobs",
                    "--device", "cpu"], check=True, capture_output=True, env=classroom.environment)
    scores = [value for line in out.read_text().splitlines() for value in json.loads(line)["logprobs"]]
    assert len(scores) == run.events("step")[0]["trained"]
    assert abs(-sum(scores) / len(scores) - run.losses()[0]) <= 1e-9
