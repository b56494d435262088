"""Who may take part in a run, reach its port, and use its store."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from cluster import Cluster, eventually
from roll_call import end_well

STRANGER = pathlib.Path(__file__).with_name("stranger.py")
NOBODY = "65534"
needs_networks = "each host needs a network of its own"


def tries(cluster: Cluster, host: int, *attempts: str, address: str | None = None, port: int = 0, user: str = "") -> list:
    """What came of a stranger's attempts from a host, as another user where one is given."""
    words = [sys.executable, "-I", "-S", str(STRANGER), address or cluster.hosts[0].address]
    done = subprocess.run(
        cluster.hosts[host].command([*words, str(port or cluster.port), *attempts]),
        env={**os.environ, "STRANGER_USER": user},
        stdout=subprocess.PIPE,
        text=True,
        timeout=280,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def started(cluster: Cluster, *arguments: str):
    """A run of two hosts that is under way."""
    agents = [cluster.start_static(host, 2, "--rdzv-id", "apples", *arguments) for host in (0, 1)]
    return agents, cluster.roll.next_ranks(2)


def test_a_stranger_can_neither_join_nor_end_a_run_and_learns_nothing(cluster: Cluster):
    agents, ranks = started(cluster)
    attempts = ("many-ranks", "place-of-another", "failed", "guess")
    for heard in tries(cluster, 2, *attempts):
        assert heard["closed"], heard
        assert "apples" not in heard["heard"] and cluster.hosts[1].name + " " not in heard["heard"]
        assert '"welcome"' not in heard["heard"]
    (hello,) = tries(cluster, 2, "hello")
    assert json.loads(hello["heard"].splitlines()[0]).keys() == {"message", "nonce"}
    assert all(rank.lives_for(0.5) for rank in ranks)
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]
    assert "\x1b" not in agents[0].errors + agents[1].errors


def test_the_store_is_closed_to_addresses_that_are_not_of_the_run(cluster: Cluster):
    if not cluster.hosts[0].has_own_network:
        pytest.skip(needs_networks)
    agents, ranks = started(cluster)
    for heard in tries(cluster, 2, "overwrite", "read"):
        assert heard == {"reached": True, "closed": True, "heard": ""}
    (member,) = tries(cluster, 1, "read")  # an address of the run is all that torch's own client can show
    assert member["heard"] == "\0" * 8 and not member["closed"]
    agents[0].await_words("which is not the address of a host of the run")
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_the_port_is_bound_to_the_endpoint_s_address_alone(cluster: Cluster):
    agents, ranks = started(cluster)
    other = "127.0.0.1" if cluster.hosts[0].has_own_network else "127.0.0.9"
    (heard,) = tries(cluster, 0, "hello", address=other)
    assert not heard["reached"], heard
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("hosts", [1, 2])
def test_the_store_is_closed_to_other_users_of_the_host(cluster: Cluster, hosts: int):
    if hosts == 1:
        agents = [cluster.start(0, "--nproc-per-node", "2")]
        ranks = cluster.roll.next_ranks(2)
    else:
        agents, ranks = started(cluster)
    assert all(rank.store["answers"] for rank in ranks)
    place = {"address": ranks[0].environment["MASTER_ADDR"], "port": ranks[0].number("MASTER_PORT")}
    for heard in tries(cluster, 0, "overwrite", "read", user=NOBODY, **place):
        assert heard == {"reached": True, "closed": True, "heard": ""}
    (own,) = tries(cluster, 0, "read", **place)
    assert own["heard"] == "\0" * 8 and not own["closed"]
    agents[0].await_words(f"a process of user {NOBODY} on this host")
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0] * hosts


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_insecure_opens_the_store_to_everybody(cluster: Cluster):
    agents, ranks = started(cluster, "--insecure")
    for heard in tries(cluster, 2, "read", user=NOBODY):
        assert heard["heard"] == "\0" * 8
    assert not cluster.secret.exists()
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_an_agent_cannot_join_a_run_of_one_host(cluster: Cluster):
    agent = cluster.start(0)
    ranks = cluster.roll.next_ranks(1)
    place = {"address": ranks[0].environment["MASTER_ADDR"], "port": ranks[0].number("MASTER_PORT")}
    assert tries(cluster, 0, "hello", **place) == [{"reached": True, "closed": True, "heard": ""}]
    assert not cluster.secret.exists()
    end_well(ranks)
    assert agent.exit_code() == 0


