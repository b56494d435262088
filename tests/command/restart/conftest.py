import pathlib

import pytest
from training_runs import EVALUATED, Run, Training


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Of prepared data, for all runs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def training(tmp_path: pathlib.Path, cache: pathlib.Path) -> Training:
    return Training(tmp_path, cache)


@pytest.fixture
def evaluating(tmp_path: pathlib.Path, cache: pathlib.Path) -> Training:
    training = Training(tmp_path, cache)
    training.job |= EVALUATED
    return training


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory, cache: pathlib.Path) -> Run:
    """The job that evaluates, undisturbed."""
    undisturbed = Training(tmp_path_factory.mktemp("evaluated"), cache)
    undisturbed.job |= EVALUATED
    ended = undisturbed()
    assert ended.returncode == 0, ended.stderr
    return undisturbed.run()


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, cache: pathlib.Path) -> Run:
    """The same job that nobody disturbed."""
    undisturbed = Training(tmp_path_factory.mktemp("whole"), cache)
    ended = undisturbed()
    assert ended.returncode == 0, ended.stderr
    return undisturbed.run()
