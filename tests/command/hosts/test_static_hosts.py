"""Hosts that know their place (--node-rank)."""

import ipaddress
import subprocess
import sys

import pytest
from cluster import SLOW_AGENT, Cluster, eventually
from free_port import free_port
from roll_call import end_well, places, share_one_store, values


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first host first", "first host last"])
def test_two_hosts_give_every_rank_its_place_in_whatever_order_they_start(cluster: Cluster, order: tuple[int, ...]):
    agents = [cluster.start_static(host, 2, "--nproc-per-node", "2") for host in order]
    ranks = cluster.roll.next_ranks(4)

    # host, GROUP_RANK, RANK, LOCAL_RANK, LOCAL_WORLD_SIZE
    assert places(ranks) == [(0, 0, 0, 0, 2), (0, 0, 1, 1, 2), (1, 1, 2, 0, 2), (1, 1, 3, 1, 2)]
    assert values(ranks, "WORLD_SIZE") == {"4"}
    assert values(ranks, "GROUP_WORLD_SIZE") == {"2"}
    assert [rank.numbers("ROLE_RANK", "ROLE_WORLD_SIZE") for rank in ranks] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert values(ranks, "TORCHELASTIC_RESTART_COUNT") == {"0"}
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_every_rank_reaches_the_store_at_the_address_it_is_told(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--nproc-per-node", "2") for host in (1, 0)]
    ranks = cluster.roll.next_ranks(4)
    assert values(ranks, "MASTER_ADDR") == {cluster.hosts[0].address}
    assert values(ranks, "MASTER_PORT") == {str(cluster.port)}
    assert share_one_store(ranks), [rank.store for rank in ranks]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


@pytest.mark.parametrize("order", [(2, 0, 3, 1), (3, 2, 1, 0)], ids=str)
def test_four_hosts_give_every_rank_its_place_in_whatever_order_they_start(cluster: Cluster, order: tuple[int, ...]):
    agents = [cluster.start_static(host, 4) for host in order]
    ranks = cluster.roll.next_ranks(4)
    assert places(ranks) == [(0, 0, 0, 0, 1), (1, 1, 1, 0, 1), (2, 2, 2, 0, 1), (3, 3, 3, 0, 1)]
    assert values(ranks, "WORLD_SIZE") == {"4"}
    assert share_one_store(ranks), [rank.store for rank in ranks]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0, 0, 0]


def test_hosts_may_bring_different_numbers_of_ranks(cluster: Cluster):
    agents = [cluster.start_static(host, 3, "--nproc-per-node", str(count)) for host, count in ((0, 1), (1, 3), (2, 2))]
    ranks = cluster.roll.next_ranks(6)
    one, three, two = places(ranks)[:1], places(ranks)[1:4], places(ranks)[4:]
    assert one == [(0, 0, 0, 0, 1)]
    assert three == [(1, 1, 1, 0, 3), (1, 1, 2, 1, 3), (1, 1, 3, 2, 3)]
    assert two == [(2, 2, 4, 0, 2), (2, 2, 5, 1, 2)]
    assert values(ranks, "WORLD_SIZE") == {"6"}
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0, 0]


@pytest.mark.parametrize("spelling", ["{}", "[{}]"], ids=["bare", "in brackets"])
def test_hosts_meet_at_an_ipv6_address(cluster: Cluster, spelling: str):
    leader = spelling.format(cluster.hosts[0].address_6)
    agents = [cluster.start_static(host, 2, leader=leader) for host in (1, 0)]
    ranks = cluster.roll.next_ranks(2)
    assert places(ranks) == [(0, 0, 0, 0, 1), (1, 1, 1, 0, 1)]
    assert values(ranks, "MASTER_ADDR") == {cluster.hosts[0].address_6}
    assert share_one_store(ranks), [rank.store for rank in ranks]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_ranks_are_told_an_address_where_the_hosts_meet_by_name(cluster: Cluster):
    leader = cluster.hosts[0].node_name
    agents = [cluster.start_static(host, 2, leader=leader) for host in (0, 1)]
    ranks = cluster.roll.next_ranks(2)
    for rank in ranks:
        assert str(ipaddress.ip_address(rank.environment["MASTER_ADDR"])) == cluster.hosts[0].address
    assert share_one_store(ranks), [rank.store for rank in ranks]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_hosts_end_together_when_the_last_rank_of_all_has_ended(cluster: Cluster):
    agents = [cluster.start_static(host, 2) for host in (0, 1)]
    first, second = cluster.roll.next_ranks(2)
    first.order("exit 0")
    first.await_end()
    assert second.store["answers"]
    assert second.lives_for(0.5) and agents[0].process.poll() is None  # its store is still needed
    second.order("exit 0")
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_several_runs_on_the_same_hosts_do_not_meet_each_other(cluster: Cluster):
    one = [cluster.start_static(host, 2) for host in (0, 1)]
    ranks_of_one = cluster.roll.next_ranks(2)
    port = free_port()
    other = [cluster.start_static(host, 2, "--nproc-per-node", "2", port=port) for host in (0, 1)]
    ranks_of_other = cluster.roll.next_ranks(4)
    assert values(ranks_of_one, "WORLD_SIZE") == {"2"}
    assert values(ranks_of_other, "WORLD_SIZE") == {"4"}
    assert share_one_store(ranks_of_other), [rank.store for rank in ranks_of_other]
    end_well(ranks_of_one + ranks_of_other)
    assert [agent.exit_code() for agent in one + other] == [0, 0, 0, 0]


def test_a_launcher_of_the_next_run_is_not_told_how_the_last_one_ended(cluster: Cluster):
    last_run = [cluster.start_static(host, 3) for host in (0, 1)]
    leader = cluster.hosts[0].address
    words = [sys.executable, "-I", "-S", str(SLOW_AGENT), leader, str(cluster.port), "2", str(cluster.secret)]
    slow = subprocess.Popen(cluster.hosts[2].command(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        end_well(cluster.roll.next_ranks(2))
        assert slow.stdout.readline() == "finished\n"
        assert last_run[1].exit_code() == 0
        next_run = [cluster.start_static(1, 3)]  # while the leader of the last run waits for the slow host
        assert not eventually(lambda: next_run[0].process.poll() is not None, patience=1)
    finally:
        slow.communicate()
    assert last_run[0].exit_code() == 0
    next_run += [cluster.start_static(host, 3) for host in (0, 2)]
    end_well(cluster.roll.next_ranks(3))
    assert [agent.exit_code() for agent in next_run] == [0, 0, 0]


def test_places_may_be_given_by_variables_alone(cluster: Cluster):
    agents = [
        cluster.start(
            host,
            PET_NNODES="2",
            PET_NODE_RANK=str(host),
            PET_MASTER_ADDR=cluster.hosts[0].address,
            PET_MASTER_PORT=str(cluster.port),
            PET_NPROC_PER_NODE="2",
        )
        for host in (0, 1)
    ]
    ranks = cluster.roll.next_ranks(4)
    assert places(ranks) == [(0, 0, 0, 0, 2), (0, 0, 1, 1, 2), (1, 1, 2, 0, 2), (1, 1, 3, 1, 2)]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]
