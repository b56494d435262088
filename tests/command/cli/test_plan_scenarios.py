"""What five guides to multi-GPU work ask for and promise, as plans: each number beside the closed form it follows from."""

import json

import pytest

from plan_questions import FIXTURES as MODELS
from plan_questions import GIB, HOSTS, inventory

LLAMA_70B = MODELS / "Llama-3.1-70B"

# Llama 3.1 70B, from its config.json.
HIDDEN, FEED_FORWARD, LAYERS, VOCABULARY = 8192, 28672, 80, 128256
KEYS = 8 * 128  # key-value heads × head size
BLOCK_MATRICES = 2 * HIDDEN * HIDDEN + 2 * KEYS * HIDDEN + 3 * FEED_FORWARD * HIDDEN
BLOCK_ROWS = HIDDEN + 2 * KEYS + HIDDEN + 2 * FEED_FORWARD + HIDDEN  # q, k and v, o, gate and up, down
BLOCK_NORMS = 2 * HIDDEN
OUTSIDE = 2 * VOCABULARY * HIDDEN + HIDDEN  # embedding, head, last norm
P_70B = LAYERS * (BLOCK_MATRICES + BLOCK_NORMS) + OUTSIDE


@pytest.fixture
def plan(muster):
    def ask(gibibytes, *words, **variables):
        muster.inventory(inventory(gibibytes))
        answer = muster("plan", *map(str, words), "--json", **variables)
        assert answer.returncode in (0, 3), answer.stderr
        return json.loads(answer.stdout)

    return ask


def summed(told, *components):
    return sum(rank["components"][name] for rank in told["ranks"] for name in components)


STATES = ("weights", "master_weights", "gradients", "optimizer")


# ---- transformers' rules ----


def test_a_packed_model_reaches_the_cpu_only_where_that_is_allowed(plan):
    words = [MODELS / "Llama-3.1-70B", "--planner", "transformers", "--device-map", "auto", "model.load_in_8bit=true",
             "--max-memory", "0=20GiB,1=20GiB,cpu=200GiB"]  # fmt: skip
    refused = plan([24, 24], *words)
    assert not refused["fits"] and "llm_int8_enable_fp32_cpu_offload" in refused["refusal"]["reason"]
    allowed = plan([24, 24], *words, "model.llm_int8_enable_fp32_cpu_offload=true")
    assert "cpu" in allowed["device_map"].values()
    assert allowed["fits"] or "llm_int8" not in allowed["refusal"]["reason"]


# ---- guide 0: choosing GPUs, DDP and FSDP ----


def test_one_gpu_by_mask_file_or_option_is_a_world_of_one(plan, muster):
    (muster.folder / "run.yaml").write_text(f"model: {{path: {MODELS / 'gpt2'}}}\ndistributed: {{num_gpus: 1}}\n")
    asked = [
        plan([80] * 8, MODELS / "gpt2", "--train", CUDA_VISIBLE_DEVICES="5"),
        plan([80] * 8, "run.yaml"),
        plan([80] * 8, MODELS / "gpt2", "--train", "--num-gpus", 1),
        plan([80] * 8, MODELS / "gpt2", "--train", "--gpu-ids", 0),
    ]
    for told in asked:
        assert (told["world_size"], told["strategy"], [rank["gpu"] for rank in told["ranks"]]) == (1, "single", [0])
    assert len({told["ranks"][0]["uuid"] for told in asked[1:]}) == 1
    assert asked[0]["ranks"][0]["uuid"] != asked[1]["ranks"][0]["uuid"]


def test_ddp_on_the_first_four_of_eight(plan):
    told = plan([80] * 8, MODELS / "Llama-3.2-1B", "--train", "--gpu-ids", "0,1,2,3", "--strategy", "ddp")
    assert [(rank["rank"], rank["gpu"]) for rank in told["ranks"]] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert len({json.dumps(rank["components"]) for rank in told["ranks"]}) == 1, "each rank holds everything"


