import pytest

from sandbox_driver import SandboxDriver


@pytest.fixture(scope="module", params=["namespaces", "Landlock"])
def judge(request):
    driver = SandboxDriver(request.param)
    if driver.judge("", "assert True") is None:
        pytest.skip(f"this kernel does not grant {request.param}")
    yield driver.judge
    driver.close()
