"""The files in examples/ are what a stranger types first: each leads to a plan."""

import json
import pathlib
import shutil

import pytest
from bare_models import LLAMA3_8B

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
B200 = 'gpus:\n  - {count: 8, name: NVIDIA B200, memory_total: 183359MiB, memory_used: 0, compute_capability: "10.0"}\n'
SMOLLM2 = dict(
    model_type="llama", hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
    vocab_size=49152, tie_word_embeddings=True, rope_theta=100000.0, rms_norm_eps=1e-5, max_position_embeddings=8192,
)  # fmt: skip
QWEN2_7B = dict(
    model_type="qwen2", hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
    vocab_size=152064, tie_word_embeddings=False, rope_theta=1000000.0, rms_norm_eps=1e-6, max_position_embeddings=32768,
)  # fmt: skip
QWEN2_1_5B = QWEN2_7B | dict(hidden_size=1536, intermediate_size=8960, num_attention_heads=12, num_key_value_heads=2,
                          tie_word_embeddings=True, vocab_size=151936)  # fmt: skip
LLAMA3_70B = LLAMA3_8B | dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64)
RTX_4090 = 'gpus:\n  - {{count: {}, name: NVIDIA GeForce RTX 4090, memory_total: 24564MiB, memory_used: 0, compute_capability: "8.9"}}\n'
H100 = 'gpus:\n  - {count: 4, name: NVIDIA H100, memory_total: 81559MiB, memory_used: 0, compute_capability: "9.0"}\n'


