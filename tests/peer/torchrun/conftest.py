"""Scenarios run once a session, under torchrun and under muster launch, side by side."""

import pytest
from launchers import Launchers, Pair


@pytest.fixture(scope="session")
def launchers(tmp_path_factory):
    all_runs = Launchers(tmp_path_factory.mktemp("launch"))
    yield all_runs
    all_runs.end()


@pytest.fixture(scope="session")
def both(launchers):
    """both(ARGUMENTS...) -> Pair, the same object for the same arguments."""
    known: dict[str, Pair] = {}

    def run(*arguments, muster_arguments=None, **settings) -> Pair:
        key = repr((arguments, muster_arguments, sorted(settings.items())))
        if key not in known:
            of_torchrun = launchers.torchrun(arguments, **settings)
            of_muster = launchers.muster(arguments if muster_arguments is None else muster_arguments, **settings)
            known[key] = Pair(of_torchrun.outcome(), of_muster.outcome())
        return known[key]

    return run
