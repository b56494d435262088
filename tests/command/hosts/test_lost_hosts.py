"""Hosts that go without a word: a killed launcher, a cut link."""

import signal
import time

import pytest
from cluster import Agent, Cluster, eventually
from roll_call import Rank, end_well, share_one_store, values

# Three seconds of silence: short enough to wait for, long enough for a busy machine.
QUICK = "keep_alive_interval=0.2,keep_alive_max_attempt=15"


REJOINING = ("--max-restarts", "1", "--rdzv-conf", QUICK)


def pair(cluster: Cluster, *settings: str) -> tuple[list[Agent], list[Rank]]:
    """Two hosts with a rank each, under way."""
    agents = [cluster.start_static(host, 2, *settings) for host in range(2)]
    return agents, cluster.roll.next_ranks(2)


def assert_goes_on(cluster: Cluster, agents: list[Agent]) -> list[Rank]:
    """With a rank on each of the hosts, to a good end."""
    ranks = cluster.roll.next_ranks(2)
    assert [(rank.host, *rank.numbers("RANK", "WORLD_SIZE")) for rank in ranks] == [(0, 0, 2), (1, 1, 2)]
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]
    return ranks


def agents_on(cluster: Cluster, host: int) -> list[int]:
    return [agent.process.pid for agent in cluster.agents if agent.host.index == host and agent.process.poll() is None]


def test_a_killed_launcher_ends_the_run_and_the_others_name_its_host(cluster: Cluster):
    agents = [cluster.start_static(host, 3) for host in range(3)]
    ranks = cluster.roll.next_ranks(3)
    agents[1].kill()
    for rank in ranks:  # those of the killed launcher, too
        rank.await_end()
    for survivor in (agents[0], agents[2]):
        assert survivor.exit_code() == 1
        assert f"{cluster.hosts[1].name} (node rank 1) was lost" in survivor.errors
        assert "Traceback" not in survivor.errors


def test_a_killed_launcher_is_noticed_at_once_and_not_after_a_silence(cluster: Cluster):
    slow = "keep_alive_interval=600"
    agents = [cluster.start_static(host, 2, "--rdzv-conf", slow) for host in range(2)]
    cluster.roll.next_ranks(2)
    agents[1].kill()
    assert agents[0].exit_code() == 1