def plan_of(muster, *words: str) -> dict:
    shutil.copytree(EXAMPLES, muster.folder / "examples", dirs_exist_ok=True)
    result = muster("train", *words, "--dry-run", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_builtin_job_written_out_is_the_one_without_settings(muster, tmp_path):
    muster.environment["MUSTER_CACHE"] = str(tmp_path / "cache")
    plan = plan_of(muster, "--config", "examples/arithmetic.yaml", "--device", "cpu")
    same = plan_of(muster, "--device", "cpu")
    for answer in (plan, same):
        answer["disk"].pop("free_bytes")  # other programs write and allocate meanwhile
        for rank in answer["ranks"]:
            rank.pop("limit_bytes")
    assert plan["fits"] and plan == same
    assert plan["parameters"] == 636160 and len(plan["ranks"]) == 2


def test_preferences_over_the_builtin_sums_are_pairs(muster, tmp_path):
    muster.environment["MUSTER_CACHE"] = str(tmp_path / "cache")
    plan = plan_of(muster, "--config", "examples/dpo_arithmetic.yaml", "--device", "cpu")
    assert plan["fits"] and plan["unit"] == "pair" and plan["effective_batch"] == 64
    assert any("pairs × " in reason for reason in plan["reasons"])


def test_smollm2_learns_from_conversations(muster, bare_model):
    model = bare_model(SMOLLM2)
    plan = plan_of(muster, "--config", "examples/smollm2_chat.yaml", f"model.path={model}", "model.init=random", "--device", "cpu")
    assert plan["fits"] and plan["parameters"] == 134515008


def test_a_debate_is_an_episode_of_several_turns(muster, bare_model):
    model = bare_model(SMOLLM2)
    plan = plan_of(muster, "--config", "examples/grpo_debate.yaml", f"model.path={model}", "model.init=random", "--device", "cpu")
    assert plan["fits"] and any("rounds of 4 prompts × 8 answers" in reason for reason in plan["reasons"])


def test_7b_on_eight_gpus(muster, bare_model):
    model = bare_model(QWEN2_7B)
    muster.inventory(B200)
    plan = plan_of(muster, "--config", "examples/qwen2_7b_on_8_gpus.yaml", f"model.path={model}", "model.init=random")
    assert plan["fits"] and plan["strategy"] == "ddp" and len(plan["ranks"]) == 8


def test_8b_sharded_over_four_gpus_is_what_auto_takes(muster, bare_model):
    model = bare_model(LLAMA3_8B)
    muster.inventory(H100)
    words = ("--config", "examples/llama3_8b_sharded.yaml", f"model.path={model}", "model.init=random")
    plan, chosen = plan_of(muster, *words), plan_of(muster, *words, "--strategy", "auto")
    assert plan["fits"] and (plan["strategy"], plan["sharding"], plan["offload"]) == ("fsdp", "full_shard", False)
    reasons = [answer.pop("reasons") for answer in (plan, chosen)]
    assert plan == chosen and "as asked" in reasons[0][0] and "a shard of it does" in reasons[1][0]


@pytest.mark.parametrize("example, shape, gpus, linear", [
    ("qlora_8b.yaml", LLAMA3_8B, 1, 6_979_321_856),
    ("qlora_70b_2_gpus.yaml", LLAMA3_70B, 2, 68_451_041_280),
    ("qlora_70b_4_gpus.yaml", LLAMA3_70B, 4, 68_451_041_280),
])  # fmt: skip
def test_adapters_over_weights_in_four_bits_fit_cards_of_24_gigabytes(muster, bare_model, example, shape, gpus, linear):
    model = bare_model(shape)
    muster.inventory(RTX_4090.format(gpus))
    plan = plan_of(muster, "--config", f"examples/{example}", f"model.path={model}", "model.init=random")
    assert plan["fits"] and len(plan["ranks"]) == gpus and plan["strategy"] == ("fsdp" if gpus > 1 else "single")
    held = linear * 9 / 16 + 2 * (plan["parameters"] - linear)  # half a byte and a scale for 64; two bytes outside of blocks
    for rank in plan["ranks"]:
        parts = rank["components"]
        assert rank["total_bytes"] <= rank["limit_bytes"]
        if plan.get("offload"):
            assert parts["weights"] == parts["quantization"] == 0 < parts["gathered"]
        else:
            assert parts["weights"] + parts["quantization"] == pytest.approx(held / gpus, rel=0.001) and parts["adapters"] > 0
        assert parts["master_weights"] == parts["gradients"] == parts["optimizer"] == 0


def test_word_problems_on_eight_gpus_have_rounds_and_phases(muster, bare_model):
    model = bare_model(QWEN2_1_5B)
    muster.inventory(H100.replace("count: 4", "count: 8"))
    shutil.copytree(EXAMPLES, muster.folder / "examples", dirs_exist_ok=True)
    rows = [{"question": f"Ann has {i} apples and buys 3. How many?", "answer": f"{i} + 3 = {i + 3}\n#### {i + 3}"} for i in range(1, 201)]
    (muster.folder / "gsm8k").mkdir()
    for name in ("train", "test"):
        (muster.folder / f"gsm8k/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--config", "examples/grpo_gsm8k_8_gpus.yaml", f"model.path={model}", "model.init=random")
    plan = plan_of(muster, *words)
    assert plan["fits"] and len(plan["ranks"]) == 8 and plan["effective_batch"] == 512
    rounds = plan["rounds"]
    assert (rounds["prompts"], rounds["group"], rounds["updates"], rounds["rounds"], rounds["side_by_side"]) == (64, 8, 1, 4, 64)
    assert 0 < rounds["seconds"]["sampling"] < 60 and 0 < rounds["seconds"]["training"] < 60
    phases = {phase["name"]: phase["total_bytes"] for phase in plan["phases"]}
    assert list(phases) == ["sampling", "training"] and phases["training"] == plan["ranks"][0]["total_bytes"]
    states = sum(plan["ranks"][0]["components"][part] for part in ("weights", "master_weights", "gradients", "optimizer"))
    assert states < phases["sampling"] < phases["training"]

    held = plan_of(muster, *words, "grpo.beta=0.04")
    assert [phase["name"] for phase in held["phases"]] == ["sampling", "scoring", "training"]

    crowded = muster("train", *words, "training.num_rollouts_per_iteration=64000", "generation.batch_size=4000", "--dry-run")
    assert crowded.returncode == 3, crowded.stderr
    assert "sampling 4000 answers side by side takes" in crowded.stdout + crowded.stderr
    assert "generation.batch_size=512" in crowded.stdout + crowded.stderr
