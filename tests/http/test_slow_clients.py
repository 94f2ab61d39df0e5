"""Clients that are slow, silent, or gone hold nothing for long."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import forebay
from harness.forebay import Forebay
from harness.ground import Ground
from harness.http_client import Connection
from harness.relay import Relay
from harness.waiting import until

from .conftest import FILE


@pytest.fixture
def impatient(serve: Callable[..., Forebay], http_data: Path) -> Forebay:
    """A server that waits for some seconds only."""
    return serve(
        {
            "http": {"header_time_max": "4s", "idle_time_max": "4s"},
            "export": [{"path": "/", "directory": str(http_data)}],
        }
    )


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_client_without_a_request_is_closed_in_time(impatient: Forebay, sent: bytes) -> None:
    with Connection(impatient) as connection:
        connection.ask("GET", FILE, {"Range": "bytes=0-0"})
        connection.socket.sendall(sent)
        assert connection.received.read() == b""


def test_a_header_in_drops_is_closed_in_time(impatient: Forebay) -> None:
    with Connection(impatient) as connection:
        connection.socket.settimeout(0.1)
        connection.socket.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")

        def is_closed() -> bool:
            try:
                connection.socket.sendall(b"X: y\r\n")
                return connection.socket.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        assert until(is_closed, "the server closes the connection")


def test_connections_of_one_address_are_limited_for_both_protocols(
    serve: Callable[..., Forebay], http_data: Path
) -> None:
    export = {"path": "/", "directory": str(http_data)}
    server = serve({"server": {"connections_per_address_max": 4}, "export": [export]})
    held = [Connection(server) for _ in range(4)]
    for connection in held:
        assert connection.ask("GET", FILE, {"Range": "bytes=0-0"}).status == 206
    with Connection(server) as refused:
        refused.send("GET", FILE)
        with pytest.raises((AssertionError, ConnectionError)):
            refused.reply()
    held.pop().close()

    def is_served() -> bool:
        try:
            with Connection(server) as again:
                return again.ask("GET", FILE, {"Range": "bytes=0-0"}).status == 206
        except (AssertionError, ConnectionError):
            return False

    assert until(is_served, "the place is free again")
    for connection in held:
        connection.close()


def test_a_client_that_gives_up_on_a_silent_origin_leaves_no_connection(
    cache_of: Callable[..., Forebay], ground: Ground, http_data: Path
) -> None:
    with forebay.export(ground, http_data) as origin, Relay((origin.host, origin.port)) as relay:
        cache = cache_of(relay.url)
        with Connection(cache) as connection:
            assert connection.ask("GET", "/data/small.bin").status == 200
        until(lambda: cache.metrics().total("forebay_connections") == 0, "the client has left")
        relay.stall()
        client = socket.create_connection((cache.host, cache.port))
        client.sendall(f"GET {FILE} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        until(lambda: cache.metrics().total("forebay_connections") == 1, "the client waits")
        client.close()
        until(lambda: cache.metrics().total("forebay_connections") == 0, "its connection has ended")
        relay.flow()
