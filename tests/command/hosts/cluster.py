"""The hosts of one test, the launchers on them, and the ranks that those start."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

from free_port import free_port
from host_network import Host, Network
from roll_call import PATIENCE, RollCall

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("MUSTER_TEST_PROGRAM", ROOT / "build/engine/apps/cli/muster"))
RANK = pathlib.Path(__file__).with_name("rank.py")
SLOW_AGENT = pathlib.Path(__file__).with_name("slow_agent.py")
MARK = "LAUNCH_HOSTS_MARK"
OTHERS_SETTINGS = ("MUSTER_", "CUDA_", "SLURM_", "PET_", "TORCH", "OMP_", "LAUNCH_HOSTS_", "ENVIRONMENT", "MASTER_")


def eventually(holds, patience: float = PATIENCE) -> bool:
    """Whether it comes to hold."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Agent:
    """One `muster launch`."""

    def __init__(self, host: Host, process: subprocess.Popen, output: pathlib.Path, errors: pathlib.Path):
        self.host = host
        self.process = process
        self.output_file = output
        self.errors_file = errors

    @property
    def errors(self) -> str:
        return self.errors_file.read_text()

    @property
    def output(self) -> str:
        return self.output_file.read_text()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def exit_code(self) -> int:
        """Waits for the end."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the launcher on {self.host.name} does not end; it said:\n{self.errors}") from None

    def await_words(self, text: str) -> None:
        assert eventually(lambda: text in self.errors), f'"{text}" was never said; this was:\n{self.errors}'


class Cluster:
    def __init__(self, network: Network):
        self.network = network
        self.hosts = network.hosts
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="launch-hosts-"))  # short: a socket's name has 107 bytes
        self.secret = self.folder / "state" / "rendezvous-secret"  # the first host to lead makes it
        self.roll = RollCall(self.folder)
        self.agents: list[Agent] = []
        self.mark = uuid.uuid4().hex
        self.port = free_port()
        (self.folder / "gpus.yaml").write_text("gpus: []\n")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(OTHERS_SETTINGS)
        } | {
            "MUSTER_GPUS": str(self.folder / "gpus.yaml"),
            "MUSTER_LEASE_DIR": str(self.folder / "leases"),
            "MUSTER_STATE": str(self.folder / "state"),
            "LAUNCH_HOSTS_ROLL": str(self.roll.path),
            "TMPDIR": str(self.folder),
            "PYTHON_EXEC": sys.executable,
            MARK: self.mark,
        }

    def start(self, host: int, *arguments: str, program: tuple[str, ...] | None = None, **variables: str) -> Agent:
        """`muster launch ARGUMENTS -- rank.py` on a host."""
        words = program or ("--", sys.executable, "-I", "-S", str(RANK))
        return self.start_command(host, "launch", *arguments, *words, **variables)

    def start_command(self, host: int, *words: str, **variables: str) -> Agent:
        """`muster WORDS` on a host."""
        place = self.hosts[host]
        output = self.folder / f"agent-{len(self.agents)}.out"
        errors = self.folder / f"agent-{len(self.agents)}.err"
        with output.open("wb") as output_stream, errors.open("wb") as error_stream:
            process = subprocess.Popen(
                place.command([str(PROGRAM), *words]),
                env={**self.environment, "LAUNCH_HOSTS_HOST": str(host), **variables},
                stdin=subprocess.DEVNULL,
                stdout=output_stream,
                stderr=error_stream,
                cwd=self.folder,
            )
        self.agents.append(Agent(place, process, output, errors))
        return self.agents[-1]

    def start_static(
        self, host: int, hosts: int, *arguments: str, leader: str | None = None, port: int | None = None, **further
    ) -> Agent:
        """The host takes the place of its number."""
        places = ("--nnodes", str(hosts), "--node-rank", str(host))
        meeting = ("--master-addr", leader or self.hosts[0].address, "--master-port", str(port or self.port))
        return self.start(host, *places, *meeting, *arguments, **further)

    def start_dynamic(self, host: int, hosts: str, *arguments: str, conf: str = "read_timeout=60") -> Agent:
        """The hosts meet at the first one; their places follow from their coming."""
        if not self.hosts[0].has_own_network:  # every host has the endpoint's address: the first is told to serve
            conf += f",is_host={str(host == 0).lower()}"
        endpoint = f"{self.hosts[0].address}:{self.port}"
        meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "meeting", "--rdzv-conf", conf)
        return self.start(host, "--nnodes", hosts, *meeting, *arguments)

    def processes(self) -> list[int]:
        """Everything that the agents of this test started, and they themselves."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def nothing_is_left(self) -> bool:
        return eventually(lambda: not self.processes())

    def close(self) -> None:
        """Ends whatever a failed test left. pytest shows what is printed where the test has failed."""
        for agent in self.agents:
            facts = f"{agent.host.node_name}, pid {agent.process.pid}, exit code {agent.process.poll()}"
            print(f"--- {facts}:\n{agent.errors}")
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for agent in self.agents:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    agent.process.wait(0.05)
        self.roll.close()
        shutil.rmtree(self.folder)
