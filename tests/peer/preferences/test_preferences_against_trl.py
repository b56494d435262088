"""Weights, losses and metrics of training by preferences, against TRL's trainers."""

import model_cases
import numpy
import preference_rows
import pytest
import torch
import trl_preferences

RATE = 0.1
SGD = dict(optimizer="sgd", learning_rate=RATE, weight_decay=0, lr_scheduler="constant", max_grad_norm=1e9)
OF_PAIRS = ["rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected"]
OF_ODDS = [*OF_PAIRS, "nll_loss", "log_odds_ratio", "log_odds_chosen"]


@pytest.fixture(scope="module")
def rows():
    return preference_rows.preferences(6)


def assert_alike(classroom, rows, run, oracle, logged, columns, rate=RATE, bound=1e-5):
    model = classroom.model("llama")
    ours, before = run.tensors(), model_cases.load(model, torch.float32).state_dict()
    moved = 0
    for name, theirs in oracle.state_dict().items():
        if name in ours:
            assert (ours[name] - theirs).abs().max() <= bound, name
            moved = max(moved, (theirs - before[name]).abs().max())
    assert moved > 100 * bound  # a comparison of weights that stay would prove nothing
    numpy.testing.assert_allclose(run.losses(), [line["loss"] for line in logged], atol=1e-5, rtol=2e-6)
    for column in columns:
        theirs = [line[column] for line in logged]
        numpy.testing.assert_allclose([float(number) for number in run.column(column)], theirs, atol=1e-5, rtol=1e-6, err_msg=column)


def train(classroom, rows, algorithm, steps, ranks=2, **settings):
    return classroom.train(classroom.model("llama"), classroom.data(rows), ranks, algorithm=algorithm, max_steps=steps,
                           batch_size=len(rows), micro_batch_size=2 if ranks == 1 else 1, **SGD | settings)


DPO = {
    "sigmoid": dict(loss_type=["sigmoid"]),
    "another beta": dict(loss_type=["sigmoid"], beta=0.7),
    "hinge": dict(loss_type=["hinge"]),
    "ipo": dict(loss_type=["ipo"], beta=0.5),
    "exo_pair": dict(loss_type=["exo_pair"], label_smoothing=0.05),
    "nca_pair": dict(loss_type=["nca_pair"]),
    "robust": dict(loss_type=["robust"], label_smoothing=0.2),
    "bco_pair": dict(loss_type=["bco_pair"]),
    "sppo_hard": dict(loss_type=["sppo_hard"], beta=2.0),
    "apo_zero": dict(loss_type=["apo_zero"]),
    "apo_down": dict(loss_type=["apo_down"], beta=0.5),
    "sigmoid_norm": dict(loss_type=["sigmoid_norm"], beta=2.0),
    "likelihood": dict(loss_type=["sft"]),
    "several": dict(loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.5]),
}


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("name", DPO)
def test_dpo_gives_the_weights_of_trl(classroom, rows, tmp_path, name, steps):
    trl = pytest.importorskip("trl")
    options = DPO[name]
    # What its unbounded errors of many tokens' sums would throw far off.
    rate = 1e-3 if name == "sppo_hard" else RATE
    oracle, logged = trl_preferences.train(trl.DPOTrainer, trl.DPOConfig, classroom.model("llama"), rows, tmp_path, steps, rate,
                                           reference=True, max_length=None, **options)
    words = {f"dpo.{key}": ",".join(map(str, value)) if isinstance(value, list) else value for key, value in options.items()}
    run = train(classroom, rows, "dpo", steps, **words | dict(learning_rate=rate))
    assert_alike(classroom, rows, run, oracle, logged, OF_PAIRS)


@pytest.mark.parametrize("smoothing", [0, 0.2])
def test_dpo_without_a_reference_gives_the_weights_of_cpo_without_its_likelihood(classroom, rows, tmp_path, smoothing):
    """Smoothed as well: TRL's DPO leaves label_smoothing out where the loss is sigmoid."""
    cpo = pytest.importorskip("trl.experimental.cpo")
    oracle, logged = trl_preferences.train(cpo.CPOTrainer, cpo.CPOConfig, classroom.model("llama"), rows, tmp_path, 2, RATE,
                                           loss_type="sigmoid", cpo_alpha=0.0, label_smoothing=smoothing)
    run = train(classroom, rows, "dpo", 2, **{"dpo.reference_free": "true", "dpo.label_smoothing": smoothing})
    assert_alike(classroom, rows, run, oracle, logged, OF_PAIRS)


@pytest.mark.parametrize("steps", [1, 2])
def test_simpo_gives_the_weights_of_trl(classroom, rows, tmp_path, steps):
    cpo = pytest.importorskip("trl.experimental.cpo")
    options = dict(beta=2.0, simpo_gamma=0.7)
    oracle, logged = trl_preferences.train(cpo.CPOTrainer, cpo.CPOConfig, classroom.model("llama"), rows, tmp_path, steps, RATE,
                                           loss_type="simpo", cpo_alpha=0.0, **options)
    run = train(classroom, rows, "simpo", steps, **{"simpo.beta": 2.0, "simpo.gamma": 0.7})
    assert_alike(classroom, rows, run, oracle, logged, OF_PAIRS)


@pytest.mark.parametrize("steps", [1, 2])
def test_orpo_gives_the_weights_of_trl(classroom, rows, tmp_path, steps):
    orpo = pytest.importorskip("trl.experimental.orpo")
    oracle, logged = trl_preferences.train(orpo.ORPOTrainer, orpo.ORPOConfig, classroom.model("llama"), rows, tmp_path, steps, RATE,
                                           beta=0.3)
    run = train(classroom, rows, "orpo", steps, **{"orpo.beta": 0.3})
    assert_alike(classroom, rows, run, oracle, logged, OF_ODDS)


@pytest.mark.parametrize("weights", [(1, 1), (1.3, 0.4)])
@pytest.mark.parametrize("steps", [1, 2])
def test_kto_gives_the_weights_of_trl(classroom, rows, tmp_path, steps, weights):
    trl = pytest.importorskip("trl")
    judged = [{"prompt": row["prompt"], "completion": row["chosen" if i % 3 else "rejected"], "label": i % 3 != 0}
              for i, row in enumerate(rows)]
    options = dict(beta=0.4, desirable_weight=weights[0], undesirable_weight=weights[1])
    oracle, logged = trl_preferences.train(trl.KTOTrainer, trl.KTOConfig, classroom.model("llama"), judged, tmp_path, steps, RATE,
                                           reference=True, max_length=None, **options)
    run = train(classroom, judged, "kto", steps, **{f"kto.{name}": value for name, value in options.items()})
    assert_alike(classroom, rows, run, oracle, logged, [column for column in OF_PAIRS if "accuracies" not in column] + ["kl"])
    if steps == 2:
        assert float(run.column("kl")[1]) > 0


def test_the_first_loss_is_ln_2_to_the_bit_while_policy_and_reference_are_the_same(classroom, rows):
    for words in ({}, {"mixed_precision": "bf16"}, {"model.use_lora": "true", "model.lora_r": 2}):
        run = train(classroom, rows, "dpo", 2, ranks=1, **words)
        assert float(run.column()[0]) == float(numpy.float32(numpy.log(2)))
        assert float(run.column("rewards/chosen")[0]) == float(run.column("rewards/rejected")[0]) == 0
        assert float(run.column()[1]) < float(run.column()[0])