def test_the_first_host_makes_the_secret_for_its_owner_alone(cluster: Cluster):
    agents, ranks = started(cluster)
    assert cluster.secret.stat().st_mode & 0o777 == 0o600
    secret = cluster.secret.read_text().strip()
    assert re.fullmatch("[0-9a-f]{64}", secret)
    for process in (agents[0].process.pid, ranks[0].pid):
        assert secret.encode() not in pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    assert all(secret not in str(rank.environment) for rank in ranks)
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_hosts_with_a_secret_in_a_variable_share_no_file(cluster: Cluster):
    secret = {"MUSTER_RDZV_SECRET": "a secret of the two hosts"}
    agents = [cluster.start_static(host, 2, MUSTER_STATE=f"{cluster.folder}/{host}", **secret) for host in (0, 1)]
    ranks = cluster.roll.next_ranks(2)
    assert all("MUSTER_RDZV_SECRET" not in rank.environment for rank in ranks)
    assert not list(cluster.folder.glob("**/rendezvous-secret"))
    end_well(ranks)
    assert [agent.exit_code() for agent in agents] == [0, 0]


def test_a_host_that_has_another_secret_is_told_and_the_run_begins_without_it(cluster: Cluster):
    leader = cluster.start_static(0, 2, MUSTER_RDZV_SECRET="the secret of the leader")
    wrong = cluster.start_static(1, 2, MUSTER_RDZV_SECRET="the secret of another")
    assert wrong.exit_code() == 1
    assert "this host's secret is not the one of the run" in wrong.errors
    insecure = cluster.start_static(1, 2, "--insecure")
    assert insecure.exit_code() == 1
    assert "this host's secret is not the one of the run" in insecure.errors
    friend = cluster.start_static(1, 2, MUSTER_RDZV_SECRET="the secret of the leader")
    end_well(cluster.roll.next_ranks(2))
    assert [leader.exit_code(), friend.exit_code()] == [0, 0]


def test_a_host_without_the_file_says_so_and_joins_once_it_is_there(cluster: Cluster):
    leader = cluster.start_static(0, 2, MUSTER_STATE=f"{cluster.folder}/first")
    mine = cluster.folder / "second" / "rendezvous-secret"
    other = cluster.start_static(1, 2, MUSTER_STATE=str(mine.parent))
    other.await_words(f"waiting for {mine}, the secret of the run")
    made = cluster.folder / "first" / "rendezvous-secret"
    assert eventually(made.exists)
    mine.parent.mkdir(exist_ok=True)
    subprocess.run(["cp", "-p", str(made), str(mine)], check=True)
    end_well(cluster.roll.next_ranks(2))
    assert [leader.exit_code(), other.exit_code()] == [0, 0]


def test_a_host_whose_file_never_comes_says_what_to_do(cluster: Cluster):
    leader = cluster.start_static(0, 2, MUSTER_STATE=f"{cluster.folder}/first")
    leader.await_words("waiting: 1 of 2 hosts is here")
    other = cluster.start_static(1, 2, "--rdzv-conf", "join_timeout=4", MUSTER_STATE=f"{cluster.folder}/second")
    assert other.exit_code() == 1
    assert "did not appear on this host within 4 s" in other.errors and "MUSTER_RDZV_SECRET" in other.errors
    leader.signal(15)
    assert leader.exit_code() == 1


@pytest.mark.parametrize("mode, problem", [(0o644, "is open to other users (mode 644)"), (0o600, "16 at least")])
def test_a_secret_that_is_none_is_refused(cluster: Cluster, mode: int, problem: str):
    file = cluster.folder / "mine"
    file.write_text("0123456789abcdef0123456789abcdef\n" if mode == 0o644 else "short\n")
    file.chmod(mode)
    agent = cluster.start_static(0, 2, "--rdzv-secret-file", str(file))
    assert agent.exit_code() == 2
    assert problem in agent.errors


def megabytes_at_most(process: int) -> int:
    """The most memory a process has had."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{process}/status").read_text())[1]) // 1024


def test_unfinished_requests_hold_bounded_memory_and_the_store_answers_on(cluster: Cluster):
    agent = cluster.start(0)
    (rank,) = cluster.roll.next_ranks(1)
    place = (rank.environment["MASTER_ADDR"], str(rank.number("MASTER_PORT")))
    words = cluster.hosts[0].command([sys.executable, "-I", "-S", str(STRANGER), *place, "unfinished"])
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    assert 3 <= json.loads(done.stdout)["dropped"] < 8
    assert megabytes_at_most(agent.process.pid) < 400  # 8 requests of 60 MiB that never end
    (own,) = tries(cluster, 0, "read", address=place[0], port=int(place[1]))
    assert own["heard"] == "\0" * 8
    end_well([rank])
    assert agent.exit_code() == 0
