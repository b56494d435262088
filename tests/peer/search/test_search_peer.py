"""A sweep's search beside Optuna's TPE and random search, and its session as another program drives it.

The whole comparison (20 seeds, 50 trials) is bench/sweep/optimizer_peer.py.
"""

import json
import subprocess
import xml.etree.ElementTree

import pytest
from search_problems import BUDGET_PROBLEM, PROBLEMS, PROGRAMS, Sweep, median_regrets, spec_of

BRANIN = PROBLEMS[0]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_regret_is_half_of_chance_and_no_worse_than_tpe(problem):
    regrets = median_regrets(problem, seeds=7, trials=40)
    assert regrets["bayes"] <= regrets["random"] / 2, regrets
    assert regrets["bayes"] <= regrets["tpe"], regrets


def test_within_equal_seconds_cheap_trials_lead_further():
    regrets = median_regrets(BUDGET_PROBLEM, seeds=20, trials=200, budget=400.0)
    assert regrets["bayes"] <= regrets["random"] / 2, regrets
    assert regrets["bayes"] <= regrets["tpe"], regrets


def trials_of(spec, score, count, observations=None):
    """The trials of a sweep as lines of observations.jsonl."""
    lines = []
    with Sweep(spec, observations) as sweep:
        for _ in range(count):
            trial = sweep.ask(ask=True)
            lines.append({"trial": trial["trial"], "parameters": trial["parameters"], "score": score(trial["parameters"]), "cost_seconds": 1.0,
                          "failed": False})
            assert sweep.ask(tell=trial["trial"], score=lines[-1]["score"], cost_seconds=1.0) == {"told": trial["trial"]}
    return lines


def test_to_minimize_is_to_maximize_the_negative():
    least = trials_of(spec_of(BRANIN, "bayes", 3, 20), BRANIN.loss, 20)
    most = trials_of({**spec_of(BRANIN, "bayes", 3, 20), "goal": "maximize"}, lambda p: -BRANIN.loss(p), 20)
    assert [one["parameters"] for one in least] == [one["parameters"] for one in most]


def test_a_sweep_that_reads_its_observations_goes_on_as_if_uninterrupted():
    spec = spec_of(BRANIN, "bayes", 4, 20)
    whole = trials_of(spec, BRANIN.loss, 16)
    torn = "".join(json.dumps(one) + "\n" for one in whole[:9]) + json.dumps(whole[9])[:-7]
    rest = trials_of(spec, BRANIN.loss, 7, torn)
    assert [one["parameters"] for one in rest] == [one["parameters"] for one in whole[9:]]
    assert rest[0]["trial"] == "sweep.r.9"


def plots(tmp_path, parameters, observations, goal="minimize"):
    spec = tmp_path / "sweep.yaml"
    spec.write_text(json.dumps({"metric": "loss <&>", "goal": goal, "method": "random", "parameters": parameters}))
    file = tmp_path / "observations.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in observations))
    done = subprocess.run([str(PROGRAMS / "sweep_driver"), str(spec), str(file), "--plots"], capture_output=True, text=True, check=True)
    return {name: xml.etree.ElementTree.fromstring(text) for name, text in json.loads(done.stdout).items()}


def shapes(picture, tag):
    return picture.findall(f".//{{http://www.w3.org/2000/svg}}{tag}")


def observation(number, rate, kind, score):
    return {"trial": f"s.r.{number}", "parameters": {"training.learning_rate": rate, "kind": kind, "fixed": 1}, "score": score, "cost_seconds": 1,
            "failed": score is None}


PARAMETERS = {"training.learning_rate": {"distribution": "log_uniform", "min": 1e-4, "max": 1}, "kind": {"values": ["a<b", "c"]}, "fixed": 1}


def test_history_has_a_dot_for_each_score_a_cross_for_each_failure_and_the_best_so_far(tmp_path):
    scores = [3.0, 2.0, None, 2.5, 1.0]
    picture = plots(tmp_path, PARAMETERS, [observation(n, 0.01, "c", score) for n, score in enumerate(scores)])["history"]
    assert len([c for c in shapes(picture, "circle") if c.get("class") == "trial"]) == 4
    assert len([p for p in shapes(picture, "path") if p.get("class") == "failed"]) == 1
    best = [p for p in shapes(picture, "path") if p.get("class") == "best"][0].get("d")
    assert best.count("V") == 2  # two improvements after the first score


def test_parallel_coordinates_have_an_axis_for_all_that_varies_and_a_line_for_each_score(tmp_path):
    picture = plots(tmp_path, PARAMETERS, [observation(0, 1e-4, "a<b", 3.0), observation(1, 1.0, "c", 1.0), observation(2, 0.01, "c", None)])["parallel"]
    words = [text.text for text in shapes(picture, "text")]
    assert {"training.learning_rate", "kind", "loss <&>", "a<b", "c"} <= set(words)
    assert "fixed" not in words
    lines = {line[0].text.split(":")[0]: line for line in shapes(picture, "polyline")}
    assert set(lines) == {"s.r.0", "s.r.1"}
    heights = {trial: [float(point.split(",")[1]) for point in line.get("points").split()] for trial, line in lines.items()}
    assert heights["s.r.0"][0] == 330.0 and heights["s.r.1"][0] == 70.0  # the ends of the rate's axis
    assert heights["s.r.0"][2] < heights["s.r.1"][2]  # the higher loss is higher up
    assert float(lines["s.r.1"].get("stroke-opacity")) > float(lines["s.r.0"].get("stroke-opacity"))


def test_pictures_of_nothing_say_so(tmp_path):
    for picture in plots(tmp_path, PARAMETERS, []).values():
        assert "no trial has a score" in [text.text for text in shapes(picture, "text")]
