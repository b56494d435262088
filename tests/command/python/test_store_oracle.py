"""Our store against torch's: each client with each server, and the same conversations with both servers."""

import random
import struct

import pytest
from store_peers import (
    ADD,
    APPEND,
    BARRIER,
    CANCEL_WAIT,
    CHECK,
    COMPARE_SET,
    DELETE_KEY,
    GET,
    GETNUMKEYS,
    MULTI_GET,
    MULTI_SET,
    QUEUE_LEN,
    QUEUE_POP,
    QUEUE_PUSH,
    SET,
    WAIT,
    MusterServer,
    RawClient,
    Driver,
    StoreError,
    TorchServer,
    text,
    texts,
)

WORLD_SIZE = 4


@pytest.fixture(scope="module")
def torch_drivers():
    """Processes that have imported torch, which takes its time: one each for the whole module."""
    drivers = [Driver.torch() for _ in range(WORLD_SIZE)]
    yield drivers
    for driver in drivers:
        driver.close()


@pytest.fixture
def torch_server(torch_drivers):
    server = TorchServer(torch_drivers[-1])
    yield server
    server.close()


@pytest.fixture
def muster_server():
    server = MusterServer()
    yield server
    server.close()


# torch with torch is there to show that what is asked here is what torch does.
@pytest.fixture(params=["torch client, muster server", "muster client, torch server", "torch client, torch server"])
def clients(request, torch_drivers):
    """Three clients of one new store."""
    client_kind, server_kind = request.param.split(", ")
    server = request.getfixturevalue(server_kind.replace(" ", "_"))
    ours = [Driver.muster() for _ in range(3)] if client_kind == "muster client" else []
    three = ours or torch_drivers[:3]
    for client in three:
        client("connect", host="127.0.0.1", port=server.port)
    yield three
    for client in ours:
        client.close()


def value(words: str) -> str:
    return words.encode().hex()


# ---- every operation ----


def test_a_value_is_read_as_it_was_written(clients):
    one, other, _ = clients
    for written in ("", "00", "ff" * 1000, value("words"), "00ff" * 300_000):
        one("set", key="k", value=written)
        assert one("get", key="k") == written  # the request after it on the same connection: it has been set
        assert other("get", key="k") == written


def test_counters_count(clients):
    one, other, _ = clients
    assert one("add", key="n", amount=5) == 5
    assert other("add", key="n", amount=-7) == -2
    assert one("get", key="n") == value("-2")
    one("set", key="n", value=value(" 41 and more"))
    assert one("add", key="n", amount=1) == 42


def test_counting_with_words_ends_the_connection_and_no_other(clients):
    one, other, _ = clients
    one("set", key="k", value=value("words"))
    with pytest.raises(StoreError):
        one("add", key="k", amount=1)
    assert other("get", key="k") == value("words")


def test_compare_set_sets_only_what_was_expected(clients):
    one, other, _ = clients
    assert one("compare_set", key="k", expected=value("x"), desired=value("y")) == value("x")
    assert one("check", keys=["k"]) is False
    assert one("compare_set", key="k", expected="", desired=value("1")) == value("1")
    assert other("compare_set", key="k", expected=value("2"), desired=value("3")) == value("1")
    assert other("compare_set", key="k", expected=value("1"), desired=value("3")) == value("3")


def test_appending_deleting_and_counting_keys(clients):
    one, _, _ = clients
    before = one("num_keys")
    one("append", key="k", value=value("one"))
    one("append", key="k", value=value("two"))
    assert one("get", key="k") == value("onetwo")
    assert one("num_keys") == before + 1
    assert one("delete_key", key="k") is True
    assert one("delete_key", key="k") is False
    assert one("num_keys") == before


def test_many_keys_at_once(clients):
    one, _, _ = clients
    entries = {f"key {number}": value(str(number)) for number in range(500)}
    one("multi_set", entries=entries)
    assert one("multi_get", keys=list(entries)) == list(entries.values())
    assert one("check", keys=list(entries)) is True
    assert one("check", keys=[*entries, "missing"]) is False
    assert sorted(one("list_keys")) == sorted(entries)


def test_get_waits_until_another_client_sets(clients):
    one, other, third = clients
    one.begin("get", key="k")
    other.begin("multi_get", keys=["k", "m"])
    third("set", key="m", value=value("mm"))
    third("get", key="m")
    assert not one.has_answered() and not other.has_answered()
    third("set", key="k", value=value("kk"))
    assert one.end() == value("kk")
    assert other.end() == [value("kk"), value("mm")]


