"""Device maps and limits become ranks, or are refused with what to write."""

import json

import pytest
from split_models import Generate, plan_of

BASE = ("-m", "llama", "--device", "cpu", "-p", "p.txt", "--max-new-tokens", "16", "--batch-size", "4")
PARTS = {"model.embed_tokens": "0", **{f"model.layers.{i}": "0" if i < 3 else "1" for i in range(6)}, "model.norm": "1",
         "model.rotary_emb": "0", "lm_head": "1"}


def layers(plan: dict) -> list:
    return [(rank["layers"]["first"], rank["layers"]["end"]) if "layers" in rank else None for rank in plan["ranks"]]


def refused(generate: Generate, *arguments: str) -> str:
    result = generate(*BASE, *arguments)
    assert result.returncode != 0 and result.stdout == ""
    return result.stderr


def map_of(**changes: str | None) -> tuple[str, str]:
    places = {**PARTS, **{key.replace("__", "."): place for key, place in changes.items()}}
    return "--device-map", json.dumps({key: place for key, place in places.items() if place is not None})


def test_a_model_that_fits_is_whole_on_every_rank(generate: Generate):
    for asked in ((), ("--device-map", "auto"), ("model.auto_device_map=true",)):
        assert layers(plan_of(generate, *BASE, "--ranks", "3", *asked)) == [None] * 3


def test_balanced_shares_layers_out_over_all_ranks(generate: Generate):
    for ranks in (2, 3, 6):
        found = layers(plan_of(generate, *BASE, "--ranks", str(ranks), "--device-map", "balanced"))
        assert len(found) == ranks
        assert found[0][0] == 0 and found[-1][1] == 6
        assert all(before[1] == after[0] for before, after in zip(found, found[1:]))


def test_more_ranks_than_layers_leave_some_without_a_part(generate: Generate):
    plan = plan_of(generate, *BASE, "--ranks", "8", "--device-map", "balanced")
    assert len(plan["ranks"]) <= 6
    assert any("without a part" in reason for reason in plan["reasons"])


def test_sequential_fills_ranks_in_their_order_and_balanced_spares_the_one_that_is_nearly_full(generate: Generate):
    whole = plan_of(generate, *BASE, "--ranks", "2")["ranks"][0]["total_bytes"]
    limits = ("--ranks", "3", "--max-memory", f"0={whole - 1},1={10 * whole},2={10 * whole}")
    for rule, first in (("sequential", whole - 1), ("balanced", 10 * whole)):
        plan = plan_of(generate, *BASE, *limits, "--device-map", rule)
        assert layers(plan) == [(0, 3), (3, 6)]
        assert [rank["limit_bytes"] for rank in plan["ranks"]] == [first, 10 * whole]


def test_automatic_takes_as_few_ranks_as_hold_it_and_makes_replicas_of_the_rest(generate: Generate):
    whole = plan_of(generate, *BASE, "--ranks", "2")["ranks"][0]["total_bytes"]
    limits = ("--max-memory", ",".join(f"{rank}={whole - 1}" for rank in range(5)))
    plan = plan_of(generate, *BASE, "--ranks", "5", *limits)
    assert layers(plan) == [(0, 3), (3, 6)] * 2
    assert plan["reasons"][:2] == ["split by layers over 2 CPU ranks, 2 replicas", "1 CPU rank without a part in it"]


def test_a_rank_that_may_hold_nothing_takes_no_part(generate: Generate):
    for ranks in (2, 4):
        plan = plan_of(generate, *BASE, "--ranks", str(ranks), "--max-memory", "0=0")
        assert layers(plan) == [None] * (ranks - 1), plan["reasons"]


def test_a_rank_that_is_too_small_leaves_the_whole_model_to_the_others(generate: Generate):
    for small in range(4):
        plan = plan_of(generate, *BASE, "--ranks", "4", "--max-memory", f"{small}=1MiB")
        assert layers(plan) == [None] * 3, plan["reasons"]


def test_limits_and_maps_of_devices_that_are_not_there_are_refused(generate: Generate):
    assert "max_memory names rank 1" in refused(generate, "--max-memory", "1=5MB")
    for ranks in ("1", "2"):
        assert "the device map is cuda, and CPU ranks compute" in refused(generate, "--ranks", ranks, "--device-map", "cuda")


def test_a_map_as_written_is_kept_to(generate: Generate):
    assert layers(plan_of(generate, *BASE, "--ranks", "2", *map_of())) == [(0, 3), (3, 6)]


