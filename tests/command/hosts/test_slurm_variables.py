"""`muster launch` started by srun, as far as its variables tell."""

import signal
import time

import pytest
from cluster import RANK, Agent, Cluster
from roll_call import end_well, places, share_one_store, values

FOUR_GPUS = """
gpus:
  - {count: 4, name: NVIDIA A100-SXM4-40GB, memory_total: 40536MiB, memory_used: 0, utilization: 0}
"""
SCRIPT = (str(RANK),)  # as a user starts it: muster launch script.py


def node_list(cluster: Cluster, count: int) -> str:
    if cluster.hosts[0].has_own_network and count > 1:
        return f"node-[0-{count - 1}]"
    return ",".join(host.node_name for host in cluster.hosts[:count])


def task(
    cluster: Cluster, rank: int, tasks: int, *, host: int = 0, hosts: int = 1, local_rank: int = 0
) -> dict[str, str]:
    """What srun tells one task of a step."""
    per_host = tasks // hosts
    return {
        "SLURM_JOB_ID": str(cluster.port),  # the port follows from it: no two tests share one
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local_rank),
        "SLURM_NODEID": str(host),
        "SLURM_NTASKS": str(tasks),
        "SLURM_NNODES": str(hosts),
        "SLURM_JOB_NODELIST": node_list(cluster, hosts),
        "SLURM_TASKS_PER_NODE": f"{per_host}(x{hosts})" if hosts > 1 else str(per_host),
    }


def start_tasks_of_one_host(cluster: Cluster, count: int, *arguments: str, **variables: str) -> list[Agent]:
    return [
        cluster.start(0, *arguments, program=SCRIPT, **task(cluster, rank, count, local_rank=rank), **variables)
        for rank in range(count)
    ]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first host first", "first host last"])
def test_one_task_on_each_host_starts_the_ranks_of_that_host(cluster: Cluster, order: tuple[int, ...]):
    agents = [
        cluster.start(host, "--nproc-per-node", "2", program=SCRIPT, **task(cluster, host, 2, host=host, hosts=2))
        for host in order
    ]
    ranks = cluster.roll.next_ranks(4)
    assert places(ranks) == [(0, 0, 0, 0, 2), (0, 0, 1, 1, 2), (1, 1, 2, 0, 2), (1, 1, 3, 1, 2)]
    assert {rank.numbers("WORLD_SIZE", "GROUP_WORLD_SIZE") for rank in ranks} == {(4, 2)}
    assert values(ranks, "MASTER_ADDR") == {cluster.hosts[0].address}
    assert share_one_store(ranks), [rank.store for rank in ranks]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_several_tasks_on_one_host_are_one_rank_each(cluster: Cluster):
    agents = start_tasks_of_one_host(cluster, 4)
    ranks = cluster.roll.next_ranks(4)
    for rank in ranks:
        assert rank.environment["RANK"] == rank.environment["SLURM_PROCID"]
        assert rank.environment["LOCAL_RANK"] == rank.environment["SLURM_LOCALID"]
    assert places(ranks) == [(0, 0, 0, 0, 4), (0, 0, 1, 1, 4), (0, 0, 2, 2, 4), (0, 0, 3, 3, 4)]
    assert {rank.numbers("WORLD_SIZE", "GROUP_WORLD_SIZE") for rank in ranks} == {(4, 1)}
    assert len(values(ranks, "MASTER_PORT")) == 1
    assert share_one_store(ranks), [rank.store for rank in ranks]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0, 0, 0]


def test_several_tasks_on_each_of_two_hosts_are_one_rank_each(cluster: Cluster):
    agents = [
        cluster.start(rank // 2, program=SCRIPT, **task(cluster, rank, 4, host=rank // 2, hosts=2, local_rank=rank % 2))
        for rank in (3, 1, 2, 0)
    ]
    ranks = cluster.roll.next_ranks(4)
    assert places(ranks) == [(0, 0, 0, 0, 2), (0, 0, 1, 1, 2), (1, 1, 2, 0, 2), (1, 1, 3, 1, 2)]
    assert {rank.numbers("WORLD_SIZE", "GROUP_WORLD_SIZE") for rank in ranks} == {(4, 2)}
    assert share_one_store(ranks), [rank.store for rank in ranks]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0, 0, 0]


def test_a_failing_task_ends_the_others_and_each_names_it(cluster: Cluster):
    agents = start_tasks_of_one_host(cluster, 3)
    cluster.roll.next_ranks(3)[2].order("exit 7")
    for agent in agents:
        assert agent.exit_code() == 1
        assert "rank      : 2" in agent.errors.partition("Root Cause (first observed failure):")[2]


def test_tasks_that_are_bound_to_a_gpu_each_find_it_as_device_0(cluster: Cluster):
    gpus = cluster.folder / "four.yaml"
    gpus.write_text(FOUR_GPUS)
    agents = [
        cluster.start(
            0,
            "--gpus-from",
            str(gpus),
            program=SCRIPT,
            **task(cluster, rank, 4, local_rank=rank),
            CUDA_VISIBLE_DEVICES=str(rank),
        )
        for rank in range(4)
    ]
    ranks = cluster.roll.next_ranks(4)
    assert [(rank.number("RANK"), rank.environment["CUDA_VISIBLE_DEVICES"]) for rank in ranks] == [
        (0, "0"),
        (1, "1"),
        (2, "2"),
        (3, "3"),
    ]
    assert {rank.numbers("LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE") for rank in ranks} == {(0, 4, 4)}
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0, 0, 0]


