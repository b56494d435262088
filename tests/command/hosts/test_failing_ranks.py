"""A rank that fails on one host of several."""

import signal

import pytest
from cluster import Cluster
from roll_call import end_well, share_one_store, values


def test_a_failing_rank_ends_the_ranks_of_all_hosts_and_each_names_the_cause(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--nproc-per-node", "2") for host in range(2)]
    ranks = cluster.roll.next_ranks(4)
    ranks[3].order("exit 7")
    for rank in ranks:
        rank.await_end()
    for agent in agents:
        assert agent.exit_code() == 1
        cause = agent.errors.partition("Root Cause (first observed failure):")[2]
        assert "rank      : 3 (local_rank: 1)" in cause
        assert f"host      : {cluster.hosts[1].name}" in cause
        assert f"exitcode  : 7 (pid: {ranks[3].pid})" in cause
    assert f"ending the round: rank 3 on {cluster.hosts[1].name} failed" in agents[0].errors


def test_the_failing_ranks_own_code_reaches_every_host_where_it_is_asked_for(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--exit-code", "worker") for host in range(2)]
    cluster.roll.next_ranks(2)[1].order("exit 7")
    assert [agent.exit_code() for agent in agents] == [7, 7]


def test_a_rank_killed_by_a_signal_is_named_on_every_host(cluster: Cluster):
    agents = [cluster.start_static(host, 2) for host in range(2)]
    ranks = cluster.roll.next_ranks(2)
    ranks[1].order("die")
    for agent in agents:
        assert agent.exit_code() == 1
        cause = agent.errors.partition("Root Cause (first observed failure):")[2]
        assert f"exitcode  : -9 (pid: {ranks[1].pid})" in cause
        assert f"host      : {cluster.hosts[1].name}" in cause


@pytest.mark.parametrize("failing", [0, 1], ids=["on the host that leads", "on another host"])
def test_a_restart_begins_the_ranks_of_all_hosts_anew(cluster: Cluster, failing: int):
    agents = [cluster.start_static(host, 2, "--max-restarts", "1") for host in range(2)]
    first_round = cluster.roll.next_ranks(2)
    assert values(first_round, "TORCHELASTIC_RESTART_COUNT") == {"0"}
    first_round[failing].order("exit 5")
    for rank in first_round:
        rank.await_end()
    second_round = cluster.roll.next_ranks(2)
    assert [rank.host for rank in second_round] == [0, 1]
    assert values(second_round, "TORCHELASTIC_RESTART_COUNT") == {"1"}
    assert values(second_round, "TORCHELASTIC_MAX_RESTARTS") == {"1"}
    assert share_one_store(second_round), [rank.store for rank in second_round]
    end_well(second_round)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_restarts_are_counted_over_all_hosts(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--max-restarts", "1") for host in range(2)]
    cluster.roll.next_ranks(2)[0].order("exit 5")
    cluster.roll.next_ranks(2)[1].order("exit 6")
    for agent in agents:
        assert agent.exit_code() == 1
        assert "exitcode  : 6" in agent.errors.partition("Root Cause (first observed failure):")[2]
    assert cluster.roll.nobody_else_came()


def test_a_restart_is_counted_and_a_host_that_joins_is_not(cluster: Cluster):
    agents = [cluster.start_dynamic(0, "1:2", "--max-restarts", "2", conf="last_call_timeout=0.3")]
    cluster.roll.next_ranks(1)[0].order("exit 5")
    (again,) = cluster.roll.next_ranks(1)
    assert again.number("TORCHELASTIC_RESTART_COUNT") == 1
    agents.append(cluster.start_dynamic(1, "1:2", "--max-restarts", "2", conf="last_call_timeout=0.3"))
    again.await_end()
    pair = cluster.roll.next_ranks(2)
    assert values(pair, "TORCHELASTIC_RESTART_COUNT") == {"1"}
    end_well(pair)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_a_program_that_does_not_exist_on_one_host_ends_the_run_on_all(cluster: Cluster):
    agents = [cluster.start_static(0, 2), cluster.start_static(1, 2, program=("--", "/no/such/program"))]
    for agent in agents:
        assert agent.exit_code() == 1
        assert "/no/such/program" in agent.errors
        assert f"host      : {cluster.hosts[1].name}" in agent.errors


def test_independent_ranks_of_the_other_host_go_on_after_a_failure(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--independent") for host in range(2)]
    ranks = cluster.roll.next_ranks(2)
    ranks[1].order("exit 5")
    ranks[1].await_end()
    assert ranks[0].lives_for(0.5)
    end_well(ranks[:1])
    assert [agent.exit_code() for agent in agents] == [1, 1]


def test_a_signal_to_one_launcher_of_a_fixed_size_ends_the_run_everywhere(cluster: Cluster):
    agents = [cluster.start_static(host, 2) for host in range(2)]
    ranks = cluster.roll.next_ranks(2)
    ranks[1].catch("SIGINT")
    agents[1].signal(signal.SIGINT)
    assert ranks[1].next_word() == "caught SIGINT"  # as it came
    ranks[1].order("exit 0")
    ranks[0].await_end()
    assert [agent.exit_code() for agent in agents] == [1, 1]
    assert f"{cluster.hosts[1].name} (node rank 1) leaves: SIGINT" in agents[0].errors
