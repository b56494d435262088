"""What trials are tried with, how they end, and what is kept of them."""

import json
import signal
import subprocess


def settings(observations: list[dict]) -> list[tuple]:
    return sorted(tuple(one["parameters"].values()) for one in observations)


def test_a_grid_covers_every_combination_once(sweeps):
    spec = sweeps.spec(method="grid", parameters={"x": [0, 1, 2], "y": ["a", "b"]}, limits=None)
    done = sweeps.run("sweep", spec, "--runs", 3)
    assert settings(sweeps.observations()) == [(x, y) for x in (0, 1, 2) for y in ("a", "b")]
    assert sorted(one["trial"] for one in sweeps.observations()) == [f"s.r.{n}" for n in range(6)]
    assert "nothing is left to try: 6 trials, 0 failed" in done.stdout and "best: s.r." in done.stdout
    assert len([line for line in done.stdout.splitlines() if "  best 0  " in line]) >= 1
    for picture in ("history.svg", "parallel.svg"):
        assert "<svg" in (sweeps.folder / "sweeps/s" / picture).read_text()


def test_a_score_can_be_in_result_json_or_in_a_line_of_output(sweeps):
    sweeps.run("sweep", sweeps.spec("a.yaml", parameters={"x": 3, "result": True}, limits={"trials": 1}))
    sweeps.run("sweep", sweeps.spec("b.yaml", command=["sh", "-c", "echo loss=4.5"], limits={"trials": 1}))
    assert sweeps.observations("a")[0]["score"] == 4 and sweeps.observations("b")[0]["score"] == 4.5
    sweeps.run("sweep", sweeps.spec("c.yaml", parameters={"x": 3, "pass": True}, limits={"trials": 1}), status=1)
    assert "gave no loss" in sweeps.observations("c")[0]["reason"]


def test_failures_are_recorded_and_so_many_in_a_row_end_the_sweep(sweeps):
    spec = sweeps.spec(parameters={"x": {"min": 0, "max": 1, "distribution": "uniform"}, "fail": True},
                       limits={"trials": 9, "consecutive_failures": 3})
    done = sweeps.run("sweep", spec, "--runs", 1, status=1)
    assert [one["failed"] for one in sweeps.observations()] == [True] * 3
    assert "exit status 7: I was told to fail" in sweeps.observations()[0]["reason"]
    assert "3 failures in a row" in done.stdout and "no trial succeeded" in done.stdout
    # Who starts it again has looked at them.
    sweeps.run("sweep", "run=s", "--runs", 1, status=1)
    assert len(sweeps.observations()) == 6


def test_a_trial_that_shows_no_sign_of_life_is_ended_and_recorded(sweeps):
    spec = sweeps.spec(parameters={"x": [0, 1], "stop": True}, method="grid", heartbeat="1s")
    sweeps.run("sweep", spec, "--runs", 2, status=1)
    assert [one["reason"] for one in sweeps.observations()] == ["no sign of life for 1 s"] * 2
    assert not any(sweeps.alive(note["pid"]) for note in sweeps.notes())


def test_a_trial_that_takes_too_long_is_ended_and_recorded(sweeps):
    spec = sweeps.spec(parameters={"x": [0, 1], "forever": True}, method="grid", limits={"trial_timeout": 1})
    sweeps.run("sweep", spec, "--runs", 2, status=1)
    assert [one["reason"] for one in sweeps.observations()] == ["it took longer than 1 s (limits.trial_timeout)"] * 2
    assert not any(sweeps.alive(note["pid"]) for note in sweeps.notes())


def test_reports_are_signs_of_life(sweeps):
    sweeps.run("sweep", sweeps.spec(parameters={"x": 1, "steps": 34}, heartbeat="4s", limits={"trials": 1}))
    assert sweeps.observations()[0]["score"] == 0


def test_bad_trials_are_stopped_early_and_told_as_such(sweeps):
    spec = sweeps.spec(method="grid", parameters={"x": [1, 5, 6, 7], "steps": 10}, limits=None,
                       early_stop={"min_steps": 2, "max_steps": 10, "eta": 2})
    done = sweeps.run("sweep", spec, "--device", "cpu")
    ended = {one["parameters"]["x"]: one for one in sweeps.observations()}
    assert ended[1]["score"] == 0 and "stopped_early" not in ended[1]
    assert all(ended[x]["stopped_early"] and ended[x]["score"] == (x - 1) ** 2 + 0.5 for x in (5, 6, 7))
    assert "stopped early" in done.stdout


