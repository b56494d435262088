"""Hosts on one machine: network namespaces joined by a bridge or, where those are not permitted, loopback addresses."""

import os
import pathlib
import signal
import subprocess
import tempfile


class Host:
    """One host. Its commands run where its addresses are, under its own name."""

    def __init__(self, index: int, name: str, address: str, address_6: str):
        self.index = index
        self.name = name
        self.address = address
        self.address_6 = address_6
        self.node_name = name  # as the other hosts can find it

    def command(self, arguments: list[str]) -> list[str]:
        return arguments

    def cut(self, agents: list[int]) -> None:
        """Nothing passes between this host and the others any more. agents: the launchers that run on it."""
        raise NotImplementedError

    def restore(self, agents: list[int]) -> None:
        raise NotImplementedError


class LoopbackHost(Host):
    """Shares the machine's name. It is cut off as far as others can see: what runs on it is stopped."""

    has_own_network = False

    def __init__(self, index: int):
        super().__init__(index, os.uname().nodename, f"127.0.0.{index + 2}", "::1")
        self.node_name = self.address

    def cut(self, agents: list[int]) -> None:
        for pid in agents:
            os.kill(pid, signal.SIGSTOP)

    def restore(self, agents: list[int]) -> None:
        for pid in agents:
            os.kill(pid, signal.SIGCONT)


class Namespace:
    """Kernel namespaces that live as long as this object: their only process waits for the end of its input."""

    def __init__(self, preparation: str, *, names_and_files: bool):
        kinds = ["--net", "--uts", "--mount"] if names_and_files else ["--net"]
        self.process = subprocess.Popen(
            ["unshare", *kinds, "sh", "-ec", f"{preparation}\necho ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.enter = ["nsenter", "--target", str(self.process.pid), *kinds, "--"]
        if self.process.stdout.readline() != b"ready\n":
            self.close()
            raise OSError("namespaces are not permitted")

    def run_ip(self, *commands: str) -> None:
        subprocess.run([*self.enter, "ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class NamespaceHost(Host):
    """Has a network, a name and an /etc/hosts of its own."""

    has_own_network = True

    def __init__(self, index: int, files: pathlib.Path, switch: Namespace):
        super().__init__(index, f"node-{index}", f"10.77.0.{index + 1}", f"fd00:77::{index + 1}")
        self.switch = switch
        # Names are looked up in files alone: no server is asked, wherever the tests run.
        self.namespace = Namespace(
            f"hostname {self.name}\n"
            f"mount --bind {files}/hosts /etc/hosts\n"
            f"mount --bind {files}/nsswitch.conf /etc/nsswitch.conf\n"
            "ip link set lo up",
            names_and_files=True,
        )
        try:
            switch.run_ip(
                f"link add port{index} type veth peer name uplink netns {self.namespace.process.pid}",
                f"link set port{index} master bridge up",
            )
            self.namespace.run_ip(
                f"address add {self.address}/24 dev uplink",
                f"address add {self.address_6}/64 dev uplink nodad",
                "link set uplink up",
            )
        except BaseException:
            self.namespace.close()
            raise

    def command(self, arguments: list[str]) -> list[str]:
        return [*self.namespace.enter, *arguments]

    def cut(self, agents: list[int]) -> None:
        self.switch.run_ip(f"link set port{self.index} down")

    def restore(self, agents: list[int]) -> None:
        self.switch.run_ip(f"link set port{self.index} up")


class Network:
    """Four hosts that reach each other."""

    size = 4

    def __init__(self) -> None:
        self.open_namespaces: list[Namespace] = []
        self.files = tempfile.TemporaryDirectory(prefix="launch-hosts-")
        try:
            if os.environ.get("LAUNCH_HOSTS_NETWORK") == "loopback":
                raise OSError("loopback addresses are asked for")
            self.hosts: list[Host] = self.join_namespaces(pathlib.Path(self.files.name))
            self.kind = "network namespaces"
        except (OSError, subprocess.CalledProcessError) as reason:
            self.close()
            self.hosts = [LoopbackHost(index) for index in range(self.size)]
            self.kind = f"loopback addresses ({reason})"

    def join_namespaces(self, files: pathlib.Path) -> list[Host]:
        names = "".join(f"10.77.0.{index + 1} node-{index}\n" for index in range(self.size))
        (files / "hosts").write_text("127.0.0.1 localhost\n" + names)
        (files / "nsswitch.conf").write_text("hosts: files\n")
        # The bridge has a namespace of its own, too: the machine's network is left alone.
        switch = Namespace("ip link add bridge type bridge\nip link set bridge up", names_and_files=False)
        self.open_namespaces.append(switch)
        hosts: list[Host] = []
        for index in range(self.size):
            host = NamespaceHost(index, files, switch)
            self.open_namespaces.append(host.namespace)
            hosts.append(host)
        return hosts

    def close(self) -> None:
        while self.open_namespaces:
            self.open_namespaces.pop().close()
        self.files.cleanup()