def test_a_wait_times_out_and_the_client_goes_on(clients):
    one, other, _ = clients
    one("set", key="k", value="")
    with pytest.raises(StoreError):
        one("wait", keys=["k", "missing"], milliseconds=30)
    assert one("get", key="k") == ""
    other("set", key="missing", value=value("there"))
    one("wait", keys=["k", "missing"])
    assert one("get", key="missing") == value("there")


def test_queues_pass_values_in_order(clients):
    one, other, _ = clients
    with pytest.raises(StoreError):
        one("queue_pop", key="q")
    one("queue_push", key="q", value=value("1"))
    one("queue_push", key="q", value="")
    assert one("queue_len", key="q") == 2
    assert other("queue_pop", key="q", block=True) == value("1")
    assert other("queue_pop", key="q") == ""
    assert other("queue_len", key="q") == 0
    assert one("check", keys=["q"]) is False


def test_a_blocking_pop_waits_for_a_push_and_may_time_out(clients):
    one, other, _ = clients
    with pytest.raises(StoreError):
        one("queue_pop", key="q", block=True, milliseconds=30)
    one.begin("queue_pop", key="q", block=True)
    other("queue_push", key="q", value=value("late"))
    assert one.end() == value("late")


def test_a_barrier_opens_with_the_last(clients):
    one, other, third = clients
    one.begin("barrier", key="b", count=3)
    other.begin("barrier", key="b", count=3)
    third("set", key="unrelated", value="")
    assert not one.has_answered() and not other.has_answered()
    third("barrier", key="b", count=3)
    one.end()
    other.end()
    assert third("get", key="b") == value("3")


def test_a_barrier_times_out_and_the_client_goes_on(clients):
    one, other, _ = clients
    with pytest.raises(StoreError):
        one("barrier", key="b", count=2, milliseconds=30)
    assert one("get", key="b") == value("1")
    other("barrier", key="b", count=2)


# ---- many at once ----


def test_threads_and_processes_count_together(torch_drivers, muster_server):
    for driver in torch_drivers:
        driver("connect", host="127.0.0.1", port=muster_server.port)
    for driver in torch_drivers:
        driver.begin("add_from_threads", key="n", threads=4, times=50)
    for driver in torch_drivers:
        driver.end()
    assert torch_drivers[0]("get", key="n") == value(str(WORLD_SIZE * 4 * 50))


def take(taker: Driver) -> str:
    """A pop that is under way. Between being woken and popping, another may have come and popped: then again."""
    while True:
        try:
            return bytes.fromhex(taker.end()).decode()
        except StoreError as error:
            assert "empty" in str(error)
            taker.begin("queue_pop", key="q", block=True)


def test_each_value_of_a_queue_goes_to_one_of_those_who_wait(torch_drivers, muster_server):
    for driver in torch_drivers:
        driver("connect", host="127.0.0.1", port=muster_server.port)
    *takers, giver = torch_drivers
    for round_number in range(20):
        for taker in takers:
            taker.begin("queue_pop", key="q", block=True)
        for number in range(len(takers)):
            giver("queue_push", key="q", value=value(f"{round_number}/{number}"))
        taken = {take(taker) for taker in takers}
        assert taken == {f"{round_number}/{number}" for number in range(len(takers))}


@pytest.mark.parametrize("init_method", ["env://", "tcp://127.0.0.1:{port}"])
def test_a_process_group_meets_at_our_store_in_every_round(init_method, torch_drivers, muster_server):
    for restart_count in range(2):
        muster_server.begin_round()  # torch's ranks use the same keys in each, and must not find those of the last
        for rank, driver in enumerate(torch_drivers):
            driver.begin(
                "all_reduce",
                rank=rank,
                world_size=WORLD_SIZE,
                port=muster_server.port,
                init_method=init_method.format(port=muster_server.port),
                restart_count=restart_count,
            )
        for driver in torch_drivers:
            assert driver.end() == [10.0, [0, 1, 2, 3]]


# ---- the same bytes to both servers ----

PLAIN = [b"/a", b"/b", b"/c", b"/", b""]
VALUES = [b"", b"0", b"12", b"-3", b" 7x", b"words", b"\x00\xff" * 700]


