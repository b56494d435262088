import pytest

from map_maker import MapMaker


@pytest.fixture(scope="module")
def maker():
    program = MapMaker()
    yield program
    program.close()