def test_parts_go_to_disk_only_where_that_is_named(generate: Generate):
    little = ("--ranks", "1", "--max-memory", "0=1MiB")
    assert "may use 1.0 MiB" in refused(generate, *little)
    plan = plan_of(generate, *BASE, "--ranks", "1", "--max-memory", "0=1MiB,disk=1GB")
    assert plan["fits"] and any("on disk, as asked" in reason for reason in plan["reasons"])
    on_disk = map_of(**{"model__layers__2": "disk", "model__layers__4": "disk"})
    assert "2 layers stay on disk" in plan_of(generate, *BASE, "--ranks", "2", *on_disk)["reasons"][1]


@pytest.mark.parametrize("changes, words", [
    ({"model__layers__4": "0"}, ["comes back to 0 with model.layers.4", "follow one another"]),
    ({"model__embed_tokens": "1", "model__layers__0": "0"}, ["model.embed_tokens and model.layers.0 on different devices", "the embedding goes where the first layer is"]),
    ({"lm_head": "2"}, ["model.norm and lm_head on different devices"]),
    ({"model__layers__2": None, "model__layers__2__mlp": "0", "model__layers__2__self_attn": "1", "model__layers__2__input_layernorm": "0",
      "model__layers__2__post_attention_layernorm": "0"}, ["splits model.layers.2", "a layer stays whole"]),
    ({"model__layers__2": "7"}, ["there is no place 7", "there are 0, 1, 2"]),
    ({"model__layers__2": "cpu"}, ["names cpu", "write the rank's number instead, 0 to 2"]),
])
def test_a_map_that_ranks_in_a_row_cannot_carry_out_is_refused(generate: Generate, changes: dict, words: list[str]):
    said = refused(generate, "--ranks", "3", *map_of(**changes))
    for word in words:
        assert word in said, said


def test_a_limit_of_a_rank_that_is_not_there_is_refused(generate: Generate):
    assert "names rank 2, and there are 2 ranks" in refused(generate, "--ranks", "2", "--max-memory", "2=1GB")


class TestGpus:
    def gpus(self, generate: Generate, count: int, memory: str) -> None:
        (generate.folder / "gpus.yaml").write_text(
            f"gpus: [{{count: {count}, name: Big, memory_total: {memory}, memory_used: 0, compute_capability: '9.0'}}]\n")
        generate.environment["MUSTER_GPUS"] = str(generate.folder / "gpus.yaml")

    def plan(self, generate: Generate, *arguments: str) -> dict:
        return plan_of(generate, *(word for word in BASE if word not in ("--device", "cpu")), *arguments)

    def test_hold_the_whole_model_each_where_it_fits(self, generate: Generate):
        self.gpus(generate, 4, "8GiB")
        plan = self.plan(generate)
        assert layers(plan) == [None] * 4 and [rank["gpu"] for rank in plan["ranks"]] == [0, 1, 2, 3]

    def test_take_parts_of_it_where_it_does_not(self, generate: Generate):
        self.gpus(generate, 5, "8GiB")
        config = generate.folder / "wide"
        config.mkdir(exist_ok=True)
        settings = json.loads((generate.folder / "llama" / "config.json").read_text())
        (config / "config.json").write_text(json.dumps({**settings, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 8}))
        wide = ("-m", "wide", "model.init=random", "-p", "p.txt", "--max-new-tokens", "16", "--batch-size", "4")
        plan = plan_of(generate, *wide, "--num-gpus", "5")
        assert plan["fits"]
        assert layers(plan) == [(0, 4), (4, 8)] * 2
        assert [rank["gpu"] for rank in plan["ranks"]] == [0, 1, 2, 3]
        assert all(rank["components"]["nccl"] > 0 for rank in plan["ranks"])

    def test_are_shared_by_ranks_that_share_a_model(self, generate: Generate):
        self.gpus(generate, 1, "8GiB")
        plan = self.plan(generate, "--ranks", "3", "--device-map", "balanced")
        assert layers(plan) == [(0, 2), (2, 4), (4, 6)]
        assert [rank["gpu"] for rank in plan["ranks"]] == [0, 0, 0]
        assert all(rank["components"]["nccl"] == 0 for rank in plan["ranks"])

    def test_keep_nothing_where_their_limit_is_zero_and_host_memory_is_named(self, generate: Generate):
        self.gpus(generate, 1, "8GiB")
        plan = self.plan(generate, "--max-memory", "0=0,cpu=4GiB")
        assert plan["fits"] and plan["ranks"][0]["components"]["weights"] == 0
        assert "the embedding, 6 layers, the head stay in host memory, as asked" in plan["reasons"][1]