# 4 + 4 + 8, or 2 + 4 + 4 + 8
@pytest.mark.parametrize("implementation, width", [("transformers", 16), ("muster", 18)])
def test_70b_fsdp_on_eight_holds_an_eighth_of_every_state(plan, implementation, width):
    words = [LLAMA_70B, "--train", "--strategy", "fsdp", "--micro-batch", 1, "--implementation", implementation]
    kept, offloaded = plan([80] * 8, *words), plan([80] * 8, *words, "--offload")
    for rank in kept["ranks"]:
        assert sum(rank["components"][name] for name in STATES) == width * P_70B // 8
        assert rank["host_bytes"] == 0
    assert not kept["fits"] and kept["refusal"]["shortfall_bytes"] > width * P_70B // 8 - 80 * GIB
    for rank in offloaded["ranks"]:
        assert sum(rank["components"][name] for name in STATES) == 0
        assert rank["host_bytes"] == width * P_70B // 8
    assert offloaded["fits"] and offloaded["offload"]


def test_nothing_is_offloaded_unless_that_is_asked_for(plan):
    for gibibytes in HOSTS.values():
        told = plan(gibibytes, LLAMA_70B, "--train")
        assert not told["fits"] and not told["offload"]
        assert all(rank["host_bytes"] == 0 for rank in told["ranks"])


def test_two_nodes_of_eight_are_a_world_of_sixteen(plan):
    told = plan([80] * 8, MODELS / "Llama-3.1-8B", "--train", "--nodes", 2, "--batch", 32,
                "distributed.master_addr=192.168.1.100", "distributed.master_port=29500")
    assert told["fits"] and told["world_size"] == 16 and told["effective_batch"] == 32
    assert [rank["rank"] for rank in told["ranks"] if rank["host"] == 1] == list(range(8, 16))
    assert [rank["gpu"] for rank in told["ranks"]] == [*range(8), *range(8)]


def test_a_subset_keeps_physical_gpus_and_counts_from_zero_below_a_mask(plan, muster):
    chosen = plan([80] * 8, MODELS / "gpt2", "--gpu-ids", "2,3,5,7")
    masked = plan([80] * 8, MODELS / "gpt2", CUDA_VISIBLE_DEVICES="2,3,5,7")
    uuids = {gpu["index"]: gpu["uuid"] for gpu in json.loads(muster("gpus", "--json").stdout)["gpus"]}
    assert [rank["gpu"] for rank in chosen["ranks"]] == [2, 3, 5, 7]
    assert [rank["gpu"] for rank in masked["ranks"]] == [0, 1, 2, 3]
    for told in (chosen, masked):
        assert [rank["uuid"] for rank in told["ranks"]] == [uuids[index] for index in (2, 3, 5, 7)]


def test_cpu_only_is_no_error(plan):
    for words in ([MODELS / "gpt2"], [MODELS / "gpt2", "--train"]):
        told = plan([80] * 8, *words, CUDA_VISIBLE_DEVICES="")
        assert told["fits"] and [rank["gpu"] for rank in told["ranks"]] == [None]


def test_gpu_four_of_four_is_refused_with_the_list(muster):
    muster.inventory(inventory([80] * 4))
    answer = muster("plan", str(MODELS / "gpt2"), "--gpu-ids", "4")
    assert answer.returncode == 2 and "GPU 4" in answer.stderr and "0, 1, 2, 3" in answer.stderr


@pytest.mark.parametrize("implementation, width", [("transformers", 16), ("muster", 18)])
def test_fourteen_gigabytes_do_not_train_seven_billion_parameters(plan, implementation, width):
    parameters = 6_738_415_616
    told = plan([80], MODELS / "Llama-2-7B", "--train", "--implementation", implementation)
    assert told["parameters"] == parameters
    assert summed(told, *STATES) == width * parameters  # 107.8 GB: 4 + 4 + 8, or 121.3 GB: 2 + 4 + 4 + 8
    assert told["ranks"][0]["peak_bytes"] >= width * parameters
    assert not told["fits"], "100.4 GiB of states alone, and one GPU has 80"
    assert summed(plan([80], MODELS / "Llama-2-7B"), "weights") == 2 * parameters  # the guide's 14 GB: weights alone


