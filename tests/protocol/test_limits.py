"""Limits that protect the server: each has a name in the configuration, and an edge with two sides."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from harness import forebay, wire, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.raw_client import RawClient, read_params
from harness.waiting import until
from harness.wire import Error, Request

from .conftest import FILE

LARGE = "/large.bin"
LARGE_CONTENT = Pattern(24 << 20, 41)
STALLED_CLIENTS = 12
SMALL_RECEIVE_BUFFER = 4096

Limited = Callable[..., Forebay]


@pytest.fixture
def limited(ground: Ground, plain_origin: xrootd.Origin) -> Iterator[Limited]:
    """Starts caches with some settings of the server; they are stopped when the test ends."""
    started: list[Forebay] = []

    def start(*, origin_url: str = plain_origin.url, **settings: object) -> Forebay:
        export = {"path": "/", "origins": [origin_url]}
        started.append(forebay.configured(ground, {"export": [export], "server": settings}))
        return started[-1]

    yield start
    for cache in started:
        cache.stop()


@pytest.fixture(scope="module")
def large_origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with a file that fills buffers."""
    directory = ground.directory("large")
    LARGE_CONTENT.write(directory / LARGE[1:])
    return xrootd.plain(ground, directory)


def test_connections_beyond_the_limit_are_closed_and_the_others_go_on(limited: Limited) -> None:
    cache = limited(connections_max=3)
    clients = [cache.client() for _ in range(3)]
    with cache.client(login=False) as refused:
        assert refused.is_closed_by_peer()
    for client in clients:
        assert client.stat(FILE).ok()
    clients.pop().close()
    until(lambda: serves_new_client(cache), "the place is free again")


def serves_new_client(cache: Forebay) -> bool:
    """Whether one more client gets an answer."""
    try:
        with cache.client() as client:
            return client.stat(FILE).error is None
    except (OSError, AssertionError):
        return False


def test_handles_beyond_the_limit_of_a_session_are_refused(limited: Limited) -> None:
    with limited(handles_per_session_max=4).client() as client:
        handles = [client.open(FILE) for _ in range(4)]
        assert client.try_open(FILE).error == Error.OVERLOADED
        client.close_file(handles[0]).ok()
        assert client.open(FILE)


def test_sessions_of_one_address_share_its_open_files(limited: Limited) -> None:
    cache = limited(handles_per_address_max=3)
    clients = [cache.client() for _ in range(3)]
    handles = [client.open(FILE) for client in clients]
    for client in clients:
        refused = client.try_open(FILE)
        assert (refused.error, "try again" in refused.error_text) == (Error.OVERLOADED, True)
    clients[0].close_file(handles[0]).ok()
    assert clients[1].open(FILE)


def test_request_that_is_never_completed_ends_its_connection(limited: Limited) -> None:
    with limited(request_time_max="1s").client() as client:
        client.open(FILE)
        client.send_bytes(b"\x00\x05")
        assert client.is_closed_by_peer()


@pytest.mark.parametrize("sent", [b"", wire.HANDSHAKE[:7], wire.HANDSHAKE])
def test_connection_that_never_logs_in_is_closed(limited: Limited, sent: bytes) -> None:
    with limited(login_time_max="1s").client(login=False) as client:
        client.send_bytes(sent)
        while not client.is_closed_by_peer():
            client.receive()


def test_client_that_takes_no_bytes_is_closed_and_its_memory_freed(
    limited: Limited, large_origin: xrootd.Origin
) -> None:
    cache = limited(origin_url=large_origin.url, write_stall_max="1s")
    stalled = ask_and_never_read(cache)
    until(lambda: cache.metrics().total("forebay_connections") == 0, "the stalled client is dropped")
    until(lambda: cache.metrics().total("forebay_budget_used_bytes") == 0, "its memory is free")
    stalled.close()


def test_clients_that_take_no_bytes_do_not_stop_the_others(limited: Limited, large_origin: xrootd.Origin) -> None:
    cache = limited(origin_url=large_origin.url, write_stall_max="10s")
    stalled = [ask_and_never_read(cache) for _ in range(STALLED_CLIENTS)]
    with cache.client() as client:
        handle = client.open(LARGE)
        for offset in range(0, LARGE_CONTENT.size, 1 << 20):
            assert_same(client.read(handle, offset, 1 << 20).ok(), LARGE_CONTENT.read(offset, 1 << 20), f"at {offset}")
    metrics = cache.metrics()
    assert metrics.total("forebay_budget_used_bytes") <= metrics.total("forebay_budget_bytes")
    for client in stalled:
        client.close()


def test_abandoned_requests_release_their_memory(limited: Limited, large_origin: xrootd.Origin) -> None:
    cache = limited(origin_url=large_origin.url)
    for _ in range(10):
        ask_and_never_read(cache).close()
    until(lambda: cache.metrics().total("forebay_open_handles") == 0, "handles are closed")
    until(lambda: cache.metrics().total("forebay_budget_used_bytes") == 0, "memory is free")
    with cache.client() as client:
        assert_same(client.read(client.open(LARGE), 0, 1 << 20).ok(), LARGE_CONTENT.read(0, 1 << 20), "afterwards")


def ask_and_never_read(cache: Forebay) -> RawClient:
    """A client that asks for the whole large file, again and again, and takes no byte of it."""
    client = cache.client()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_RECEIVE_BUFFER)
    handle = client.open(LARGE)
    for _ in range(4):
        client.send(Request.READ, read_params(handle, 0, LARGE_CONTENT.size), bytes(8))
    return client
