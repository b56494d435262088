"""The ranks of a group, called together before each operation, so that a failure can name the missing ranks.

Note [Roll call]
Each rank writes into the group's store what it is about to do, with a running number: a message that nobody waits
for. Then all exchange that number and a hash of the words over a Gloo group. That exchange waits for every rank,
notices a dead one at once and a stopped one after the timeout, and finds ranks that call something else or bring
another shape, before they meet in an operation that would hang or end the process. When it fails, the store tells how
far each rank came. NCCL alone could do none of this: its watchdog ends the process from outside.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import Any, Optional

from ._torch import loaded_process_group

_STORE_PATIENCE = 10.0  # seconds for a store to answer; one whose process is stopped never does
_GRACE = 5.0  # seconds in which ranks that failed together say so
_AT, _DONE, _FAILED, _GAVE_UP = "at", "done", "failed", "gave-up"


class CollectiveError(RuntimeError):
    """An operation of all ranks that could not end. The group cannot be used any more."""

    def __init__(self, message: str, operation: str, missing: list[int]):
        super().__init__(message)
        self.operation = operation
        self.missing = missing  # the ranks that did not arrive, or stopped inside


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """The timeout of the group was over before all ranks arrived."""


@dataclass(frozen=True)
class _Record:
    """What a rank last reported."""

    number: int = 0
    state: str = _DONE
    operation: str = ""

    @staticmethod
    def parse(text: str) -> "_Record":
        number, state, operation = text.split(" ", 2)
        return _Record(int(number), state, operation)

    def __str__(self) -> str:
        return f"{self.number} {self.state} {self.operation}"


class RollCall:
    """One for each group; every rank makes it, and calls the same operations in the same order."""

    def __init__(self, distributed: ModuleType, store: Any, timeout: timedelta, serving_rank: Optional[int]):
        self.distributed = distributed
        self.world = distributed.group.WORLD
        self.rank = int(distributed.get_rank())
        self.size = int(distributed.get_world_size())
        self._store = distributed.PrefixStore("muster/roll", store)
        self._serving_rank = serving_rank  # the rank whose process the store lives in; None: not known, or a launcher
        self._number = 0
        pairs = (pair.partition(":") for pair in str(distributed.get_backend_config()).split(","))
        self._backends = {device: backend for device, _, backend in pairs}
        self.control = self.world
        if self._backends.get("cpu") != "gloo":
            self.control = distributed.new_group(backend="gloo", timeout=timeout)

    def group_for(self, tensor: Any) -> tuple[Any, Any]:
        """The group that carries a tensor, and the device on which: its own, or the CPU where only Gloo is there."""
        backend = self._backends.get(tensor.device.type)
        if tensor.device.type == "cpu" or backend in (None, "gloo"):
            return self.control, "cpu"
        return self.world, tensor.device

    @contextmanager
    def operation(self, what: str) -> Iterator[None]:
        """Around what all ranks do together. what: the operation with all that must be the same on each rank.

        ValueError on every rank where they disagree; CollectiveError where a rank is missing.
        """
        self._number += 1
        self._tell(_AT, what)
        started = time.monotonic()
        try:
            if not self._all_agree(what):
                raise self._disagreement(what)
            yield
        except RuntimeError as error:
            gave_up = "timed out" in str(error).lower()
            self._tell(_GAVE_UP if gave_up else _FAILED, what)
            explained = self._explain(error, what, time.monotonic() - started, gave_up)
            if explained is None:
                raise
            raise explained from error
        except BaseException:
            self._tell(_FAILED, what)
            raise
        self._tell(_DONE, what)

    def _all_agree(self, what: str) -> bool:
        import torch

        digest = hashlib.blake2b(what.encode(), digest_size=8).digest()
        mine = torch.tensor([self._number, int.from_bytes(digest, "big", signed=True)])
        everyone = [torch.empty_like(mine) for _ in range(self.size)]
        self.distributed.all_gather(everyone, mine, group=self.control)
        return all(torch.equal(other, mine) for other in everyone)

    def _tell(self, state: str, what: str) -> None:
        # A store that is gone is noticed by the operation itself; the record only serves the words of its failure.
        with suppress(RuntimeError):
            self._store.set(str(self.rank), str(_Record(self._number, state, what)))

    def _records(self) -> Optional[list[_Record]]:
        """What each rank last reported; None where the store does not answer."""
        found: list[_Record] = []

        def read() -> None:
            with suppress(RuntimeError):
                for rank in range(self.size):
                    key = str(rank)
                    known = self._store.check([key])
                    found.append(_Record.parse(self._store.get(key).decode()) if known else _Record())

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(_STORE_PATIENCE)
        return found if len(found) == self.size else None

    def _records_once(self, settled: Callable[[list[_Record]], bool]) -> Optional[list[_Record]]:
        """The records, as soon as they are settled, or as they are when the grace is over."""
        deadline = time.monotonic() + _GRACE
        while True:
            records = self._records()
            if records is None or settled(records) or time.monotonic() > deadline:
                return records
            time.sleep(0.05)

    def _disagreement(self, what: str) -> ValueError:
        # Every rank has seen it and is here: the words are exchanged, not read from records that a rank may overwrite.
        calls: list[str] = [""] * self.size
        self.distributed.all_gather_object(calls, what, group=self.control)
        ranks_of: dict[str, list[int]] = {}
        for rank, call in enumerate(calls):
            ranks_of.setdefault(call, []).append(rank)
        told = "; ".join(f"{_ranks(ranks)}: {call}" for call, ranks in ranks_of.items())
        return ValueError(
            f"the ranks disagree about operation {self._number}: {told}\n"
            "  try: call the same functions in the same order on every rank, with the same shapes, types and keys"
        )

    def _explain(self, error: RuntimeError, what: str, seconds: float, gave_up: bool) -> Optional[CollectiveError]:
        """The missing ranks; None where none is, and the error speaks for itself."""
        others = [rank for rank in range(self.size) if rank != self.rank]

        def those(records: list[_Record], state: str) -> list[int]:
            return [rank for rank in others if (records[rank].number, records[rank].state) == (self._number, state)]

        def behind(records: list[_Record]) -> list[int]:
            return [rank for rank in others if records[rank].number < self._number]

        def settled(records: list[_Record]) -> bool:
            # Only after a timeout does a rank that is still inside tell anything: the others will have given up soon.
            waits = gave_up or those(records, _GAVE_UP)
            return bool(behind(records)) or not waits or not those(records, _AT)

        records = self._records_once(settled)
        if records is None:
            server = [rank for rank in others if rank == self._serving_rank]
            served = f": {_ranks(server)}, which serves it, stopped or ended" if server else ""
            return self._error(error, what, seconds, gave_up, server, f"the store does not answer{served}")
        absent, quitters = behind(records), those(records, _GAVE_UP)
        gave_up = gave_up or bool(quitters)
        inside = those(records, _AT) if gave_up else []
        with suppress(RuntimeError):
            _see_off(self._store, self.size - len(absent) - len(inside), self.rank == self._serving_rank)
        if absent:
            lasts = "; ".join(_last_seen(rank, records[rank]) for rank in absent[:8])
            return self._error(error, what, seconds, gave_up, absent, f"{_ranks(absent)} did not arrive ({lasts})")
        if inside:
            reason = f"{_ranks(inside)} arrived and stopped inside it, or ended"
            return self._error(error, what, seconds, gave_up, inside, reason)
        if quitters:
            reason = f"this rank came too late: {_ranks(quitters)} had given up waiting"
            return self._error(error, what, seconds, gave_up, [], reason)
        return None

    def _error(
        self, error: RuntimeError, what: str, seconds: float, gave_up: bool, missing: list[int], reason: str
    ) -> CollectiveError:
        kind = CollectiveTimeoutError if gave_up else CollectiveError
        happened = "timed out" if gave_up else f"failed ({str(error).splitlines()[0]})"
        look = f"look at what {_ranks(missing)} did last" if missing else "look at what the other ranks did last"
        return kind(
            f"{what} (operation {self._number}) {happened} after {seconds:.1f} s on rank {self.rank}: {reason}\n"
            f"  try: {look}; a rank that only needs longer needs a larger timeout_minutes",
            what,
            missing,
        )


def meet(
    distributed: ModuleType, store: Any, rank: int, size: int, timeout: timedelta, serving_rank: Optional[int]
) -> None:
    """Waits until every rank is at the store; CollectiveTimeoutError with those that are not."""
    started = time.monotonic()
    store = distributed.PrefixStore("muster/meeting", store)
    try:
        store.set(f"here/{rank}", "")
        store.add("here", 1)
        pause = 0.002
        # Asked again and again, since a wait of the store's own would not tell of the others' giving up.
        while not (over := store.check(["over"])) and store.add("here", 0) < size:
            if time.monotonic() - started > timeout.total_seconds():
                store.set("over", "")
                continue
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        if not over:
            return
        missing = [other for other in range(size) if not store.check([f"here/{other}"])]
        reason = f"{_ranks(missing)} did not arrive" if missing else "this rank came too late: the others had given up"
        _see_off(store, size - len(missing), rank == serving_rank)
    except distributed.DistNetworkError as error:
        server = "the launcher" if serving_rank is None else f"rank {serving_rank}"
        raise CollectiveError(
            f"init_distributed failed on rank {rank} of {size}: {server}, which serves the store, has ended\n"
            f"  try: look at what {server} did last",
            "init_distributed",
            [] if serving_rank is None else [serving_rank],
        ) from error
    raise CollectiveTimeoutError(
        f"init_distributed timed out after {time.monotonic() - started:.1f} s on rank {rank} of {size}: {reason}\n"
        "  try: look at why a rank did not start, or how it ended; one that is slow needs a larger timeout_minutes",
        "init_distributed",
        missing,
    )


def _see_off(store: Any, expected: int, serving: bool) -> None:
    """Each rank that has read why it fails says so; the one that serves the store ends after the others, if it can."""
    seen = store.add("seen", 1)
    deadline = time.monotonic() + _GRACE
    while serving and seen < expected and time.monotonic() < deadline:
        time.sleep(0.02)
        seen = store.add("seen", 0)


@dataclass
class _Session:
    """The group is a fact of the whole process, and so is its roll call."""

    roll_call: Optional[RollCall] = None


_session = _Session()


def begin(store: Any, timeout: timedelta, serving_rank: Optional[int]) -> None:
    """To be called by every rank right after the group was initialised."""
    import torch.distributed

    _session.roll_call = RollCall(torch.distributed, store, timeout, serving_rank)


def current_roll_call() -> Optional[RollCall]:
    """Of the initialised group, whoever made it; None without a group."""
    distributed = loaded_process_group()
    if distributed is None:
        _session.roll_call = None
    elif _session.roll_call is None or _session.roll_call.world is not distributed.group.WORLD:
        # The caller made the group: torch alone knows its store.
        from torch.distributed.distributed_c10d import _get_default_store

        _session.roll_call = RollCall(distributed, _get_default_store(), timedelta(minutes=30), None)
    return _session.roll_call


def _ranks(ranks: Iterable[int]) -> str:
    """"rank 2", "ranks 1, 3-5"."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    texts = [str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts]
    return f"{'rank' if len(parts) == 1 and len(parts[0]) == 1 else 'ranks'} {', '.join(texts)}"


def _last_seen(rank: int, record: _Record) -> str:
    if record.number == 0:
        return f"rank {rank}: no operation yet"
    return f"rank {rank}: last at operation {record.number}, {record.operation}"
