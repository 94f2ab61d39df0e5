"""Origins that never answer and clients that never read: the memory that they hold, and the others."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import faults, forebay, wire, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.raw_client import RawClient, read_params
from harness.scripted import ScriptedOrigin
from harness.waiting import until
from harness.wire import Request

SLOW = "/slow/file.bin"
HEALTHY = "/healthy/file.bin"
LARGE = Pattern(64 << 20, 21)
SMALL = Pattern(1 << 20, 22)
COLD = Pattern(8 << 20, 23)
HANGING_CLIENTS = 70
STALLED_CLIENTS = 130
READERS = 64
STALLED = [f"/slow/{number}.bin" for number in range(STALLED_CLIENTS)]
SMALL_RECEIVE_BUFFER = 4096
ASSEMBLED_CLIENTS = 200
ASKED_TIMES = 4
# A piece of an answer, a small buffer, and the requests.
CONNECTION_BYTES = 64 << 10
# Of each client that has sent a part of a request: the usual buffer, and the connection.
RECEIVING_CLIENTS = 400
RECEIVING_BYTES = 24 << 10
LONG_REQUESTS_BYTES = 8 << 20
# Far longer than any wait of a client here: no time limit of the cache ends a request.
PATIENT = {"first_byte_timeout": "5m", "stall_timeout": "5m", "deadline": "30m"}

CacheWith = Callable[[str], Forebay]


@pytest.fixture
def slow() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin({SLOW: LARGE, **dict.fromkeys(STALLED, LARGE)}) as server:
        yield server


@pytest.fixture
def healthy() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin({HEALTHY: SMALL, "/healthy/cold.bin": COLD}) as server:
        yield server


@pytest.fixture
def cache_with(ground: Ground, slow: ScriptedOrigin, healthy: ScriptedOrigin) -> Iterator[CacheWith]:
    """Starts caches with so much memory before both origins; they are stopped when the test ends."""
    started: list[Forebay] = []

    def start(budget: str) -> Forebay:
        exports = [{"path": "/slow", "origins": [slow.url]}, {"path": "/healthy", "origins": [healthy.url]}]
        settings = {"export": exports, "origin": PATIENT, "memory": {"budget": budget}}
        started.append(forebay.configured(ground, settings))
        return started[-1]

    yield start
    for cache in started:
        cache.stop()


def ask(cache: Forebay, path: str, length: int) -> RawClient:
    """A client that has asked for the beginning of a file and takes no byte of it."""
    client = cache.client()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_RECEIVE_BUFFER)
    client.send(Request.READ, read_params(client.open(path), 0, length), bytes(8))
    return client


def read_healthy(cache: Forebay) -> None:
    with cache.client() as client:
        assert_same(client.read(client.open(HEALTHY), 0, SMALL.size).ok(), SMALL.all(), "the other origin")


@pytest.mark.parametrize("budget", ["64MiB", "1GiB"])
def test_readers_of_an_origin_that_never_answers_do_not_stop_the_others(
    budget: str, cache_with: CacheWith, slow: ScriptedOrigin
) -> None:
    for code in (Request.READ, Request.PGREAD, Request.READV):
        slow.on(code, faults.stay_silent)
    cache = cache_with(budget)
    clients = [ask(cache, SLOW, LARGE.size) for _ in range(HANGING_CLIENTS)]
    read_healthy(cache)
    for client in clients:
        client.close()
    until(lambda: cache.metrics().total("forebay_budget_used_bytes") == 0, "their memory is free", within=180)


@pytest.mark.parametrize("budget", ["64MiB", "1GiB"])
def test_readers_that_take_nothing_do_not_stop_the_others(budget: str, cache_with: CacheWith) -> None:
    cache = cache_with(budget)
    clients = [ask(cache, path, LARGE.size) for path in STALLED]
    read_healthy(cache)
    for client in clients:
        client.close()
    until(lambda: cache.metrics().total("forebay_budget_used_bytes") == 0, "their memory is free", within=180)


def test_readers_of_one_cold_file_share_its_fetch_when_memory_is_short(
    cache_with: CacheWith, healthy: ScriptedOrigin
) -> None:
    cache = cache_with("16MiB")
    path = "/healthy/cold.bin"

    def read(_: int) -> bytes:
        with cache.client() as client:
            return client.read(client.open(path), 0, COLD.size).ok()

    with ThreadPoolExecutor(READERS) as readers:
        for content in readers.map(read, range(READERS)):
            assert_same(content, COLD.all(), "read")
    fetched = sum(length for _, length in healthy.data_ranges())
    assert COLD.size <= fetched <= COLD.size + 4 * BLOCK


def resident_peak(cache: Forebay) -> int:
    status = Path(f"/proc/{cache.process.pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found
    return int(found[1]) << 10


def ask_for_much(cache: Forebay, path: str) -> RawClient:
    """A client that has asked for the same pages and vectors, long ones, several times, and takes no byte."""
    client = cache.client()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_RECEIVE_BUFFER)
    handle = client.open(path)
    elements = [struct.pack(">4siq", handle, 32 << 10, number << 16) for number in range(64)]
    for number in range(ASKED_TIMES):
        client.send(Request.PGREAD, read_params(handle, number << 16, 4 << 20), bytes(2))
        client.send(Request.READV, b"", b"".join(elements))
    return client


def test_requests_that_never_end_hold_bounded_memory_and_stop_no_other_client(cache_with: CacheWith) -> None:
    cache = cache_with("64MiB")
    with RawClient(cache.host, cache.port, source="127.0.0.9") as other:
        handle = other.open(HEALTHY)
        begin = resident_peak(cache)
        # Four addresses have all memory of long requests.
        sources = [f"127.0.0.{2 + number % 4}" for number in range(RECEIVING_CLIENTS)]
        clients = [RawClient(cache.host, cache.port, source=source) for source in sources]
        for number, client in enumerate(clients):
            message = wire.request(client.next_stream_id(), Request.STAT, b"", b"/" * (60 << 10))
            # Some have sent all but the end, some little more than the header.
            client.send_bytes(message[: 30 if number // 8 % 2 else -1])
        pieces = [(number * 32, 32) for number in range(1024)]
        elements = [struct.pack(">4siq", handle, length, offset) for offset, length in pieces]
        for _ in range(2):
            answer = other.call(Request.READV, b"", b"".join(elements)).ok()
            found = b"".join(answer[number * 48 + 16 : number * 48 + 48] for number in range(len(pieces)))
            assert_same(found, SMALL.read(0, 32 << 10), "a long vector")
        assert resident_peak(cache) - begin <= LONG_REQUESTS_BYTES + RECEIVING_CLIENTS * RECEIVING_BYTES
    for client in clients:
        client.close()


@pytest.mark.parametrize("is_cached", [False, True], ids=["cold", "cached"])
def test_answers_that_clients_do_not_take_stay_within_the_budget(is_cached: bool, ground: Ground) -> None:
    data = ground.directory("assembled")
    paths = [f"/{number}.bin" for number in range(ASSEMBLED_CLIENTS)]
    for path in paths:
        (data / path[1:]).symlink_to(data / "file")
    SMALL.write(data / "healthy.bin")
    Pattern(8 << 20, 24).write(data / "file")
    origin = xrootd.plain(ground, data)
    cache = forebay.cache(ground, origin.url)
    try:
        with cache.client() as first:
            if is_cached:
                first.read(first.open(paths[0]), 0, 8 << 20).ok()
            begin = resident_peak(cache)
            clients = [ask_for_much(cache, paths[0] if is_cached else path) for path in paths]
            healthy = first.open("/healthy.bin")
            assert_same(first.page_read(healthy, 0, SMALL.size).ok(), SMALL.all(), "pages of another client")
            assert resident_peak(cache) - begin <= 1.2 * (64 << 20) + ASSEMBLED_CLIENTS * CONNECTION_BYTES
        for client in clients:
            client.close()
    finally:
        cache.stop()
        origin.stop()