def test_nothing_of_a_killed_launcher_is_left_when_the_others_have_ended(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--nproc-per-node", "2") for host in range(2)]
    for rank in cluster.roll.next_ranks(4):
        rank.catch("SIGTERM")
    agents[1].kill()
    agents[0].await_words("was lost")
    # Its ranks do not heed SIGTERM: the second signal ends the patience with them.
    agents[0].signal(signal.SIGTERM)
    agents[0].await_words("SIGTERM received")
    agents[0].signal(signal.SIGTERM)
    assert agents[0].exit_code() == 1
    assert cluster.nothing_is_left()


def test_a_replacement_for_a_killed_launcher_lets_the_run_go_on(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--max-restarts", "1") for host in range(2)]
    first_round = cluster.roll.next_ranks(2)
    agents[1].kill()
    for rank in first_round:
        rank.await_end()
    assert agents[0].process.poll() is None
    agents[1] = cluster.start_static(1, 2, "--max-restarts", "1")
    ranks = assert_goes_on(cluster, agents)
    assert values(ranks, "TORCHELASTIC_RESTART_COUNT") == {"0"}  # no rank has failed
    assert share_one_store(ranks), [rank.store for rank in ranks]


def test_a_run_without_a_replacement_says_which_host_it_lost(cluster: Cluster):
    leader = cluster.start_static(0, 2, "--max-restarts", "1", "--rdzv-conf", "join_timeout=8")
    other = cluster.start_static(1, 2, "--max-restarts", "1")
    cluster.roll.next_ranks(2)
    other.kill()
    assert leader.exit_code() == 1
    assert f"{cluster.hosts[1].name} (node rank 1) was lost" in leader.errors
    assert "not enough hosts after 8 s" in leader.errors and "missing: node rank 1" in leader.errors


def test_a_run_of_many_sizes_goes_on_without_a_killed_launcher(cluster: Cluster):
    agents = [cluster.start_dynamic(host, "1:3", conf="last_call_timeout=0.3") for host in range(3)]
    cluster.roll.next_world(3)
    agents[2].kill()
    pair = cluster.roll.next_ranks(2)
    assert [rank.host for rank in pair] == [0, 1]
    assert values(pair, "WORLD_SIZE") == {"2"}
    end_well(pair)
    assert [agents[0].exit_code(), agents[1].exit_code()] == [0, 0]


def test_both_ends_of_a_cut_link_notice_and_end_their_ranks(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--rdzv-conf", QUICK) for host in range(2)]
    ranks = cluster.roll.next_ranks(2)
    cut = agents_on(cluster, 1)
    cluster.hosts[1].cut(cut)
    try:
        assert agents[0].exit_code() == 1
        assert f"{cluster.hosts[1].name} (node rank 1) was lost: no sign of life for 3 s" in agents[0].errors
        ranks[0].await_end()
        if cluster.hosts[1].has_own_network:
            assert agents[1].exit_code() == 1
            assert "nothing was heard from it for 3 s" in agents[1].errors
    finally:
        cluster.hosts[1].restore(cut)
    ranks[1].await_end()
    assert agents[1].exit_code() == 1


def test_a_link_that_is_soon_restored_disturbs_nobody(cluster: Cluster):
    patient = ("--rdzv-conf", "keep_alive_interval=0.2,keep_alive_max_attempt=75")
    agents = [cluster.start_static(host, 2, *patient) for host in range(2)]
    ranks = cluster.roll.next_ranks(2)
    cut = agents_on(cluster, 1)
    cluster.hosts[1].cut(cut)
    assert ranks[0].lives_for(1)
    cluster.hosts[1].restore(cut)
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_a_host_behind_a_cut_link_joins_again_when_the_link_is_back(cluster: Cluster):
    agents, first_round = pair(cluster, *REJOINING)
    cut = agents_on(cluster, 1)
    cluster.hosts[1].cut(cut)
    try:
        agents[0].await_words(f"{cluster.hosts[1].name} (node rank 1) was lost: no sign of life for 3 s")
        first_round[0].await_end()
    finally:
        cluster.hosts[1].restore(cut)
    assert_goes_on(cluster, agents)  # its launcher has looked for the others ever since
    first_round[1].await_end()


def test_a_restarted_launcher_joins_again_after_a_cut_link(cluster: Cluster):
    agents, first_round = pair(cluster, *REJOINING)
    cut = agents_on(cluster, 1)
    cluster.hosts[1].cut(cut)
    try:
        agents[0].await_words(f"{cluster.hosts[1].name} (node rank 1) was lost")
        agents[1].kill()
    finally:
        cluster.hosts[1].restore(agents_on(cluster, 1))
    for rank in first_round:
        rank.await_end()
    agents[1] = cluster.start_static(1, 2, *REJOINING)
    ranks = cluster.roll.next_ranks(2)
    assert values(ranks, "WORLD_SIZE") == {"2"}
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_a_host_that_slept_joins_again(cluster: Cluster):
    agents, first_round = pair(cluster, *REJOINING)
    agents[1].signal(signal.SIGSTOP)
    first_round[0].await_end()
    agents[1].signal(signal.SIGCONT)
    first_round[1].await_end()
    assert_goes_on(cluster, agents)


def test_a_leader_that_slept_is_not_alone_when_it_wakes(cluster: Cluster):
    agents, first_round = pair(cluster, *REJOINING)
    agents[0].signal(signal.SIGSTOP)
    agents[1].await_words("nothing was heard from it for 3 s")
    first_round[1].await_end()
    agents[0].signal(signal.SIGCONT)
    first_round[0].await_end()
    assert_goes_on(cluster, agents)


def test_a_replacement_on_another_host_gets_the_place_of_a_host_behind_a_cut_link(cluster: Cluster):
    agents, first_round = pair(cluster, *REJOINING)
    cut = agents_on(cluster, 1)
    cluster.hosts[1].cut(cut)
    try:
        time.sleep(1)  # silent for longer than is usual, and not yet for as long as makes it lost
        meeting = ("--master-addr", cluster.hosts[0].address, "--master-port", str(cluster.port))
        replacement = cluster.start(2, "--nnodes", "2", "--node-rank", "1", *meeting, *REJOINING)
        first_round[0].await_end()
        ranks = cluster.roll.next_ranks(2)
        assert [(rank.host, *rank.numbers("RANK", "WORLD_SIZE")) for rank in ranks] == [(0, 0, 2), (2, 1, 2)]
        agents[1].kill()
    finally:
        cluster.hosts[1].restore(agents_on(cluster, 1))
    end_well(ranks)
    assert [agents[0].exit_code(), replacement.exit_code()] == [0, 0]


@pytest.mark.parametrize("start", ["static", "dynamic"])
def test_the_others_end_when_the_launcher_that_leads_is_killed(cluster: Cluster, start: str):
    def begin(host: int) -> Agent:
        return cluster.start_static(host, 3) if start == "static" else cluster.start_dynamic(host, "3")

    agents = [begin(host) for host in range(3)]
    ranks = cluster.roll.next_ranks(3)
    agents[0].kill()
    for rank in ranks:
        rank.await_end()
    for survivor in agents[1:]:
        assert survivor.exit_code() == 1
        assert "the coordinator of the run is gone: its connection ended" in survivor.errors
    assert eventually(lambda: not cluster.processes())


def test_a_new_leader_at_the_same_address_is_found_by_the_others(cluster: Cluster):
    agents = [cluster.start_static(host, 2, "--max-restarts", "1") for host in range(2)]
    first_round = cluster.roll.next_ranks(2)
    agents[0].kill()
    for rank in first_round:
        rank.await_end()
    agents[0] = cluster.start_static(0, 2, "--max-restarts", "1")
    ranks = assert_goes_on(cluster, agents)
    assert share_one_store(ranks), [rank.store for rank in ranks]


def test_hosts_that_look_for_a_lost_leader_give_up_after_the_join_timeout(cluster: Cluster):
    settings = ("--max-restarts", "1", "--rdzv-conf", "join_timeout=8")
    agents = [cluster.start_static(host, 2, *settings) for host in range(2)]
    cluster.roll.next_ranks(2)
    agents[0].kill()
    assert agents[1].exit_code() == 1
    assert f"no answer from {cluster.hosts[0].address}:{cluster.port}" in agents[1].errors