def test_more_gpus_not_fewer_help_a_sharded_run(plan):
    peaks = [plan([80] * count, MODELS / "Llama-3.1-8B", "--train", "--strategy", "fsdp", "--micro-batch", 1)["ranks"][0]["peak_bytes"]
             for count in (1, 2, 4, 8)]
    assert peaks == sorted(peaks, reverse=True) and peaks[-1] < peaks[0] / 3


@pytest.mark.parametrize("gigabytes, gpus, expected", [
    (14, [40] * 8, "replicas"), (14, [80] * 4, "replicas"), (140, [40] * 8, "layer_split"), (140, [80] * 4, "layer_split"),
    (1000, [40] * 8, None), (1000, [80] * 4, None),
])
def test_gpus_for_a_model_of_a_size(plan, gigabytes, gpus, expected):
    told = plan(gpus, "--params", f"{gigabytes // 2}B")
    if expected:
        assert told["fits"] and told["strategy"] == expected
    else:
        assert not told["fits"]
        # Whatever the split, the fullest device lacks at least the mean.
        assert told["refusal"]["shortfall_bytes"] >= gigabytes * 10**9 / len(gpus) - gpus[0] * GIB


# ---- guide 1: a 70B judge over several GPUs ----


def quantised_bytes(bits):
    """Matrices of blocks narrow, with scales of 4 bytes: per row in 8 bits, per 64 numbers in 4; the rest in 16 bits."""
    matrices = {8: BLOCK_MATRICES + 4 * BLOCK_ROWS, 4: BLOCK_MATRICES // 2 + BLOCK_MATRICES // 64 * 4}[bits]
    return LAYERS * (matrices + 2 * BLOCK_NORMS) + 2 * OUTSIDE


def test_the_parameters_of_70b_and_their_bytes(plan):
    assert P_70B == 70_553_706_496
    told = plan([80] * 4, LLAMA_70B)
    assert told["parameters"] == P_70B
    assert summed(told, "weights") == 2 * P_70B
    assert round(2 * P_70B / GIB, 2) == 131.42


@pytest.mark.parametrize("bits, dtype, promised", [(16, "bfloat16", 140), (8, "int8", 70), (4, "int4", 35)])
def test_the_table_of_sizes_by_precision(plan, bits, dtype, promised):
    told = plan([80] * 4, LLAMA_70B, "--dtype", dtype, "--device-map", "balanced")
    assert abs(summed(told, "weights") / (promised * 10**9) - 1) < 0.02
    bytes_held = 2 * P_70B if bits == 16 else quantised_bytes(bits)
    assert summed(told, "weights", "quantization") == bytes_held
    exact = plan([80] * 4, "--params", "70B", "--dtype", dtype, "--device-map", "balanced")
    assert abs(summed(exact, "weights") - promised * 10**9) < len(told["ranks"])


JUDGE = {  # (GPUs, bits) → how, or None where it does not fit
    (40, 16): "layer_split", (40, 8): "layer_split", (40, 4): "layer_split",  # 39.8 GiB and what computing needs
    (80, 16): "layer_split", (80, 8): "replicas", (80, 4): "replicas",
    (24, 16): None, (24, 8): "layer_split", (24, 4): "layer_split",
}


@pytest.mark.parametrize("size, bits", JUDGE)
def test_a_70b_judge_on_four_gpus(plan, size, bits):
    told = plan([size] * 4, LLAMA_70B, "--dtype", {16: "float16", 8: "int8", 4: "int4"}[bits])
    held = 2 * P_70B if bits == 16 else quantised_bytes(bits)
    expected = JUDGE[size, bits]
    totals = [rank["total_bytes"] for rank in told["ranks"]]
    if expected is None:
        assert not told["fits"] and told["device_map"] is not None
        assert told["refusal"]["shortfall_bytes"] == max(totals) - size * GIB >= held // 4 - size * GIB
        return
    assert told["fits"] and told["strategy"] == expected
    assert max(totals) <= size * GIB
    if expected == "replicas":
        assert told["device_map"] is None
        assert all(rank["components"]["weights"] + rank["components"]["quantization"] == held for rank in told["ranks"])
        return
    # A quarter each, to the size of the largest part that is not cut: the embedding.
    assert max(totals) - min(totals) <= 2 * VOCABULARY * HIDDEN
    layers = [(rank["layers"]["first"], rank["layers"]["end"]) for rank in told["ranks"]]
    assert layers[0][0] == 0 and layers[-1][1] == LAYERS
    assert all(before[1] == after[0] for before, after in zip(layers, layers[1:]))
    assert {told["device_map"][f"model.layers.{number}"] for number in range(LAYERS)} == {0, 1, 2, 3}


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_70b_model_uses_every_gpu_that_it_is_given(plan, count):
    told = plan([80] * count, LLAMA_70B)
    assert told["fits"] and all(rank["components"]["weights"] > 0 for rank in told["ranks"])
    share = 2 * P_70B / count
    assert all(abs(rank["components"]["weights"] - share) <= 2 * VOCABULARY * HIDDEN for rank in told["ranks"])


@pytest.mark.parametrize("batch, tokens", [(1, 2048), (4, 2048), (7, 8192)])
def test_the_kv_cache_is_two_times_layers_times_keys_times_tokens(plan, batch, tokens):
    told = plan([80] * 4, LLAMA_70B, "--batch", batch, "--seq-len", tokens)
    assert summed(told, "kv_cache") == 2 * LAYERS * KEYS * 2 * tokens * batch


# ---- guide 2: estimates from names ----


def test_thirteen_billion_parameters_are_not_ten_gigabytes(plan):
    """A table of substrings finds "3B" in "13B" and says 10 GB."""
    told = plan([24], "--params", "13B")
    assert summed(told, "weights") == 26 * 10**9
    assert not told["fits"] and told["refusal"]["shortfall_bytes"] >= 26 * 10**9 - 24 * GIB
    assert plan([24], MODELS / "Llama-3.2-1B")["ranks"][0]["components"]["weights"] == 2 * 1_235_814_400  # not 30 GB
    assert plan([80], "--params", "27B")["ranks"][0]["components"]["weights"] == 54 * 10**9  # not 20 GB


PUBLIC = {
    "Llama-3.1-8B": 8_030_261_248, "Llama-3.1-405B": 405_853_388_800, "Qwen2.5-7B": 7_615_616_512,
    "Mistral-7B-v0.3": 7_248_023_552, "Llama-2-7B": 6_738_415_616, "gpt2": 124_439_808, "Qwen3-8B": 8_190_735_360,
}


@pytest.mark.parametrize("model", PUBLIC)
def test_weights_are_the_published_parameters_times_two(plan, model):
    told = plan([80] * 16, MODELS / model, "--dtype", "bfloat16")
    assert told["parameters"] == PUBLIC[model]
    held = summed(told, "weights")
    copies = len(told["ranks"]) if told["strategy"] == "replicas" else 1
    assert held == 2 * PUBLIC[model] * copies


def test_the_largest_batch_is_the_largest_that_fits_and_grows_with_memory(plan):
    batches = []
    for size in (24, 40, 80):
        told = plan([size], MODELS / "Llama-3.1-8B")
        batch = told["batches"]["generation"]
        assert plan([size], MODELS / "Llama-3.1-8B", "--batch", batch)["fits"]
        assert not plan([size], MODELS / "Llama-3.1-8B", "--batch", batch + 1)["fits"]
        batches.append(batch)
    assert 1 <= batches[0] < batches[1] < batches[2]


def test_a_training_batch_is_filled_by_the_largest_micro_batch_that_fits(plan):
    told = plan([80], MODELS / "Llama-3.2-1B", "--train", "--batch", 64)
    micro = told["micro_batch"]
    assert micro * told["accumulation"] == told["effective_batch"] == 64
    larger = next(size for size in range(micro + 1, 65) if 64 % size == 0)
    assert not plan([80], MODELS / "Llama-3.2-1B", "--train", "--batch", 64, "--micro-batch", larger)["fits"]


# ---- guide 3: effective batches, limits per device, maps ----


def test_per_device_two_times_four_passes_on_four_gpus_are_thirty_two(plan):
    told = plan([40] * 4, MODELS / "Llama-3.2-1B", "--train", "per_device_train_batch_size=2", "gradient_accumulation_steps=4")
    assert (told["micro_batch"], told["accumulation"], told["world_size"], told["effective_batch"]) == (2, 4, 4, 32)


LIMITS = [10, 10, 8, 8]


@pytest.mark.parametrize("model, dtype", [("Llama-3.1-8B", "bfloat16"), ("Qwen2.5-7B", "float16"), ("Llama-2-7B", "float32"),
                                          ("Qwen3-32B", "int4")])
@pytest.mark.parametrize("rule", ["balanced", "balanced_low_0", "sequential", "auto"])
def test_limits_of_ten_ten_eight_eight_are_kept(plan, model, dtype, rule):
    limits = ",".join(f"{number}={size}GB" for number, size in enumerate(LIMITS))
    told = plan([24] * 4, MODELS / model, "--dtype", dtype, "--device-map", rule, "--max-memory", limits)
    assert told["fits"], told["refusal"]
    for rank, size in zip(told["ranks"], LIMITS):
        assert rank["limit_bytes"] == size * 10**9
        assert rank["total_bytes"] <= rank["limit_bytes"]
    assert set(told["device_map"].values()) <= {0, 1, 2, 3}, "nothing falls to the CPU unasked"


def test_a_gpu_without_a_limit_is_not_used_where_others_have_one(plan):
    told = plan([24] * 4, MODELS / "Llama-3.1-8B", "--max-memory", "1=10GB,3=10GB")
    assert [rank["gpu"] for rank in told["ranks"]] == [1, 3] and set(told["device_map"].values()) == {1, 3}


def test_a_split_model_in_a_run_of_several_ranks_is_refused(muster):
    muster.inventory(inventory([40] * 4))
    answer = muster("plan", str(MODELS / "Llama-3.1-8B"), "--train", "device_map=balanced")
    assert answer.returncode == 2 and "each GPU a rank" in answer.stderr and "--strategy fsdp" in answer.stderr


def test_a_tied_embedding_is_there_once_on_one_device_and_twice_on_two(plan):
    tied = 128256 * 2048 * 2  # Llama 3.2 1B in bfloat16
    parameters = 1_235_814_400
    alone = plan([24], MODELS / "Llama-3.2-1B", "--dtype", "bfloat16")
    assert alone["duplicated_bytes"] == 0 and summed(alone, "weights") == 2 * parameters
    apart = plan([24] * 2, MODELS / "Llama-3.2-1B", "--dtype", "bfloat16", "--max-memory", "0=2300MiB,1=2300MiB")
    assert apart["strategy"] == "layer_split" and apart["fits"]
    assert apart["duplicated_bytes"] == tied and summed(apart, "weights") == 2 * parameters + tied


# ---- guide 4: lists of GPUs ----


def test_a_gpu_list_maps_ranks_to_the_gpus_it_names(plan):
    told = plan([80] * 8, MODELS / "gpt2", "--train", "gpu_list=4,5,6,7")
    assert [(rank["rank"], rank["gpu"]) for rank in told["ranks"]] == [(0, 4), (1, 5), (2, 6), (3, 7)]
