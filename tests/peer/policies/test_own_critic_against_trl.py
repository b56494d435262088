"""A policy and a critic of its own after two updates, against TRL's PPOTrainer over the same answers.

TRL gives an answer's reward to the place after its end; answers here have all the tokens that they may have, so that there is none,
and both give it to the last one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import train_runs
import trl_policies
from test_own_critic_against_verl import critics  # noqa: F401
from test_policies_against_trl import judge, rows  # noqa: F401
from test_ppo_against_verl import RATE, train

SETTINGS = dict(gamma=0.97, lam=0.9, cliprange=0.02, cliprange_value=0.05, vf_coef=0.4, num_ppo_epochs=2)


@pytest.mark.limit(300)
def test_two_updates_give_both_models_the_weights_of_trls_trainer(classroom, critics, rows, judge, tmp_path):  # noqa: F811
    policy, critic = classroom.model("llama"), critics["llama"]
    run = train(classroom, policy, rows, 2, **{"reward.program": judge, "ppo.critic": critic, "ppo.num_generations": 4, "ppo.entropy_coef": 0} |
                {f"ppo.{key}": value for key, value in SETTINGS.items()})
    answers = trl_policies.answers_of(run)
    assert {len(answer["tokens"]) for answer in answers} == {9} and not any(answer["ended"] for answer in answers)
    tokenizer = trl_policies.tokenizer_of(policy)
    asked = {"policy": str(policy), "critic": str(critic), "answers": answers, "output": str(tmp_path),
             "prompts": [tokenizer(answer["question"])["input_ids"] for answer in answers],
             "settings": SETTINGS | {"temperature": 0.9, "learning_rate": RATE}}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    done = subprocess.run([sys.executable, str(Path(__file__).with_name("trl_ppo.py")), str(tmp_path / "asked.json")], env=classroom.environment,
                          capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    for ours, theirs in ((run.tensors(), "policy"), (train_runs.read_tensors(run.folder / "critic"), "critic")):
        trained, before = safetensors.torch.load_file(tmp_path / f"{theirs}.safetensors"), train_runs.read_tensors(
            policy if theirs == "policy" else critic)
        assert ours.keys() == before.keys()
        compared = [name for name in ours if name in trained]
        assert len(compared) > 10
        for name in compared:
            assert (ours[name] - trained[name]).abs().max() <= 1e-5, (theirs, name)
        assert max((trained[name] - before[name]).abs().max() for name in compared) > 1e-4
    logged = json.loads((tmp_path / "logged.json").read_text())
    for column in ("objective/scores", "loss/policy_avg", "loss/value_avg", "policy/clipfrac_avg", "val/clipfrac_avg", "policy/approxkl_avg"):
        ours = [float(number) for number in run.column(column)]
        assert sum(ours) / 2 == pytest.approx(logged[column], abs=2e-5), column