def plain_request(chance: random.Random) -> bytes:
    """One that is answered at once, whatever others wait for."""
    key, other = chance.choice(PLAIN), chance.choice(PLAIN)
    amount = struct.pack("<q", chance.randrange(-3, 4))
    return chance.choice(
        [
            bytes([SET]) + text(key) + text(chance.choice(VALUES)),
            bytes([COMPARE_SET]) + text(key) + text(chance.choice(VALUES)) + text(chance.choice(VALUES)),
            bytes([GET]) + text(key),
            bytes([ADD]) + text(key) + amount,
            bytes([CHECK]) + texts([key, other]),
            bytes([GETNUMKEYS]),
            bytes([DELETE_KEY]) + text(key),
            bytes([APPEND]) + text(key) + text(chance.choice(VALUES)),
            bytes([MULTI_GET]) + texts([key, other]),
            bytes([MULTI_SET]) + struct.pack("<Q", 1) + text(key) + text(chance.choice(VALUES)),
            bytes([CANCEL_WAIT]),
            bytes([QUEUE_PUSH]) + text(b"/queue") + text(chance.choice(VALUES)),
            bytes([QUEUE_POP]) + text(b"/queue"),
            bytes([QUEUE_LEN]) + text(b"/queue"),
            bytes([CHECK]) + texts([b"/queue"]),
        ]
    )


def waiting_request(chance: random.Random, step: int) -> bytes:
    """One that others end: keys of their own, so that torch's slips around queues and comparisons stay out of it."""
    fresh = [f"/wait/{step + chance.randrange(6)}".encode() for _ in range(chance.randrange(1, 4))]
    if chance.random() < 0.5:
        return bytes([WAIT]) + texts(fresh)
    return bytes([BARRIER]) + text(f"/barrier/{step // 5}".encode()) + struct.pack("<q", chance.randrange(1, 4))


class Twin:
    """A client of each server that says the same to both."""

    def __init__(self, ports: list):
        self.ports = ports
        self.open()

    def open(self) -> None:
        self.waits = False
        self.clients = [RawClient(port) for port in self.ports]

    def tell(self, request: bytes = b""):
        """What both answered; None where the connection was closed."""
        heard = []
        for client in self.clients:
            try:
                heard.append(client.tell(request))
            except ConnectionError:
                heard.append(None)
        assert heard[0] == heard[1], request
        return heard[0]

    def close(self) -> None:
        for client in self.clients:
            client.close()


@pytest.mark.parametrize("seed", range(6))
def test_both_servers_answer_the_same_bytes(seed, muster_server, torch_server):
    chance = random.Random(seed)
    twins = [Twin([muster_server.port, torch_server.port]) for _ in range(3)]
    closed = answered = 0
    for step in range(400):
        twin = chance.choice(twins)
        if not twin.waits and chance.random() < 0.2:
            request = waiting_request(chance, step)
            twin.waits = twin.tell(request) == b""
        elif chance.random() < 0.25:
            heard = twin.tell(bytes([SET]) + text(f"/wait/{step}".encode()) + text(b""))
            twin.waits = twin.waits and heard == b""
        else:
            request = plain_request(chance)
            heard = twin.tell(request)
            if request[0] == CANCEL_WAIT:
                twin.waits = False
            if heard is None:  # counting with words
                twin.close()
                twin.open()
                closed += 1
            answered += bool(heard)
        for other in twins:  # whoever waited may have been told
            if other.tell() != b"":
                other.waits = False
    assert closed > 0 and answered > 100
    for twin in twins:
        twin.close()


@pytest.mark.parametrize(
    "junk",
    [
        bytes([19]),
        bytes([255]),
        bytes([0]) + struct.pack("<I", 0x3C85F7CE),
        bytes([GET]) + struct.pack("<Q", 8 * 1024 + 1),
        bytes([SET]) + text(b"/k") + struct.pack("<Q", 8 * 1024 * 1024 + 1),
        bytes([WAIT]) + struct.pack("<Q", 128 * 1024 + 1),
        bytes([MULTI_SET]) + struct.pack("<q", -1),
    ],
)
def test_both_servers_close_a_client_that_talks_junk(junk, muster_server, torch_server):
    twin, other = (Twin([muster_server.port, torch_server.port]) for _ in range(2))
    assert twin.tell(junk) is None
    assert other.tell(bytes([GETNUMKEYS])) is not None
    twin.close()
    other.close()
