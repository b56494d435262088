"""The test's end of the conversations with ranks: each connects when it runs, and its connection ends when it does."""

import json
import pathlib
import socket
import time

PATIENCE = 120.0  # seconds for what must happen, on however busy a machine


class Rank:
    """A running rank, as rank.py describes itself."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.connection.settimeout(PATIENCE)
        self.unread = b""
        told = json.loads(self.next_word() or "{}")
        self.pid: int = told["pid"]
        self.environment: dict[str, str] = told["environment"]
        self.store: dict = told["store"]
        self.host = int(self.environment["LAUNCH_HOSTS_HOST"])

    def number(self, name: str) -> int:
        return int(self.environment[name])

    def numbers(self, *names: str) -> tuple[int, ...]:
        return tuple(self.number(name) for name in names)

    def next_word(self, patience: float = PATIENCE) -> str | None:
        """The next line it says; None once it has ended."""
        self.connection.settimeout(patience)
        while b"\n" not in self.unread:
            try:
                data = self.connection.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode()

    def order(self, text: str) -> None:
        self.connection.sendall(text.encode() + b"\n")

    def catch(self, *signals: str) -> None:
        self.order("catch " + " ".join(signals))
        assert self.next_word() == "catching"

    def await_end(self) -> None:
        while self.next_word() is not None:
            pass

    def lives_for(self, seconds: float) -> bool:
        try:
            word = self.next_word(seconds)
        except TimeoutError:
            return True
        return word is not None


class RollCall:
    def __init__(self, folder: pathlib.Path):
        self.path = folder / "roll"
        self.ranks: list[Rank] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(64)

    def next_rank(self, deadline: float) -> Rank:
        self.listener.settimeout(max(deadline - time.monotonic(), 0.001))
        connection, _ = self.listener.accept()
        self.ranks.append(Rank(connection))
        return self.ranks[-1]

    def next_ranks(self, count: int, *, of_world: int | None = None) -> list[Rank]:
        """The next so many that come, by RANK. of_world: those of worlds of other sizes are passed over."""
        deadline = time.monotonic() + PATIENCE
        came: list[Rank] = []
        while len(came) < count:
            try:
                rank = self.next_rank(deadline)
            except TimeoutError:
                raise AssertionError(f"{len(came)} of {count} ranks came within {PATIENCE:.0f} s") from None
            if of_world in (None, rank.number("WORLD_SIZE")):
                came.append(rank)
        return sorted(came, key=lambda rank: rank.number("RANK"))

    def next_world(self, size: int) -> list[Rank]:
        """All ranks of the next world of that size. Hosts that come slowly make smaller ones on the way there."""
        return self.next_ranks(size, of_world=size)

    def nobody_else_came(self) -> bool:
        self.listener.settimeout(0)
        try:
            connection, _ = self.listener.accept()
        except BlockingIOError:
            return True
        connection.close()
        return False

    def close(self) -> None:
        for rank in self.ranks:
            rank.connection.close()
        self.listener.close()


def end_well(ranks: list[Rank]) -> None:
    for rank in ranks:
        rank.order("exit 0")


def places(ranks: list[Rank]) -> list[tuple[int, ...]]:
    """Of each its host, GROUP_RANK, RANK, LOCAL_RANK and LOCAL_WORLD_SIZE."""
    return [(rank.host, *rank.numbers("GROUP_RANK", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")) for rank in ranks]


def share_one_store(ranks: list[Rank]) -> bool:
    """Each rank reaches it, and it has counted all of them."""
    return all(rank.store["answers"] for rank in ranks) and sorted(rank.store["position"] for rank in ranks) == list(
        range(1, len(ranks) + 1)
    )


def values(ranks: list[Rank], name: str) -> set[str]:
    return {rank.environment[name] for rank in ranks}
