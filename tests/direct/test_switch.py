"""Clients that have a file open when it is complete are sent to it, and read the rest past the server."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import wire, xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.direct import REDIRECTED_AMID_READS, SEES_FILES, logged_in, sent_bytes, until_complete
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, root_python
from harness.pausing import PausingClient
from harness.raw_client import vector_elements
from harness.relay import Relay
from harness.waiting import until

PATH = "/sizes/many-blocks.bin"
WHILE_OPEN = {"fill": "while-open"}

Cache = Callable[..., Forebay]


def switches(cache: Forebay) -> float:
    return cache.metrics().total("forebay_direct_switches_total")


def test_reads_and_vectors_are_redirected_once_the_file_is_complete_and_pages_are_not(
    cache: Cache, store: Path, patterns: dict[str, Pattern]
) -> None:
    server, pattern = cache(export=WHILE_OPEN), patterns[PATH]
    with logged_in(server, SEES_FILES | REDIRECTED_AMID_READS) as able, logged_in(server, SEES_FILES) as other:
        handle, served = able.open(PATH), other.open(PATH)
        until_complete(server, PATH)
        there = redirect_to(store)
        for answer in (able.read(handle, 0, BLOCK), able.read_vector([(handle, 5, 10), (handle, BLOCK, 7)])):
            assert answer.status == wire.Status.REDIRECT
            assert answer.frames[-1].body == there
        assert_same(able.page_read(handle, 0, BLOCK).ok(), pattern.read(0, BLOCK), "pages")
        assert switches(server) == 1, "one file, however many reads were under way"
        assert_same(other.read(served, 0, BLOCK).ok(), pattern.read(0, BLOCK), "a client that does not follow")
        assert able.close_file(handle).error is None


def redirect_to(store: Path) -> bytes:
    return (-1).to_bytes(4, signed=True) + f"file://localhost{store}{PATH}".encode()


def test_client_that_ignores_redirects_is_served(cache: Cache, patterns: dict[str, Pattern]) -> None:
    server, pattern = cache(export=WHILE_OPEN), patterns[PATH]
    with logged_in(server, SEES_FILES | REDIRECTED_AMID_READS) as client:
        handle = client.open(PATH)
        until_complete(server, PATH)
        answers = [client.read(handle, 0, 100) for _ in range(20)]
        redirected = [answer.status == wire.Status.REDIRECT for answer in answers]
        assert redirected == sorted(redirected, reverse=True)
        assert 0 < sum(redirected) < len(redirected)
        assert_same(answers[-1].ok(), pattern.read(0, 100), "the last answer")
        body = client.read_vector([(handle, 10, 20)]).ok()
        assert vector_elements(body) == [(10, pattern.read(10, 20))]


def test_pyxrootd_continues_with_the_file(cache: Cache, patterns: dict[str, Pattern]) -> None:
    server = cache(export=WHILE_OPEN)
    with PausingClient(sys.executable, "pyxrootd_halves.py", server.file_url(PATH)) as client:
        client.until_half()
        until_complete(server, PATH)
        sent = sent_bytes(server)
        result = json.loads(client.finish())
    assert result["sha256"] == hashlib.sha256(patterns[PATH].all()).hexdigest()
    assert result["url"].startswith("file://localhost/")
    assert (switches(server), sent_bytes(server)) == (1, sent), "the rest was read past the server"


@pytest.mark.parametrize("pages", [False, True])
def test_xrdcp_continues_with_the_file_without_page_reads(
    pages: bool, cache: Cache, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server, pattern = cache(export=WHILE_OPEN, page_reads=pages), patterns[PATH]
    env = {"XRD_CPCHUNKSIZE": str(2 * BLOCK), "XRD_CPPARALLELCHUNKS": "1"}
    with Relay(("127.0.0.1", server.port)) as way, ThreadPoolExecutor(1) as pool:
        way.stall_after(8 * BLOCK)
        copy = pool.submit(fetch, "xrdcp", ground, f"{way.url}/{PATH}", env)
        try:
            until(lambda: way.is_stalled or copy.done(), "a part has been copied", within=60)
            until_complete(server, PATH)
        finally:
            way.flow()
        assert_same(copy.result(), pattern.all(), "the copy")
    assert switches(server) == (0 if pages else 1)
    assert (sent_bytes(server) == pattern.size) is pages


def test_pyroot_loop_continues_with_the_file_and_fills_the_same_histogram(
    cache: Cache, plain_origin: xrootd.Origin, data: Path, tree_path: str, tree_sums: object
) -> None:
    expected = loop(str(data / tree_path[1:]))
    size = (data / tree_path[1:]).stat().st_size
    with Relay(("127.0.0.1", plain_origin.port), latency=0.05) as far:
        server = cache(origin=far.url, export=WHILE_OPEN)
        with PausingClient(root_python(), "pyroot_loop.py", server.file_url(tree_path)) as client:
            client.until_half()
            until_complete(server, tree_path)
            sent, fetched = sent_bytes(server), server.metrics().origin_bytes
            assert 0 < sent < size
            assert fetched == size, "all of it was fetched once"
            assert client.finish() == expected
        assert (switches(server), sent_bytes(server)) == (1, sent), "the cache has sent nothing more"
        assert server.metrics().origin_bytes == fetched


def loop(url: str) -> str:
    """The histogram of the whole tree."""
    with PausingClient(root_python(), "pyroot_loop.py", url) as client:
        client.until_half()
        return client.finish()
