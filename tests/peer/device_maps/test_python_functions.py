"""muster's functions of accelerate's names give its results, argument by argument."""

import json
import math
import random

import accelerate.utils.modeling as accelerate_planner
import pytest
import torch
from accelerate.commands.estimate import estimate_training_usage
from accelerate.utils import CustomDtype, calculate_maximum_sizes
from originals import free_memory, in_order_of_definition
from torch import nn
from trees import RandomTree, configurations, random_budgets, without_weights

import muster
from muster import _native
from map_maker import total_bytes

ORIGINAL_ERRORS = (KeyError, IndexError, RuntimeError, AttributeError, ValueError)
DTYPES = [None, torch.bfloat16, torch.float16, "float16", "torch.int8", torch.int8, CustomDtype.INT4, torch.float32]


@pytest.fixture(autouse=True)
def ties_in_order(monkeypatch):
    monkeypatch.setattr(accelerate_planner, "find_tied_parameters", in_order_of_definition)


def as_text(chance: random.Random, size: int):
    """The same limit, about, as people write it."""
    if chance.random() < 0.4 or size > 10**15:
        return size
    units = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "kib": 2**10, "GB": 10**9, "MB": 10**6, "KB": 10**3}
    unit, factor = chance.choice([*units.items(), ("gb", 10**9 / 8), ("Kb", 10**3 / 8)])
    return f"{size / factor:.9f}{unit}"


def random_arguments(chance: random.Random, model: nn.Module) -> dict:
    arguments = {
        "no_split_module_classes": chance.choice([None, [], "Block", ["Block", "Cell"], ("Cell", "Absent"), {"Leaf"}]),
        "dtype": chance.choice(DTYPES),
    }
    names = [name for name, _ in model.named_parameters()]
    if names and chance.random() < 0.4:
        arguments["special_dtypes"] = {chance.choice(names): chance.choice(DTYPES[1:])}
    return arguments


def both(ours, original, model, max_memory, **arguments):
    """What accelerate gave; ours is the same, or refused with the name of its error."""
    given = None if max_memory is None else dict(max_memory)
    try:
        expected = original(model, max_memory=given, **arguments)
    except ORIGINAL_ERRORS as failure:
        with pytest.raises(muster.RefusedError, match=f"accelerate itself fails here with {type(failure).__name__}"):
            ours(model, max_memory=max_memory, **arguments)
        return None
    answer = ours(model, max_memory=max_memory, **arguments)
    assert answer == expected, (max_memory, arguments)
    assert {repr(key) for key in answer} == {repr(key) for key in expected}, (max_memory, arguments)
    if arguments.get("clean_result") is False:  # cleaning goes through a set: accelerate's order varies from run to run
        assert list(answer) == list(expected), (max_memory, arguments)
    return answer


@pytest.mark.filterwarnings("ignore")
def test_random_trees_get_accelerates_budgets_and_maps():
    maps, tied, special, texts = 0, 0, 0, 0
    for seed in range(300):
        chance = random.Random(seed)
        model = RandomTree(seed).model
        arguments = random_arguments(chance, model)
        limits = {place: as_text(chance, size) for place, size in random_budgets(chance, total_bytes(model)).items()}
        try:
            low_zero = chance.random() < 0.3
            budgets = both(
                muster.get_balanced_memory,
                accelerate_planner.get_balanced_memory,
                model,
                limits,
                low_zero=low_zero,
                **arguments,
            )
            clean = chance.random() < 0.8
            for given in [limits] if budgets is None else [limits, budgets]:
                device_map = both(
                    muster.infer_auto_device_map,
                    accelerate_planner.infer_auto_device_map,
                    model,
                    given,
                    clean_result=clean,
                    **arguments,
                )
                maps += device_map is not None
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}\n{model}") from failure
        tied += len(in_order_of_definition(model)) > 0
        special += "special_dtypes" in arguments
        texts += any(isinstance(size, str) for size in limits.values())
    assert maps > 350 and tied > 80 and special > 60 and texts > 150, (maps, tied, special, texts)


@pytest.mark.filterwarnings("ignore")
def test_architectures_get_accelerates_maps():
    models = {name: without_weights(configuration) for name, configuration in configurations().items()}
    maps = 0
    for seed in range(90):
        chance = random.Random(seed)
        model = list(models.values())[seed % len(models)]
        limits = random_budgets(chance, total_bytes(model))
        whole = chance.choice([None, list(model._no_split_modules)])
        device_map = both(
            muster.infer_auto_device_map,
            accelerate_planner.infer_auto_device_map,
            model,
            limits,
            no_split_module_classes=whole,
            dtype=chance.choice([None, "float16", torch.int8]),
            fallback_allocation=chance.random() < 0.3,
        )
        maps += device_map is not None
    assert maps > 60


class Shared(nn.Module):
    """One module under several names."""

    def __init__(self, seed: int, within_one_parent: bool):
        super().__init__()
        chance = random.Random(seed)
        with torch.device("meta"):
            self.first = nn.Sequential(*[nn.Linear(chance.randint(1, 9), 4) for _ in range(chance.randint(1, 4))])
            self.second = nn.ModuleDict({"own": nn.Linear(3, chance.randint(1, 30)), "again": self.first[0]})
            self.last = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            if within_one_parent:
                self.last.append(self.last[chance.randint(0, 1)])


