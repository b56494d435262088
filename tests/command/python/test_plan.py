"""muster.plan() is `muster plan`: the same fields, the same text, the same picture, the same refusals."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from machine import A100, python_output

import muster

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("MUSTER_TEST_PROGRAM", str(ROOT / "build/engine/apps/cli/muster"))
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "dtype": "bfloat16",
}
RUN = """
model: {path: llama-8b}
training: {sequence_length: 512, batch_size: 16, gradient_checkpointing: true}
"""


@pytest.fixture
def work(machine, tmp_path, monkeypatch):
    """Four GPUs of 40 GiB, a model of 8 billion parameters and a run that trains it."""
    machine.has_a100s(4, used=[0, 1000])
    (tmp_path / "llama-8b").mkdir()
    (tmp_path / "llama-8b/config.json").write_text(json.dumps(LLAMA_8B))
    (tmp_path / "run.yaml").write_text(RUN)
    (tmp_path / "one.json").write_text(json.dumps({"gpus": [{**A100, "memory_total": "24GiB", "memory_used": "0MiB"}]}))
    (tmp_path / "constants.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, "plan", *arguments], capture_output=True, text=True, timeout=120)


WHOLE = '{"model.embed_tokens": 0, "model.layers": 1, "model.norm": 1, "model.rotary_emb": 1, "lm_head": 1}'
QUESTIONS = [
    ("llama-8b", {}, ["llama-8b"]),
    (Path("llama-8b/config.json"), {"seq_len": 8192, "batch": 4}, ["llama-8b/config.json", "--seq-len", "8192", "--batch", "4"]),
    ("llama-8b", {"dtype": "int8", "num_gpus": 1}, ["llama-8b", "--dtype", "int8", "--num-gpus", "1"]),
    ("llama-8b", {"dtype": "torch.float32", "gpu_ids": [1, 3]}, ["llama-8b", "--dtype", "float32", "--gpu-ids", "1", "3"]),
    ("llama-8b", {"train": True}, ["llama-8b", "--train"]),
    ("llama-8b", {"train": False}, ["llama-8b", "--infer"]),
    (
        "llama-8b",
        {"train": True, "strategy": "ddp", "micro_batch": 2, "accumulation": 4},
        ["llama-8b", "--train", "--strategy", "ddp", "--micro-batch", "2", "--accumulation", "4"],
    ),
    (
        "llama-8b",
        {"train": True, "lora": 16, "checkpointing": True, "batch": 32, "seq_len": 2048},
        ["llama-8b", "--train", "--lora", "16", "--checkpointing", "--batch", "32", "--seq-len", "2048"],
    ),
    (
        "llama-8b",
        {"train": True, "strategy": "fsdp", "offload": True, "sharding": "shard_grad_op", "optimizer": "sgd", "nodes": 2},
        ["llama-8b", "--train", "--strategy", "fsdp", "--offload", "--sharding", "shard_grad_op", "--optimizer", "sgd", "--nodes", "2"],
    ),
    (
        "llama-8b",
        {"train": True, "mixed_precision": "no", "dtype": "bfloat16", "implementation": "muster"},
        ["llama-8b", "--train", "--mixed-precision", "no", "--dtype", "bfloat16", "--implementation", "muster"],
    ),
    ("llama-8b", {"device_map": "auto"}, ["llama-8b", "--device-map", "auto"]),
    ("llama-8b", {"device_map": "sequential", "planner": "compat"}, ["llama-8b", "--device-map", "sequential", "--planner", "compat"]),
    ("llama-8b", {"device_map": "balanced", "planner": "transformers"}, ["llama-8b", "--device-map", "balanced", "--planner", "transformers"]),
    ("llama-8b", {"device_map": json.loads(WHOLE)}, ["llama-8b", "--device-map", WHOLE]),
    ("llama-8b", {"device_map": 2}, ["llama-8b", "--device-map", "2"]),
    (
        "llama-8b",
        {"max_memory": {0: "10GB", 1: 8 << 30, "cpu": "30GiB"}, "device_map": "auto"},
        ["llama-8b", "--max-memory", f"0=10GB,1={8 << 30},cpu=30GiB", "--device-map", "auto"],
    ),
    ("llama-8b", {"max_memory": "0=6GB", "new_tokens": 16}, ["llama-8b", "--max-memory", "0=6GB", "--new-tokens", "16"]),
    ("llama-8b", {"attention": "eager", "seq_len": 4096}, ["llama-8b", "--attention", "eager", "--seq-len", "4096"]),
    ("llama-8b", {"allocator": "expandable", "constants": "constants.json"}, ["llama-8b", "--allocator", "expandable", "--constants", "constants.json"]),
    ("llama-8b", {"gpus_from": Path("one.json"), "train": True}, ["llama-8b", "--gpus-from", "one.json", "--train"]),
    ("llama-8b", {"gpu_ids": []}, ["llama-8b", "--device", "cpu"]),
    (None, {"params": "70B"}, ["--params", "70B"]),
    (None, {"params": 1_500_000_000, "train": True}, ["--params", "1500000000", "--train"]),
    ("run.yaml", {}, ["run.yaml"]),
    ("run.yaml", {"checkpointing": False}, ["run.yaml", "training.gradient_checkpointing=false"]),
]  # fmt: skip


@pytest.mark.parametrize("model, arguments, words", QUESTIONS, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_plan_is_that_of_the_command(work, model, arguments, words):
    answer = command(*words, "--json", "--plot", "command.svg")
    assert answer.returncode in (0, 3), answer.stderr
    plan = muster.plan(model, **arguments)
    assert plan.as_dict() == json.loads(answer.stdout)
    assert plan.fits == (answer.returncode == 0)
    plan.save_plot(work / "python.svg")
    assert (work / "python.svg").read_bytes() == (work / "command.svg").read_bytes()
    assert f"{plan}\n" == command(*words).stdout


def test_the_plans_that_are_compared_are_not_all_the_same(work):
    plans = [muster.plan(model, **arguments) for model, arguments, _ in QUESTIONS]
    assert {plan.fits for plan in plans} == {True, False}
    assert {plan.work for plan in plans} == {"training", "inference"}
    assert len({plan.strategy for plan in plans}) >= 5
    assert len({str(plan) for plan in plans}) >= 20


def test_fields_are_attributes(work):
    plan = muster.plan("llama-8b", train=True, batch=8, lora=8)
    assert plan.parameters == 8_030_261_248 and plan.work == "training"
    for name, value in plan.as_dict().items():
        assert getattr(plan, name) == value
        assert name in dir(plan) and name in muster.Plan.__annotations__
    with pytest.raises(AttributeError, match="a plan has no field 'fit'"):
        plan.fit  # noqa: B018
    assert repr(plan) == f"<muster.Plan: training of llama-8b, {plan.strategy}, fits>"


def test_a_changed_dict_leaves_the_plan_as_it_is(work):
    plan = muster.plan("llama-8b")
    plan.as_dict()["ranks"].clear()
    assert plan.ranks


def test_a_device_map_has_numbers_for_gpus(work):
    plan = muster.plan("llama-8b", max_memory={0: "10GiB", 1: "8GiB"})
    assert plan.strategy == "layer_split"
    assert set(plan.device_map.values()) == {0, 1}
    assert plan.device_map["model.embed_tokens"] == 0 and plan.device_map["lm_head"] == 1


def test_a_plan_that_fits_raises_nothing(work):
    assert muster.plan("llama-8b").raise_if_refused() is None


def test_a_refused_plan_raises_its_reason_and_every_remedy(work):
    plan = muster.plan("llama-8b", train=True, strategy="ddp")
    assert not plan.fits and plan.refusal["remedies"]
    with pytest.raises(muster.RefusedError) as refused:
        plan.raise_if_refused()
    message = str(refused.value)
    assert message.startswith(plan.refusal["reason"])
    for remedy in plan.refusal["remedies"]:
        assert remedy["change"] in message and remedy["command"] in message


def test_the_command_of_a_remedy_fits(work):
    plan = muster.plan("llama-8b", train=True, num_gpus=1, strategy="ddp", gpus_from="one.json", max_memory={0: "20 GiB"})
    assert plan.refusal["remedies"]
    for remedy in plan.refusal["remedies"]:
        assert remedy["command"].startswith("muster plan llama-8b --train ")
        assert " --gpus-from one.json --num-gpus 1 " in remedy["command"]
        assert command(*shlex.split(remedy["command"])[2:]).returncode == 0, remedy


@pytest.mark.parametrize(
    "arguments, error, told",
    [
        ({}, ValueError, "no model is named"),
        ({"model": "llama-8b", "params": "8B"}, ValueError, "--params is given, and the model llama-8b"),
        ({"model": "there-is-none"}, ValueError, "there-is-none"),
        ({"params": "many"}, ValueError, "'many' is not a number of parameters"),
        ({"params": "8B", "dtype": "float7"}, ValueError, "float7"),
        ({"params": "8B", "planner": "best"}, ValueError, '--planner is "best"'),
        ({"params": "8B", "strategy": "zero"}, ValueError, "zero"),
        ({"params": "8B", "micro_batch": 2}, ValueError, "--micro-batch has no meaning in inference"),
        ({"params": "8B", "max_memory": {0: "much"}}, ValueError, "much"),
        ({"params": "8B", "max_memory": {9: "1GB"}}, ValueError, "max_memory names GPU 9"),
        ({"params": "8B", "max_memory": {}}, ValueError, "max_memory={} names no device"),
        ({"params": "8B", "max_memory": 10}, TypeError, "max_memory=10 is not a dict"),
        ({"params": "8B", "batch": 1.5}, TypeError, "batch=1.5 is not a whole number"),
        ({"params": "8B", "seq_len": 0}, ValueError, "sequence_length"),
        ({"params": "8B", "train": "yes"}, TypeError, "train='yes' is neither True nor False"),
        ({"params": "8B", "checkpointing": 1}, TypeError, "checkpointing=1 is neither True nor False"),
        ({"params": "8B", "strategy": 3}, TypeError, "strategy=3 is not text"),
        ({"params": "8B", "gpu_ids": [9]}, ValueError, "9"),
        ({"params": "8B", "num_gpus": 0}, ValueError, "num_gpus=0"),
        ({"params": "8B", "num_gpus": 9}, muster.RefusedError, "9"),
        ({"params": "8B", "gpus_from": "none.yaml"}, (ValueError, RuntimeError), "none.yaml"),
        ({"params": "8B", "constants": "none.json"}, (ValueError, RuntimeError), "none.json"),
    ],
)
def test_what_cannot_be_planned_says_why(work, arguments, error, told):
    with pytest.raises(error, match=told):
        muster.plan(**arguments)


def test_a_picture_that_cannot_be_written_says_where(work):
    with pytest.raises((ValueError, RuntimeError), match="no-folder"):
        muster.plan("llama-8b").save_plot(work / "no-folder" / "plan.svg")


def test_planning_imports_neither_torch_nor_transformers_nor_accelerate(work):
    output = python_output(
        "import sys, muster\n"
        "str(muster.plan('llama-8b')), muster.infer_auto_device_map('llama-8b', {0: '1GB'}), muster.estimate_memory('llama-8b')\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'transformers', 'accelerate', 'numpy'}))"
    )
    assert output == "[]\n"


def test_a_model_gets_the_fewest_gpus_that_its_plan_fits(work):
    assert muster.auto_select_gpus_for_model("llama-8b") == [0]
    assert muster.auto_select_gpus_for_model(work / "llama-8b", safety_margin=3) == [0, 2]
    assert muster.auto_select_gpus_for_model(muster.plan(params="70B", dtype="int8")) == [0, 2]
    plan = muster.plan(params="70B")
    chosen = muster.auto_select_gpus_for_model(plan)
    assert len(chosen) == 4
    assert muster.plan(params="70B", gpu_ids=chosen).fits and not muster.plan(params="70B", gpu_ids=chosen[1:]).fits


def test_a_model_gets_no_gpu_that_others_hold(work):
    with muster.lease_gpus(gpu_ids=[0]):
        assert muster.auto_select_gpus_for_model("llama-8b") == [2]


def test_a_model_that_no_set_of_gpus_holds_is_refused(work):
    with pytest.raises(muster.RefusedError, match="GiB short"):
        muster.auto_select_gpus_for_model(muster.plan(params="200B"))
    with pytest.raises(muster.RefusedError, match=r"llama-8b does not fit the 4 GPUs that are free, its memory times 30"):
        muster.auto_select_gpus_for_model("llama-8b", safety_margin=30)


def test_gpus_are_not_chosen_by_a_plan_of_training_or_of_another_machine_or_a_margin_below_one(work):
    with pytest.raises(ValueError, match="the plan is for the GPUs of one.json"):
        muster.auto_select_gpus_for_model(muster.plan("llama-8b", gpus_from="one.json"))
    with pytest.raises(ValueError, match="the plan is of training"):
        muster.auto_select_gpus_for_model(muster.plan("llama-8b", train=True))
    with pytest.raises(ValueError, match="safety_margin=0.5"):
        muster.auto_select_gpus_for_model("llama-8b", safety_margin=0.5)