def test_a_sweep_file_of_wandb_runs(sweeps):
    (sweeps.folder / "train.py").write_text("import sys, json\n"
                                            "x = float(dict(w[2:].split('=') for w in sys.argv[1:])['x'])\n"
                                            "print(json.dumps({'loss': (x - 1) ** 2}))\n")
    (sweeps.folder / "w.yaml").write_text(
        "program: train.py\nmethod: grid\nmetric: {name: loss, goal: minimize}\n"
        "parameters: {x: {values: [0, 1, 2]}}\ncommand: ['${env}', python3, '${program}', '${args}']\nrun_cap: 10\n")
    sweeps.run("sweep", "w.yaml", "--device", "cpu")
    assert sorted(one["score"] for one in sweeps.observations("w")) == [0, 1, 1]
    (sweeps.folder / "w2.yaml").write_text((sweeps.folder / "w.yaml").read_text() + "project: mine\n")
    assert "project" in sweeps.run("sweep", "w2.yaml", status=2).stderr


def test_the_best_settings_come_in_three_forms_that_run(sweeps):
    sweeps.run("sweep", sweeps.spec(method="grid", parameters={"x": [0.5, 3, 1.25], "a.b": "it's"}, limits=None))
    (best,) = json.loads(sweeps.run("sweep", "best", "s", "--json", "--patch", "best.yaml").stdout)
    assert best["score"] == 0.0625 and best["parameters"] == {"x": 1.25, "a.b": "it's"}
    # The command, in a shell.
    again = subprocess.run(best["command"], shell=True, capture_output=True, text=True, cwd=sweeps.folder,
                           env={**sweeps.environment, "MUSTER_TRIAL_FOLDER": str(sweeps.folder)})
    assert json.loads(again.stdout) == {"loss": 0.0625}
    assert (sweeps.folder / "best.yaml").read_text() == "x: 1.25\na:\n  b: \"it's\"\n" == best["patch"]
    assert best["overrides"] == ["x=1.25", "a.b=it's"]
    assert len(json.loads(sweeps.run("sweep", "best", "s", "--json", "--top", 9).stdout)) == 3
    assert "no sweep other" in sweeps.run("sweep", "best", "other", status=2).stderr


def test_the_best_settings_of_a_training_are_a_configuration_overrides_and_a_command(sweeps):
    """Of a sweep of muster's own training whose trials somebody else ran."""
    (sweeps.folder / "o.yaml").write_text("metric: eval_loss\ngoal: minimize\nmethod: random\nparameters:\n"
                                          "  training.learning_rate: [0.001, 0.01]\n  training.max_steps: 7\n")
    orders = "".join(f'{{"ask": true}}\n{{"tell": "o.r.{n}", "score": {n + 1}}}\n' for n in range(2))
    sweeps.run("sweep", "serve", "o.yaml", text=orders)
    (best,) = json.loads(sweeps.run("sweep", "best", "o", "--json", "--patch", "best.yaml").stdout)
    rate = best["parameters"]["training.learning_rate"]
    program, command, *words = best["command"].split()
    assert (program, command) == (str(sweeps.program), "train"), "as it was called"
    for given in (["--config", "best.yaml"], best["overrides"], words):
        config = sweeps.run("train", *given, "--print-config").stdout
        assert f"  learning_rate: {rate} " in config and "  max_steps: 7 " in config


def test_any_program_can_ask_and_tell(sweeps):
    spec = sweeps.spec(method="grid", parameters={"x": [1, 2]}, limits=None)
    served = sweeps.start("sweep", "serve", spec)

    def say(**order) -> dict:
        served.stdin.write(json.dumps(order) + "\n")
        served.stdin.flush()
        return json.loads(served.stdout.readline())

    assert say(ask=True)["parameters"] == {"x": 1}
    assert say(tell="s.r.0", score=0.5, cost_seconds=2) == {"told": "s.r.0"}
    assert say(ask=True)["trial"] == "s.r.1"
    # A second process does not get it, and cannot tell about it.
    other = sweeps.run("sweep", "serve", "s", text='{"ask": true}\n{"tell": "s.r.1", "score": 1}\n')
    first, second = map(json.loads, other.stdout.splitlines())
    assert first == {"end": "nothing is left to try"} and "no trial" in second["error"]
    sweeps.kill(served)
    assert sweeps.nothing_runs()
    # It was cut off: whoever asks next begins it again.
    again = sweeps.run("sweep", "serve", "s", text='{"ask": true}\n{"tell": "s.r.1", "score": 1}\n')
    assert [json.loads(line) for line in again.stdout.splitlines()] == [{"trial": "s.r.1", "parameters": {"x": 2}}, {"told": "s.r.1"}]
    assert [one["trial"] for one in sweeps.observations()] == ["s.r.0", "s.r.1"]


