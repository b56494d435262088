"""Hosts that get their place as they come (--rdzv-backend c10d), and runs that grow and shrink."""

import signal

import pytest
from cluster import Cluster
from roll_call import end_well, places, share_one_store, values

SHORT_CALL = "last_call_timeout=0.3"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["endpoint first", "endpoint last"])
def test_two_hosts_meet_at_an_endpoint(cluster: Cluster, order: tuple[int, ...]):
    agents = [cluster.start_dynamic(host, "2", "--nproc-per-node", "2") for host in order]
    ranks = cluster.roll.next_ranks(4)
    assert places(ranks) == [(0, 0, 0, 0, 2), (0, 0, 1, 1, 2), (1, 1, 2, 0, 2), (1, 1, 3, 1, 2)]
    assert values(ranks, "WORLD_SIZE") == {"4"}
    assert values(ranks, "TORCHELASTIC_RUN_ID") == {"meeting"}
    assert values(ranks, "MASTER_ADDR") == {cluster.hosts[0].address}
    assert share_one_store(ranks), [rank.store for rank in ranks]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_a_run_with_all_its_hosts_does_not_wait_for_the_last_call(cluster: Cluster):
    agents = [cluster.start_dynamic(host, "1:2", conf="last_call_timeout=3600") for host in (0, 1)]
    ranks = cluster.roll.next_ranks(2)
    assert values(ranks, "WORLD_SIZE") == {"2"}
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_a_late_host_makes_the_world_bigger_and_no_restart_is_counted(cluster: Cluster):
    agents = [cluster.start_dynamic(0, "1:3", conf=SHORT_CALL)]
    (alone,) = cluster.roll.next_ranks(1)
    assert values([alone], "WORLD_SIZE") == {"1"}

    agents.append(cluster.start_dynamic(1, "1:3", conf=SHORT_CALL))
    alone.await_end()
    pair = cluster.roll.next_ranks(2)
    assert places(pair) == [(0, 0, 0, 0, 1), (1, 1, 1, 0, 1)]
    assert values(pair, "WORLD_SIZE") == values(pair, "GROUP_WORLD_SIZE") == {"2"}
    assert share_one_store(pair), [rank.store for rank in pair]  # what the earlier round wrote is gone

    agents.append(cluster.start_dynamic(2, "1:3", conf=SHORT_CALL))
    for rank in pair:
        rank.await_end()
    three = cluster.roll.next_ranks(3)
    assert values(three, "WORLD_SIZE") == {"3"}
    assert values([alone, *pair, *three], "TORCHELASTIC_RESTART_COUNT") == {"0"}
    end_well(three)
    assert [agent.exit_code() for agent in agents] == [0, 0, 0]
    agents[0].await_words(f"{cluster.hosts[1].name} joined")


def test_the_others_go_on_in_a_smaller_world_when_a_host_leaves(cluster: Cluster):
    agents = [cluster.start_dynamic(host, "2:3", conf=SHORT_CALL) for host in range(3)]
    three = cluster.roll.next_world(3)
    leaver = next(agent for agent in agents if agent.host.index == 1)
    leaver.signal(signal.SIGTERM)
    for rank in three:
        rank.await_end()
    pair = cluster.roll.next_ranks(2)
    assert [rank.host for rank in pair] == [0, 2]
    assert [rank.numbers("GROUP_RANK", "RANK", "WORLD_SIZE") for rank in pair] == [(0, 0, 2), (1, 1, 2)]
    assert values(pair, "TORCHELASTIC_RESTART_COUNT") == {"0"}
    assert share_one_store(pair), [rank.store for rank in pair]
    assert leaver.exit_code() == 1
    end_well(pair)
    assert [agents[0].exit_code(), agents[2].exit_code()] == [0, 0]
    agents[0].await_words(f"{cluster.hosts[1].name} leaves: SIGTERM")


def test_a_host_that_left_may_come_back(cluster: Cluster):
    agents = [cluster.start_dynamic(host, "1:2", conf=SHORT_CALL) for host in (0, 1)]
    cluster.roll.next_world(2)
    agents[1].signal(signal.SIGTERM)
    assert agents[1].exit_code() == 1
    (alone,) = cluster.roll.next_ranks(1)
    assert (alone.host, alone.number("WORLD_SIZE")) == (0, 1)
    agents[1] = cluster.start_dynamic(1, "1:2", conf=SHORT_CALL)
    pair = cluster.roll.next_ranks(2)
    assert values(pair, "WORLD_SIZE") == {"2"}
    end_well(pair)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_a_run_below_its_minimum_waits_for_another_host(cluster: Cluster):
    agents = [cluster.start_dynamic(host, "2:3", conf=SHORT_CALL) for host in (0, 1)]
    cluster.roll.next_world(2)
    agents[1].signal(signal.SIGTERM)
    assert agents[1].exit_code() == 1
    agents[0].await_words("waiting: 1 of 2 to 3 hosts is here")
    assert cluster.roll.nobody_else_came()
    agents[1] = cluster.start_dynamic(2, "2:3", conf=SHORT_CALL)
    pair = cluster.roll.next_ranks(2)
    assert [rank.host for rank in pair] == [0, 2]
    end_well(pair)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_the_whole_run_ends_when_the_host_that_leads_is_told_to(cluster: Cluster):
    agents = [cluster.start_dynamic(host, "1:2", conf=SHORT_CALL) for host in (0, 1)]
    ranks = cluster.roll.next_world(2)
    agents[0].signal(signal.SIGTERM)
    for rank in ranks:
        rank.await_end()
    assert [agent.exit_code() for agent in agents] == [1, 1]
    agents[1].await_words(f"{cluster.hosts[0].name} leaves: SIGTERM")
