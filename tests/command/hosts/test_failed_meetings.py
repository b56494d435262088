"""Hosts that do not come together: each is told why."""

import signal
import subprocess
import sys

from cluster import Cluster
from free_port import free_port
from roll_call import end_well, places

LISTEN = (
    "import socket, sys\n"
    "listener = socket.create_server(('', int(sys.argv[1])))\n"
    "print('listening', flush=True)\n"
    "sys.stdin.read()\n"
)


def test_a_leader_says_who_is_here_and_who_is_missing_when_the_time_is_over(cluster: Cluster):
    agents = [cluster.start_static(2, 4), cluster.start_static(0, 4, "--rdzv-conf", "join_timeout=8")]
    assert [agent.exit_code() for agent in agents] == [1, 1]
    zero, two = cluster.hosts[0].name, cluster.hosts[2].name
    for agent in agents:
        assert "not enough hosts after 8 s" in agent.errors
        assert f"2 of 4 hosts are here: {zero} (node rank 0) and {two} (node rank 2)" in agent.errors
        assert "missing: node ranks 1 and 3" in agent.errors
    assert cluster.roll.nobody_else_came()


def test_a_dynamic_run_says_how_many_hosts_are_missing_when_the_time_is_over(cluster: Cluster):
    agent = cluster.start_dynamic(0, "2:3", conf="join_timeout=1")
    assert agent.exit_code() == 1
    assert f"1 of 2 to 3 hosts is here: {cluster.hosts[0].name}; missing: 1 more host" in agent.errors


def test_a_host_whose_leader_never_comes_says_where_it_looked(cluster: Cluster):
    agent = cluster.start_static(1, 2, "--rdzv-conf", "join_timeout=1")
    assert agent.exit_code() == 1
    assert f"no answer from {cluster.hosts[0].address}:{cluster.port}" in agent.errors


def test_waiting_hosts_say_whom_they_wait_for(cluster: Cluster):
    agents = [cluster.start_static(1, 2)]
    agents[0].await_words(f"waiting for {cluster.hosts[0].address}:{cluster.port} to answer")
    agents.append(cluster.start_static(0, 2))
    end_well(cluster.roll.next_ranks(2))
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_a_host_of_another_run_is_refused_and_the_run_begins_without_it(cluster: Cluster):
    leader = cluster.start_static(0, 2, "--rdzv-id", "apples")
    stranger = cluster.start_static(1, 2, "--rdzv-id", "pears")
    assert stranger.exit_code() == 1
    assert 'belongs to the run "pears", the coordinator to another' in stranger.errors
    friend = cluster.start_static(1, 2, "--rdzv-id", "apples")
    end_well(cluster.roll.next_ranks(2))
    assert [leader.exit_code(), friend.exit_code()] == [0, 0]


def test_a_node_rank_is_given_once(cluster: Cluster):
    agents = [cluster.start_static(host, 3) for host in (0, 1)]
    agents[0].await_words(f"{cluster.hosts[1].name} (node rank 1)")
    port = ("--master-addr", cluster.hosts[0].address, "--master-port", str(cluster.port))
    second = cluster.start(2, "--nnodes", "3", "--node-rank", "1", *port)
    # Hosts of one name are one host: there, the launcher that came last takes the place.
    one_name = cluster.hosts[1].name == cluster.hosts[2].name
    refused, stays = (agents[1], second) if one_name else (second, agents[1])
    assert refused.exit_code() == 1
    assert "node rank 1" in refused.errors and str(stays.process.pid) in refused.errors
    third = cluster.start_static(2, 3)
    ranks = cluster.roll.next_ranks(3)
    assert [rank.number("GROUP_RANK") for rank in ranks] == [0, 1, 2]
    end_well(ranks)
    assert [agent.exit_code() for agent in (agents[0], stays, third)] == [0, 0, 0]


def test_a_node_rank_outside_the_run_is_bad_input(cluster: Cluster):
    agent = cluster.start_static(2, 2)
    assert agent.exit_code() == 2
    assert "--node-rank 2 among 2 hosts" in agent.errors


def test_hosts_that_disagree_about_their_number_are_told(cluster: Cluster):
    leader = cluster.start_static(0, 2)
    other = cluster.start_static(2, 3)
    assert other.exit_code() == 1
    assert "the node rank 2" in other.errors and "outside 0 to 1" in other.errors
    leader.signal(signal.SIGTERM)
    assert leader.exit_code() == 1


def test_a_busy_port_that_was_named_is_refused_on_the_host_that_serves(cluster: Cluster):
    words = cluster.hosts[0].command([sys.executable, "-I", "-S", "-c", LISTEN, str(cluster.port)])
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "listening\n"
        agent = cluster.start_static(0, 2)
        assert agent.exit_code() == 3
        assert f"port {cluster.port} is in use" in agent.errors
        assert cluster.roll.nobody_else_came()
    finally:
        holder.communicate()


def test_an_unknown_host_at_the_endpoint_is_named(cluster: Cluster):
    for agent in (
        cluster.start_static(1, 2, leader="no-such-host.invalid"),
        cluster.start(1, "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "no-such-host.invalid:29400"),
    ):
        assert agent.exit_code() in (1, 2)  # 1 where the server of names cannot be asked
        assert 'host "no-such-host.invalid" is not known here' in agent.errors


def test_a_host_beyond_the_maximum_waits_for_a_place_and_gives_up_after_the_join_timeout(cluster: Cluster):
    agents = [cluster.start_dynamic(host, "1:2", conf="last_call_timeout=3600") for host in (0, 1)]
    ranks = cluster.roll.next_ranks(2)
    third = cluster.start_dynamic(2, "1:2", conf="join_timeout=8")
    assert third.exit_code() == 1
    assert f"no place for {cluster.hosts[2].name}: all 2 hosts of the run are here" in third.errors
    assert "no place in the run" in third.errors
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]
    assert places(ranks) == [(0, 0, 0, 0, 1), (1, 1, 1, 0, 1)]


def test_hosts_with_and_without_a_node_rank_do_not_mix(cluster: Cluster):
    leader = cluster.start_static(0, 2, "--rdzv-id", "meeting")
    leader.await_words("waiting: 1 of 2 hosts is here")
    other = cluster.start_dynamic(1, "2")
    assert other.exit_code() == 1
    assert "give all hosts one, or none" in other.errors
    friend = cluster.start_static(1, 2, "--rdzv-id", "meeting")
    end_well(cluster.roll.next_ranks(2))
    assert [leader.exit_code(), friend.exit_code()] == [0, 0]


def test_a_signal_ends_the_waiting_for_others(cluster: Cluster):
    lonely = cluster.start_static(2, 3, leader=cluster.hosts[3].address, port=free_port())
    agents = [cluster.start_static(0, 3), cluster.start_static(1, 3)]
    agents[0].await_words("2 of 3 hosts are here")
    agents[1].signal(signal.SIGTERM)
    assert agents[1].exit_code() == 1
    agents[0].signal(signal.SIGTERM)
    assert agents[0].exit_code() == 1
    lonely.await_words("to answer")
    lonely.signal(signal.SIGTERM)
    assert lonely.exit_code() == 1
