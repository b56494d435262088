"""`muster train --dry-run`: which strategy is taken, what it needs, and that what a refusal says is true."""

import json
import pathlib
import shlex

import pytest
from bare_models import LLAMA3_8B

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
PARAMETERS = 8_030_261_248
STATES = ("weights", "master_weights", "gradients", "optimizer")


def inventory(count: int, gibibytes: int) -> str:
    return f'gpus:\n  - {{count: {count}, memory_total: {gibibytes}GiB, memory_used: 0, compute_capability: "9.0"}}\n'


@pytest.fixture
def train(muster, bare_model):
    """Plans training of an 8B model: train(count, gibibytes, words…) gives exit code and plan."""
    model = bare_model(LLAMA3_8B)
    data = f"data.path={EXAMPLES / 'conversations.jsonl'}"
    base = ["-m", str(model), "model.init=random", data, "training.max_steps=1", "training.batch_size=8"]

    def ask(count: int, gibibytes: int, *words: str, json_wanted: bool = True, **variables: str):
        muster.inventory(inventory(count, gibibytes))
        answer = muster("train", *base, *words, "--dry-run", *(["--json"] if json_wanted else []), **variables)
        if not json_wanted:
            return answer
        assert answer.returncode in (0, 3), answer.stderr
        plan = json.loads(answer.stdout)
        assert plan["fits"] == (answer.returncode == 0)
        return plan

    return ask


def states(rank: dict) -> int:
    return sum(rank["components"][name] for name in STATES)


def test_replicas_where_they_fit_and_shards_elsewhere(train):
    roomy, tight = train(4, 180), train(4, 80)
    assert (roomy["strategy"], roomy["sharding"], tight["strategy"], tight["sharding"]) == ("ddp", None, "fsdp", "full_shard")
    assert {states(rank) for rank in roomy["ranks"]} == {18 * PARAMETERS}
    assert {states(rank) for rank in tight["ranks"]} == {18 * PARAMETERS // 4}
    assert roomy["ranks"][0]["components"]["buckets"] == 0
    assert tight["ranks"][0]["components"]["gathered"] > 0


def test_exact_sums_of_gradients_take_eight_bytes(train):
    plan = train(4, 180, "--strategy", "fsdp", "training.deterministic=true")
    assert {states(rank) for rank in plan["ranks"]} == {22 * PARAMETERS // 4}


def test_float32_is_gathered_from_the_masters(train):
    plan = train(4, 180, "--strategy", "fsdp", "--dtype", "float32")
    assert plan["ranks"][0]["components"]["weights"] == 0
    assert {states(rank) for rank in plan["ranks"]} == {16 * PARAMETERS // 4}


def test_a_group_of_a_hybrid_holds_one_copy(train):
    words = ("--strategy", "fsdp", "distributed.fsdp_sharding_strategy=hybrid_shard")
    whole, halves = train(8, 180, *words), train(8, 180, *words, "distributed.fsdp_group_size=2")
    assert (whole["shard_group"], halves["shard_group"]) == (8, 2)
    assert states(whole["ranks"][0]) == 18 * PARAMETERS // 8 and states(halves["ranks"][0]) == 18 * PARAMETERS // 2
    hosts = train(4, 180, *words, "--nnodes", "2")
    assert hosts["world_size"] == 8 and hosts["shard_group"] == 4


def test_offload_leaves_what_is_gathered_on_the_gpu(train):
    plan = train(1, 80, "--strategy", "fsdp", "distributed.fsdp_cpu_offload=true", "training.gradient_checkpointing=full")
    rank = plan["ranks"][0]
    assert plan["fits"] and plan["offload"] and states(rank) == 0 and rank["host_bytes"] == 18 * PARAMETERS


def test_less_is_kept_the_more_is_recomputed(train):
    peaks = [train(4, 180, "--strategy", "fsdp", "training.micro_batch_size=2", f"training.gradient_checkpointing={how}")["ranks"][0]["peak_bytes"]
             for how in ("none", "selective", "full")]  # fmt: skip
    assert peaks[0] > peaks[1] > peaks[2]


def test_the_plan_is_told_in_words(train):
    text = train(4, 80, "--strategy", "fsdp", "distributed.fsdp_cpu_offload=true", json_wanted=False).stdout
    assert "fsdp full_shard, with offload: as asked" in text and "in host memory" in text and "fits" in text
    text = train(4, 80, "--strategy", "fsdp", "--device", "cpu", "--ranks", "2", "distributed.fsdp_cpu_offload=true", json_wanted=False).stdout
    assert "the memory of CPU ranks is the host's already" in text


REFUSED = [
    (4, 80, ["--strategy", "ddp"], "--strategy fsdp"),
    (2, 64, [], "training.optimizer=adamw_8bit"),
    (2, 40, [], "distributed.fsdp_cpu_offload=true"),
    (1, 80, [], "distributed.fsdp_cpu_offload=true"),
    (4, 48, ["training.micro_batch_size=2", "training.sequence_length=8192"], "training.gradient_checkpointing="),
    (4, 150, ["--strategy", "ddp", "--dtype", "float32"], "training.mixed_precision=bf16"),
]


@pytest.mark.parametrize("count, gibibytes, words, expected", REFUSED)
def test_every_remedy_of_a_refusal_fits(train, count, gibibytes, words, expected):
    plan = train(count, gibibytes, *words)
    assert not plan["fits"]
    commands = [remedy["command"] for remedy in plan["refusal"]["remedies"]]
    assert any(expected in command for command in commands), commands
    for command in commands:
        before, changed = command.split("muster train …")
        variables = dict(word.split("=", 1) for word in shlex.split(before))
        changed = shlex.split(changed)
        # What a remedy says stands in the place of what was typed.
        kept = [word for word in words if "=" not in word or word.split("=")[0] not in {one.split("=")[0] for one in changed}]
        if "--strategy" in changed and "--strategy" in kept:
            del kept[kept.index("--strategy") : kept.index("--strategy") + 2]
        again = train(count, gibibytes, *kept, *changed, **variables)
        assert again["fits"], command


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--strategy", "fsdp", "--num-gpus", "1"], ["one rank", "--strategy single"]),
        (["--strategy", "fsdp", "distributed.fsdp_sharding_strategy=hybrid_shard", "distributed.fsdp_group_size=3"], ["4 ranks", "groups of 3", "fsdp_group_size=2"]),
        (["--strategy", "fsdp", "distributed.fsdp_group_size=2"], ["hybrid_shard"]),
        (["--strategy", "ddp", "distributed.fsdp_cpu_offload=true"], ["distributed.strategy: fsdp"]),
        (["--strategy", "tensor"], ["tensor parallelism", "does not have yet"]),
        (["--strategy", "pipeline"], ["pipeline parallelism", "does not have yet"]),
        (["--strategy", "deepspeed"], ["DeepSpeed", "does not have yet"]),
        (["model.device_map=balanced"], ["each GPU a rank", "--strategy fsdp"]),
    ],
)
def test_what_cannot_be_says_what_to_type(train, words, expected):
    answer = train(4, 80, *words, json_wanted=False)
    assert answer.returncode == 2
    for part in expected:
        assert part in answer.stderr, answer.stderr