def test_tasks_that_see_all_gpus_use_the_one_of_their_local_rank(cluster: Cluster):
    gpus = cluster.folder / "four.yaml"
    gpus.write_text(FOUR_GPUS)
    agents = start_tasks_of_one_host(cluster, 4, MUSTER_GPUS=str(gpus), CUDA_VISIBLE_DEVICES="0,1,2,3")
    ranks = cluster.roll.next_ranks(4)
    assert [rank.number("LOCAL_RANK") for rank in ranks] == [0, 1, 2, 3]
    assert values(ranks, "CUDA_VISIBLE_DEVICES") == {"0,1,2,3"}
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0, 0, 0]


def test_several_tasks_on_a_host_do_not_start_several_ranks_each(cluster: Cluster):
    agent = cluster.start(0, "--nproc-per-node", "2", **task(cluster, 0, 4))
    assert agent.exit_code() == 2
    assert "srun started 4 tasks on this host" in agent.errors and "--ntasks-per-node=1" in agent.errors


def test_a_batch_script_launches_alone(cluster: Cluster):
    variables = task(cluster, 0, 4)
    del variables["SLURM_STEP_ID"]
    agent = cluster.start(0, "--nproc-per-node", "2", program=SCRIPT, **variables, ENVIRONMENT="BATCH")
    ranks = cluster.roll.next_ranks(2)
    assert places(ranks) == [(0, 0, 0, 0, 2), (0, 0, 1, 1, 2)]
    assert {rank.numbers("WORLD_SIZE", "GROUP_WORLD_SIZE") for rank in ranks} == {(2, 1)}
    end_well(ranks)
    assert agent.exit_code() == 0


def test_what_the_command_line_says_of_hosts_counts_before_slurms_variables(cluster: Cluster):
    agents = [cluster.start_static(host, 2, **task(cluster, 3, 8, local_rank=3)) for host in (0, 1)]
    ranks = cluster.roll.next_ranks(2)
    assert [rank.numbers("RANK", "LOCAL_RANK", "WORLD_SIZE") for rank in ranks] == [(0, 0, 2), (1, 0, 2)]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]
    alone = cluster.start(0, "--standalone", **task(cluster, 3, 8, local_rank=3))
    (rank,) = cluster.roll.next_ranks(1)
    assert rank.number("WORLD_SIZE") == 1
    end_well([rank])
    assert alone.exit_code() == 0


def test_variables_of_slurm_that_contradict_each_other_are_bad_input(cluster: Cluster):
    agent = cluster.start(0, **task(cluster, 0, 2) | {"SLURM_PROCID": "5"})
    assert agent.exit_code() == 2
    assert "SLURM_PROCID=5" in agent.errors


ENDING = ("--signals-to-handle", "SIGTERM,SIGINT,SIGUSR1", "--shutdown-timeout", "1")


def test_a_warning_of_the_jobs_end_gives_ranks_the_time_until_then(cluster: Cluster):
    agent = cluster.start(0, *ENDING, SLURM_JOB_END_TIME=str(int(time.time()) + 3600))
    (rank,) = cluster.roll.next_ranks(1)
    rank.catch("SIGUSR1")
    agent.signal(signal.SIGUSR1)
    assert rank.next_word() == "caught SIGUSR1"
    assert rank.lives_for(2.5)  # the one second of other signals is over
    rank.order("exit 0")
    assert agent.exit_code() == 1


def test_a_signal_that_warns_of_nothing_gives_ranks_the_shutdown_timeout(cluster: Cluster):
    agent = cluster.start(0, *ENDING, SLURM_JOB_END_TIME=str(int(time.time()) + 3600))
    (rank,) = cluster.roll.next_ranks(1)
    rank.catch("SIGTERM")
    agent.signal(signal.SIGTERM)
    assert rank.next_word() == "caught SIGTERM"
    rank.await_end()
    assert agent.exit_code() == 1


def test_ranks_are_ended_before_slurm_ends_the_job(cluster: Cluster):
    signals = ("--signals-to-handle", "SIGTERM,SIGUSR1", "--shutdown-timeout", "3600")
    agent = cluster.start(0, *signals, SLURM_JOB_END_TIME=str(int(time.time()) + 8))
    (rank,) = cluster.roll.next_ranks(1)
    rank.catch("SIGUSR1", "SIGTERM")
    agent.signal(signal.SIGUSR1)
    assert rank.next_word() == "caught SIGUSR1"
    rank.await_end()
    assert agent.exit_code() == 1


def test_user_signals_are_passed_on_and_the_run_goes_on(cluster: Cluster):
    agent = cluster.start(0, "--nproc-per-node", "2")
    ranks = cluster.roll.next_ranks(2)
    for rank in ranks:
        rank.catch("SIGUSR1", "SIGUSR2")
    for name in ("SIGUSR1", "SIGUSR2", "SIGUSR1"):
        agent.signal(signal.Signals[name])
        for rank in ranks:
            assert rank.next_word() == f"caught {name}"
    end_well(ranks)
    assert agent.exit_code() == 0
