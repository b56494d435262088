"""Servers of environments, started as a user starts them, and clients that Google's own compiler made of the protocol."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))


@dataclasses.dataclass
class Server:
    process: subprocess.Popen
    told: dict
    protocol: tuple

    @property
    def address(self):
        return self.told["address"]

    @contextlib.contextmanager
    def client(self, token=None):
        with grpc.insecure_channel(self.address, options=[("grpc.max_send_message_length", -1)]) as channel:
            yield Client(self.protocol, channel, token)

    def end(self, number=signal.SIGTERM):
        """Its exit code, and what it said on standard error."""
        self.process.send_signal(number)
        text = self.process.communicate(timeout=60)[1]
        return self.process.returncode, text


class Client:
    def __init__(self, protocol, channel, token=None):
        self.messages, stub = protocol
        self.stub = stub(channel)
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def call(self, method, request):
        return getattr(self.stub, method)(request, metadata=self.metadata, timeout=60)

    def reset(self, environment, row=None, **config):
        if row is not None:
            config["row"] = json.dumps(row)
        return self.call("Reset", self.messages.ResetRequest(environment_id=environment, config={key: str(value) for key, value in config.items()}))

    def request(self, session, text, **metadata):
        action = self.messages.MessageProto(role="assistant", content=text, metadata=metadata)
        return self.messages.StepRequest(session_id=session, action=action)

    def step(self, session, text, **metadata):
        return self.call("Step", self.request(session, text, **metadata))

    def play(self, environment, row, *answers):
        """The last step of an episode that begins with row."""
        session = self.reset(environment, row).session_id
        return [self.step(session, answer) for answer in answers][-1]


def start(protocol, *words, **environment):
    port = () if "-p" in words else ("-p", "0")
    command = [str(PROGRAM), "serve-environments", "--json", *port, *map(str, words)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **environment})
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return Server(process, json.loads(line), protocol)