@pytest.mark.filterwarnings("ignore")
def test_modules_with_two_names_get_accelerates_maps():
    for seed in range(120):
        chance = random.Random(seed)
        model = Shared(seed, within_one_parent=False)
        limits = random_budgets(chance, total_bytes(model))
        try:
            both(muster.infer_auto_device_map, accelerate_planner.infer_auto_device_map, model, limits)
            both(muster.get_balanced_memory, accelerate_planner.get_balanced_memory, model, limits)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}: {failure}\n{model}") from failure


@pytest.mark.filterwarnings("ignore")
def test_modules_with_two_names_in_one_parent_get_a_map_also_where_accelerate_fails():
    failures = 0
    for seed in range(120):
        model = Shared(seed, within_one_parent=True)
        limits = random_budgets(random.Random(seed), total_bytes(model))
        ours = muster.infer_auto_device_map(model, limits)
        try:
            assert ours == accelerate_planner.infer_auto_device_map(model, dict(limits)), f"seed {seed}"
        except IndexError:
            failures += 1
            for name, _ in model.named_parameters(remove_duplicate=False):
                assert any(path == "" or name == path or name.startswith(f"{path}.") for path in ours), f"seed {seed}: {name}"
    assert 0 < failures < 60


@pytest.mark.filterwarnings("ignore")
def test_without_limits_what_is_free_on_the_gpus_and_the_host_counts(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("MUSTER_LEASE_DIR", str(tmp_path / "leases"))
    maps = set()
    for gpus in range(4):
        for seed in range(10):
            chance = random.Random(100 * gpus + seed)
            model = RandomTree(seed).model
            size = total_bytes(model)
            used = [chance.randint(0, 50) for _ in range(gpus)]
            free = {number: chance.randint(1, size + 20) for number in range(gpus)} | {"cpu": size}
            inventory = [
                {"name": "GPU", "memory_total": f"{free[i] + used[i]}", "memory_used": f"{used[i]}"} for i in range(gpus)
            ]
            (tmp_path / "gpus.json").write_text(json.dumps({"gpus": inventory}))
            monkeypatch.setenv("MUSTER_GPUS", str(tmp_path / "gpus.json"))
            monkeypatch.setattr(_native, "free_host_memory", lambda size=size: size)
            with free_memory(free):
                both(muster.get_balanced_memory, accelerate_planner.get_balanced_memory, model, None)
                made = both(muster.infer_auto_device_map, accelerate_planner.infer_auto_device_map, model, None)
            maps.add(str(made))
    assert len(maps) > 10


def test_the_hosts_memory_is_that_of_the_system():
    import psutil

    assert _native.free_host_memory() == pytest.approx(psutil.virtual_memory().available, rel=0.2)


@pytest.mark.parametrize("size", ["1GiB", "1.5GB", "7gb", "3Mb", "12kib", "0.25MiB", "1e3KB", " 2 GB", "1Gb", "1GIB"])
def test_limits_are_read_as_accelerate_reads_them(size):
    model = nn.Linear(2, 2, device="meta")
    assert muster.get_balanced_memory(model, {"cpu": size}) == accelerate_planner.get_balanced_memory(model, {"cpu": size})


@pytest.mark.parametrize("limits", [{"cpu": "1TB"}, {"cpu": "GB"}, {"cpu": "-1GB"}, {"cpu": "10"}, {"gpu": 10}])
def test_limits_that_accelerate_refuses_are_value_errors(limits):
    model = nn.Linear(2, 2, device="meta")
    for function in (accelerate_planner.infer_auto_device_map, muster.infer_auto_device_map):
        with pytest.raises(ValueError):
            function(model, max_memory=dict(limits))


@pytest.mark.parametrize(
    "arguments, error, told",
    [
        ({"max_memory": {0: -1}}, ValueError, "max_memory gives 0 -1"),
        ({"max_memory": {"mps": 5}}, ValueError, "max_memory names 'mps'"),
        ({"max_memory": {-1: 5}}, ValueError, "max_memory names -1"),
        ({"max_memory": {0: float("nan")}}, ValueError, "max_memory gives 0 nan"),
        ({"max_memory": {0: None}}, ValueError, "max_memory gives 0 None"),
        ({"max_memory": [5]}, TypeError, r"max_memory=\[5\] is not a dict"),
        ({"max_memory": {0: 5}, "dtype": "floaty"}, ValueError, "dtype='floaty' is not a type of number"),
        ({"max_memory": {0: 5}, "special_dtypes": {"wight": "int8"}}, ValueError, 'no tensor "wight"'),
    ],
)
def test_what_cannot_be_meant_is_named(arguments, error, told):
    with pytest.raises(error, match=told):
        muster.infer_auto_device_map(nn.Linear(2, 2, device="meta"), **arguments)


def test_what_is_no_model_is_named():
    with pytest.raises(TypeError, match="model=3 is neither a torch module nor the path of a model"):
        muster.infer_auto_device_map(3, {0: 5})
    with pytest.raises(ValueError, match="there-is-none"):
        muster.infer_auto_device_map("/there-is-none", {0: 5})


@pytest.mark.filterwarnings("ignore")
def test_a_folder_gets_the_map_of_the_model_it_describes(tmp_path):
    for name, configuration in configurations().items():
        folder = tmp_path / name
        configuration.architectures = [type(without_weights(configuration)).__name__]
        configuration.dtype = torch.bfloat16
        configuration.save_pretrained(folder)
        model = without_weights(configuration)
        half = total_bytes(model) // 2
        limits = {0: half, 1: half, "cpu": half}
        whole = list(model._no_split_modules)
        expected = accelerate_planner.infer_auto_device_map(model, dict(limits), no_split_module_classes=whole)
        assert muster.infer_auto_device_map(folder, limits, no_split_module_classes=whole) == expected, name
        assert muster.infer_auto_device_map(folder / "config.json", limits, whole) == expected, name


def test_the_map_of_a_plan_is_one_that_accelerate_accepts(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("MUSTER_LEASE_DIR", str(tmp_path / "leases"))
    (tmp_path / "gpus.json").write_text(json.dumps({"gpus": [{"count": 2, "name": "GPU", "memory_total": "24GiB"}]}))
    for name, configuration in configurations().items():
        configuration.save_pretrained(tmp_path / name)
        for planner in ("optimal", "compat", "transformers"):
            plan = muster.plan(
                tmp_path / name, device_map="balanced", planner=planner, gpus_from=tmp_path / "gpus.json", seq_len=128
            )
            assert plan.fits and set(plan.device_map.values()) <= {0, 1}, (name, planner)
            accelerate_planner.check_device_map(without_weights(configuration), plan.device_map)


def test_verbose_prints_each_entry(capsys):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    muster.infer_auto_device_map(model, {0: 60, "cpu": 200}, verbose=True)
    assert capsys.readouterr().out.splitlines() == ["0: 0", "1: cpu", "2: cpu"]
    muster.infer_auto_device_map(model, {"cpu": 1000}, verbose=True)
    assert capsys.readouterr().out == "the whole model: cpu\n"


def accelerates_rows(model: nn.Module) -> list[list]:
    total, (largest, _) = calculate_maximum_sizes(model)
    rows = []
    for dtype, parts in (("float32", 1), ("float16", 2), ("int8", 4), ("int4", 8)):
        training = max(estimate_training_usage(total, dtype).values())
        rows.append([dtype, math.ceil(largest / parts), math.ceil(total / parts), None if training < 0 else training])
    return rows


def test_estimates_have_accelerates_columns_and_the_bytes_of_training():
    for name, configuration in configurations().items():
        model = without_weights(configuration, torch.float32)
        rows = muster.estimate_memory(model)
        assert [list(row.values())[:4] for row in rows] == accelerates_rows(model), name
        assert list(rows[0])[:4] == ["dtype", "Largest Layer or Residual Group", "Total Size", "Training using Adam"]
        count = model.num_parameters()
        for row in rows:
            assert row["parameters"] == count
            assert row["training"] is None if row["dtype"].startswith("int") else row["training"]["total"] == 16 * count
        assert [row["weights"] for row in rows[:2]] == [4 * count, 2 * count]
        assert count / 2 < rows[3]["weights"] < rows[2]["weights"] < 2 * count


def test_estimates_do_not_depend_on_the_type_a_model_is_held_in(tmp_path):
    configuration = configurations()["qwen3"]
    configuration.save_pretrained(tmp_path)
    rows = muster.estimate_memory(without_weights(configuration, torch.float32))
    assert muster.estimate_memory(without_weights(configuration, torch.bfloat16)) == rows
    assert muster.estimate_memory(tmp_path) == rows


def test_adam_has_sixteen_bytes_per_parameter_where_weights_are_computed_with_in_sixteen_bits():
    """What PyTorch holds after one step: float32 weights, their gradients and two moments; accelerate says eight."""
    model = nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters(), fused=False)
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    held = [*model.parameters(), *[parameter.grad for parameter in model.parameters()]]
    held += [state[key] for state in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq")]
    half = muster.estimate_memory(model, ["bfloat16"])[0]
    assert sum(tensor.numel() * tensor.element_size() for tensor in held) == half["training"]["total"]
    assert half["Training using Adam"] == half["training"]["total"] // 2


def test_quantised_weights_of_a_module_without_blocks_are_not_guessed_at():
    rows = muster.estimate_memory(nn.Linear(64, 64, bias=False, device="meta"))
    assert [row["weights"] for row in rows] == [16384, 8192, None, None]
    assert [row["Total Size"] for row in rows] == [16384, 8192, 4096, 2048]


def test_a_type_without_an_estimate_is_a_value_error():
    with pytest.raises(ValueError, match="dtype='int3'\n  try: one of float32"):
        muster.estimate_memory(nn.Linear(2, 2), ["int3"])
