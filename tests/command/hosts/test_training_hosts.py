"""`muster train` over several hosts: the numbers of one host, and one run's folder."""

import csv
import json
import pathlib

import pytest
from cluster import Cluster

SETTINGS = (
    "--device", "cpu", "training.batch_size=12", "training.deterministic=true",
    "training.save_steps=3", "training.eval_steps=100", "data.held_out=0",
)  # fmt: skip
FSDP = ("--strategy", "fsdp")
STRATEGIES = {"ddp": (), "full_shard": FSDP, "hybrid_shard": (*FSDP, "distributed.fsdp_sharding_strategy=hybrid_shard")}


def train(cluster: Cluster, host: int, output: str, steps: int, *words: str):
    folder = str(cluster.folder / output)  # a host has a working folder of its own
    variables = {"MUSTER_CACHE": str(cluster.folder / f"cache-{host}"), "HOME": str(cluster.folder)}
    return cluster.start_command(host, "train", *SETTINGS, f"training.max_steps={steps}", "--output", folder, *words, **variables)


def on_two_hosts(cluster: Cluster, output: str, steps: int, *words: str, second: tuple = ()):
    """second: further words on the second host."""
    meeting = ("--nnodes", "2", "--master-addr", cluster.hosts[0].address, "--master-port", str(cluster.port))
    return [train(cluster, host, f"{output}-{host}", steps, "--ranks", "2", "--node-rank", str(host), *meeting, *words, *more)
            for host, more in ((0, ()), (1, second))]


def losses(run: pathlib.Path) -> list[tuple[str, str]]:
    with (run / "metrics.csv").open() as table:
        return [(row["step"], row["loss"]) for row in csv.DictReader(table)]


def only_run(folder: pathlib.Path) -> pathlib.Path:
    runs = [entry for entry in folder.iterdir() if (entry / "metrics.csv").exists()]
    assert len(runs) == 1
    return runs[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_hosts_of_two_ranks_give_the_bits_of_four_ranks_on_one(cluster: Cluster, strategy: str):
    """Of hybrid_shard each host holds a copy."""
    for agent in on_two_hosts(cluster, "hosts", 6, *STRATEGIES[strategy]):
        assert agent.exit_code() == 0, agent.errors
    alone = train(cluster, 2, "alone", 6, "--ranks", "4")
    assert alone.exit_code() == 0, alone.errors
    spread, single = only_run(cluster.folder / "hosts-0"), only_run(cluster.folder / "alone")
    assert losses(spread) == losses(single) and len(losses(single)) == 6
    weights = [(run / "model" / "model.safetensors").read_bytes() for run in (spread, single)]
    assert weights[0] == weights[1]
    assert not (cluster.folder / "hosts-1").exists()  # the run's folder is host 0's


@pytest.mark.parametrize("saved, resumed", [("ddp", "ddp"), ("full_shard", "hybrid_shard"), ("hybrid_shard", "full_shard")])
def test_a_run_of_two_hosts_goes_on_from_the_checkpoint_of_host_0(cluster: Cluster, saved: str, resumed: str):
    for agent in on_two_hosts(cluster, "hosts", 3, *STRATEGIES[saved]):
        assert agent.exit_code() == 0, agent.errors
    for agent in on_two_hosts(cluster, "hosts", 6, "--resume", "auto", *STRATEGIES[resumed]):
        assert agent.exit_code() == 0, agent.errors
    run = only_run(cluster.folder / "hosts-0")
    assert [step for step, _ in losses(run)] == [str(step) for step in range(1, 7)]
    assert json.loads((run / "result.json").read_text())["steps"] == 6


def test_hosts_that_planned_other_passes_take_those_of_the_first(cluster: Cluster):
    for agent in on_two_hosts(cluster, "hosts", 3, *FSDP, second=("training.micro_batch_size=1", "training.gradient_checkpointing=full")):
        assert agent.exit_code() == 0, agent.errors
    assert len(losses(only_run(cluster.folder / "hosts-0"))) == 3


@pytest.mark.parametrize("second", ["training.learning_rate=0.5", "experiment.seed=7", "training.optimizer=sgd", "data.operations=-"])
def test_hosts_that_were_given_other_settings_are_refused(cluster: Cluster, second: str):
    agents = on_two_hosts(cluster, "hosts", 3, *FSDP, second=(second,))
    assert all(agent.exit_code() != 0 for agent in agents)
    name = second.split("=")[0].split(".operations")[0]
    assert any(f"rank 2 was started with another {name} than rank 0" in agent.errors for agent in agents), agents[0].errors


def test_hosts_that_planned_another_strategy_are_refused(cluster: Cluster):
    agents = on_two_hosts(cluster, "hosts", 3, second=FSDP)
    assert all(agent.exit_code() != 0 for agent in agents)
    assert any("rank 2 was started with another distributed.strategy" in agent.errors for agent in agents), agents[0].errors
