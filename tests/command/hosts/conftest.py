"""`muster launch` on several hosts."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cluster import Cluster  # noqa: E402
from host_network import Network  # noqa: E402

network_kind = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def network(request: pytest.FixtureRequest):
    network = Network()
    request.config.stash[network_kind] = network.kind
    yield network
    network.close()


@pytest.fixture
def cluster(network: Network):
    """Four hosts without a launcher. A test in which a process survives has failed."""
    cluster = Cluster(network)
    try:
        yield cluster
        assert cluster.nothing_is_left(), f"still running: {cluster.processes()}"
    finally:
        cluster.close()


# Tests run in processes of their own; what they found out is told here.
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput") and network_kind in session.config.stash:
        session.config.workeroutput["hosts"] = session.config.stash[network_kind]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    if "hosts" in getattr(node, "workeroutput", {}):
        node.config.stash[network_kind] = node.workeroutput["hosts"]


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if network_kind in config.stash:
        terminalreporter.write_line(f"hosts were {config.stash[network_kind]}")
