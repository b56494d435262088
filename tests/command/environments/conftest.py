import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "train"))
sys.path.insert(0, str(HERE))

from classroom_fixtures import classroom, data_program  # noqa: E402, F401
from environment_servers import PROGRAM, ROOT, start  # noqa: E402


@pytest.fixture(scope="session")
def protocol(tmp_path_factory):
    """The messages (`.messages`) and the stub's class (`.Stub`), as grpcio-tools generates them."""
    from grpc_tools import protoc

    folder = tmp_path_factory.mktemp("protocol")
    source = ROOT / "engine/environment_server"
    assert protoc.main(["protoc", f"--proto_path={source}", f"--python_out={folder}", f"--grpc_python_out={folder}", "environment.proto"]) == 0
    sys.path.insert(0, str(folder))
    messages, services = importlib.import_module("environment_pb2"), importlib.import_module("environment_pb2_grpc")
    return messages, services.EnvironmentServiceStub


@pytest.fixture
def serve(protocol):
    """serve(words…): a server; it ends with the test."""
    servers = []

    def begin(*words, **environment):
        servers.append(start(protocol, *words, **environment))
        return servers[-1]

    yield begin
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@pytest.fixture
def refusal():
    """refusal(words…): exit code and words of a server that does not start."""

    def begin(*words, program=PROGRAM, **environment):
        done = subprocess.run([str(program), "serve-environments", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, env={**os.environ, **environment})
        return done.returncode, done.stderr

    return begin