def test_words_change_the_sweep_or_every_trial(sweeps):
    sweeps.run("sweep", sweeps.spec(), "--name", "n", "method=grid", "x=1,3", "y=word", "limits.trials=1", "--device", "cpu")
    (one,) = sweeps.observations("n")
    assert one["parameters"] == {"x": 1, "y": "word"} and one["score"] == 0
    assert "is not key=value" in sweeps.run("sweep", "run=m", "=3", status=2).stderr


def test_a_setting_that_no_training_has_is_refused_before_anything_starts(sweeps):
    refused = sweeps.run("sweep", "run=s", "training.learning_rat=0.1", status=2)
    assert "learning_rate" in refused.stderr and not (sweeps.folder / "sweeps").exists()


def test_a_metric_that_no_training_measures_is_refused_before_anything_starts(sweeps):
    refused = sweeps.run("sweep", "run=s", "metric=eval_los", status=2)
    assert "eval_los" in refused.stderr and "did you mean eval_loss" in refused.stderr
    assert not (sweeps.folder / "sweeps").exists()


def test_an_empty_place_in_a_list_of_gpus_is_refused(sweeps):
    for given in ("gpu_list=", "gpu_list=0,,1"):
        assert "is not a list of GPUs" in sweeps.run("sweep", sweeps.spec(), given, status=2).stderr


def test_interrupting_twice_is_interrupting(sweeps):
    # The trial takes longer to end than the second signal does to come.
    command = ["sh", "-c", "trap 'touch asked; while [ ! -e go ]; do sleep 0.01; done; exit 0' TERM; touch begun; while :; do sleep 0.01; done"]
    sweep = sweeps.start("sweep", sweeps.spec(command=command), "--runs", 1)
    sweeps.until((sweeps.folder / "begun").exists)
    sweep.send_signal(signal.SIGINT)
    sweeps.until((sweeps.folder / "asked").exists)
    sweep.send_signal(signal.SIGINT)
    (sweeps.folder / "go").touch()
    out, _ = sweep.communicate()
    assert sweep.returncode == 130 and "muster sweep run=s resumes it" in out and "no trial succeeded" not in out


def test_an_interrupted_trial_leaves_nothing_false(sweeps):
    spec = sweeps.spec(parameters={"x": [1, 2], "forever": True}, method="grid", limits=None)
    sweep = sweeps.start("sweep", spec, "--runs", 2)
    notes = sweeps.until(lambda: len(sweeps.notes()) == 2 and sweeps.notes())
    sweep.send_signal(signal.SIGINT)
    out, _ = sweep.communicate()
    assert sweep.returncode == 130 and "muster sweep run=s resumes it" in out
    assert sweeps.observations() == [] and not any(sweeps.alive(note["pid"]) for note in notes)
    text = sweeps.run("sweep", "run=s", "--dry-run").stdout
    assert "x=1 forever=true" in text


def test_the_reason_of_a_failed_trial_is_the_cause_and_not_what_to_try(sweeps):
    script = "printf 'muster: 3 GPUs wanted, 2 visible\\n  try: --num-gpus 2\\n' >&2; exit 3"
    sweeps.run("sweep", sweeps.spec(limits={"trials": 1}, command=["sh", "-c", script]), "--device", "cpu", status=1)
    assert sweeps.observations()[0]["reason"] == "training: exit status 3: muster: 3 GPUs wanted, 2 visible"


def test_lines_to_paste_call_the_program_as_it_was_called(sweeps):
    (sweeps.folder / "muster").symlink_to(sweeps.program)
    sweeps.spec(limits={"trials": 1})
    line = "./muster sweep s.yaml --device cpu --output 'my sweeps'"
    done = subprocess.run(line, shell=True, cwd=sweeps.folder, env=sweeps.environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = next(text for text in done.stdout.splitlines() if "exports them" in text).split(" exports them")[0]
    assert shown == "./muster sweep best s --output 'my sweeps'"
    best = subprocess.run(shown, shell=True, cwd=sweeps.folder, env=sweeps.environment, capture_output=True, text=True, timeout=120)
    assert best.returncode == 0 and best.stdout.startswith("# s.r.0: "), best.stderr
