"""The fetched part of a file, redirects of clients during the fetch, and leases of complete files."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.direct import SEES_FILES, logged_in, sent_bytes, until_complete
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pausing import PausingClient
from harness.relay import Relay
from harness.waiting import until
from harness.wire import Error, Request, Status

PATH = "/sizes/many-blocks.bin"
LARGE = "/large/file.bin"
LARGE_SIZE = 48 << 20
CLIENTS = 10

Cache = Callable[..., Forebay]


@pytest.fixture
def large(data: Path) -> Iterator[Pattern]:
    """A file of which an interrupted fill is a part."""
    pattern = Pattern(LARGE_SIZE, 99)
    path = pattern.write(data / LARGE[1:])
    yield pattern
    path.unlink()


def requested(far: Relay) -> int:
    """The bytes of the large file that the origin has been asked for."""
    return sum(min(read.length, LARGE_SIZE - read.offset) for read in far.reads)


def evicted(server: Forebay) -> int | None:
    """Has the file removed from the cache; the error, if it is refused."""
    with server.client() as client:
        return client.call(Request.SET, b"", f"cache evict {PATH}".encode()).error


def test_many_clients_of_one_cold_file_cause_one_fill(
    cache: Cache, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server, pattern = cache(export={"fill": "while-open"}), patterns[PATH]
    with ThreadPoolExecutor(CLIENTS) as pool:
        copies = [pool.submit(fetch, "xrdcp", ground, server.file_url(PATH)) for _ in range(CLIENTS)]
        for copy in copies:
            assert_same(copy.result(), pattern.all(), "a copy")
    assert server.settled_metrics().origin_bytes == pattern.size


@pytest.mark.parametrize("restart", [False, True])
def test_interrupted_fill_is_resumed_by_the_next_client_and_only_the_rest_is_fetched(
    restart: bool, cache: Cache, plain_origin: xrootd.Origin, ground: Ground, large: Pattern
) -> None:
    with Relay(("127.0.0.1", plain_origin.port)) as far:
        server = cache(origin=far.url, export={"fill": "while-open"})
        far.stall_after(LARGE_SIZE * 4 // 10)
        with server.client() as client:
            client.open(LARGE)
            until(lambda: far.is_stalled, "a part has been fetched", within=60)
        until(lambda: server.metrics().total("forebay_connections") == 0, "the client has left")
        far.flow()
        until(lambda: server.metrics().origin_bytes == requested(far), "all that was requested has come", within=120)
        fetched = server.settled_metrics().origin_bytes
        assert 0 < fetched < LARGE_SIZE
        if restart:
            server.stop()
            server = cache(origin=far.url, export={"fill": "while-open"})
        assert_same(fetch("xrdcp", ground, server.file_url(LARGE)), large.all(), "the next copy")
        rest = server.settled_metrics().origin_bytes
        assert (fetched + rest if restart else rest) == LARGE_SIZE


def test_clients_are_sent_to_the_origin_until_the_cache_has_the_file(
    cache: Cache, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server, pattern = cache(export={"miss": "redirect"}), patterns[PATH]
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), pattern.all(), "from the origin")
    assert sent_bytes(server) == 0
    until_left_or_served(server)
    metrics = server.settled_metrics()
    assert (metrics.origin_bytes, metrics.total("forebay_miss_redirects_total") > 0) == (pattern.size, True)
    redirects = metrics.total("forebay_miss_redirects_total")
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), pattern.all(), "past the server")
    assert (sent_bytes(server), server.metrics().total("forebay_miss_redirects_total")) == (0, redirects)


def until_left_or_served(server: Forebay) -> None:
    """Waits until an open is not sent to the origin, but to the file of the cache."""
    with logged_in(server, SEES_FILES) as client:

        def is_left() -> bool:
            answer = client.try_open(PATH)
            if answer.status != Status.REDIRECT:
                client.close_file(answer.ok()[:4])
                return False
            return answer.frames[-1].body[4:].startswith(b"file://")

        until(is_left, "the file is complete and left to clients", within=60)


@pytest.mark.parametrize("lease", ["15min", "1s"])
def test_open_file_outlives_its_lease(lease: str, cache: Cache, store: Path, patterns: dict[str, Pattern]) -> None:
    grants = {"grant": [{"path": "/", "rights": ["read", "admin"]}]}
    server = cache(export={"fill": "to-end"}, tables=grants, lease=lease)
    until_complete(server, PATH)
    with PausingClient(sys.executable, "pyxrootd_halves.py", server.file_url(PATH)) as reader:
        reader.until_half()
        if lease == "15min":
            assert evicted(server) == Error.FILE_LOCKED
        else:
            until(lambda: evicted(server) is None, "the lease ends")
            until(lambda: not (store / PATH[1:]).exists(), "the file is removed")
        result = json.loads(reader.finish())
    assert result["sha256"] == hashlib.sha256(patterns[PATH].all()).hexdigest()
    assert sent_bytes(server) == 0, "it was read past the server"
