"""Failing origins, dying clients and servers: programs on libdcap get the right bytes or an error, and never hang."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from harness import faults
from harness.content import Pattern, assert_same
from harness.dcap import Reader, dcap_url
from harness.forebay import BLOCK, Forebay
from harness.scripted import ScriptedOrigin
from harness.waiting import until
from harness.wire import Error, Request

PATH = "/data/file.bin"
CONTENT = Pattern(96 * BLOCK + 321, 5)
PATIENCE = {
    "connect_timeout": "2s",
    "first_byte_timeout": "2s",
    "stall_timeout": "2s",
    "deadline": "20s",
    "attempts": 4,
    "read_attempts": 4,
}
# Beyond the first bytes, so that a read may begin well and fail later.
FAILING_FROM = 40 * BLOCK
LONG = 60 * BLOCK


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    """An origin without faults, until rules are added."""
    with ScriptedOrigin({PATH: CONTENT}) as server:
        yield server


@pytest.fixture
def cache(serve: Callable[..., Forebay], origin: ScriptedOrigin, dcap_listen: str) -> Forebay:
    """An impatient cache before the scripted origin."""
    export = {"path": "/", "origins": [origin.url]}
    # Vector reads of the tests fit a connection's memory for answers.
    memory = {"budget": "256MiB"}
    return serve({"export": [export], "origin": PATIENCE, "memory": memory, "dcap": {"listen": [dcap_listen]}})


def fail_late(origin: ScriptedOrigin) -> None:
    """Has reads beyond a place of the file fail."""
    for code in (Request.READ, Request.PGREAD):
        origin.on(code, faults.die_after(1000), when=lambda asked: sum(asked.range) > FAILING_FROM)
    origin.on(Request.READV, faults.fail_with(Error.UNSUPPORTED))


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("kind", ["read", "pread", "seek", "vector"])
def test_a_read_that_fails_late_is_an_error(
    kind: str, buffered: bool, cache: Forebay, origin: ScriptedOrigin, reader: Callable[..., Reader]
) -> None:
    fail_late(origin)
    client = reader()
    assert client.call("open", dcap_url(cache) + PATH)[0] > 0
    if not buffered:
        client.call("unbuffered")
    assert client.read("read", 1000)[2] == CONTENT.read(0, 1000)
    start = 1000
    if kind == "seek":
        start = 5 * BLOCK + 7
        assert client.call("seek", start, os.SEEK_SET)[0] == start
        result, _, data = client.read("read", LONG)
    elif kind == "read":
        result, _, data = client.read("read", LONG)
    elif kind == "pread":
        start = 3 * BLOCK + 9
        result, _, data = client.read("pread", start, LONG)
    else:
        result, _, data = client.read("vector", start, LONG)
    # A read of what is there is right; it must not have bytes of another place.
    assert_same(data, CONTENT.read(start, max(result, 0)), kind)
    assert result < LONG
    origin.behave()

    def healed() -> bool:
        again = reader()
        opened = again.call("open", dcap_url(cache) + PATH)[0] > 0
        result, _, data = again.read("pread", start, LONG) if opened else (-1, 0, b"")
        again.end()
        return result == LONG and data == CONTENT.read(start, LONG)

    until(healed, "the file is read when the origin is back")


def test_a_vector_past_the_end_is_an_error(cache: Forebay, reader: Callable[..., Reader]) -> None:
    client = reader()
    assert client.call("open", dcap_url(cache) + PATH)[0] > 0
    assert client.read("vector", 0, 100, CONTENT.size - 10, 11)[0] == -1
    # The connection of the program is fine.
    assert client.call("open", dcap_url(cache) + PATH)[0] > 0
    assert client.read("vector", 0, 100, CONTENT.size - 10, 10)[2] == CONTENT.read(0, 100) + CONTENT.read(
        CONTENT.size - 10, 10
    )


def test_a_client_that_dies_in_a_read_leaves_nothing(
    cache: Forebay, origin: ScriptedOrigin, reader: Callable[..., Reader]
) -> None:
    for code in (Request.READ, Request.PGREAD):
        origin.on(code, faults.stay_silent)
    client = reader()
    assert client.call("open", dcap_url(cache) + PATH)[0] > 0
    client.start("read", LONG)
    until(lambda: origin.data_ranges(), "the origin is asked")
    client.kill()
    until(lambda: cache.metrics().total("forebay_open_handles") == 0, "the file is closed")
    until(lambda: cache.metrics().total("forebay_connections") == 0, "the connections are closed")


def test_a_server_that_dies_in_a_read_is_an_error(
    cache: Forebay, origin: ScriptedOrigin, reader: Callable[..., Reader]
) -> None:
    for code in (Request.READ, Request.PGREAD):
        origin.on(code, faults.stay_silent)
    client = reader()
    assert client.call("open", dcap_url(cache) + PATH)[0] > 0
    client.start("pread", 5, LONG)
    until(lambda: origin.data_ranges(), "the origin is asked")
    cache.process.kill()
    assert client.finish(has_bytes=True)[0] == -1


def test_a_server_stops_while_files_are_open(cache: Forebay, reader: Callable[..., Reader]) -> None:
    client = reader()
    assert client.call("open", dcap_url(cache) + PATH)[0] > 0
    assert client.read("read", 1000)[2] == CONTENT.read(0, 1000)
    assert cache.stop() == 0
