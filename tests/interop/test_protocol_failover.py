"""Exports with origins of several protocols: the next one is used where the first one does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import forebay, http_origins, xrootd
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, program
from harness.http_origins import HttpOrigin

PATH = "/sizes/many-blocks.bin"


@pytest.fixture
def nginx(ground: Ground, data: Path) -> Iterator[HttpOrigin]:
    """The second origin."""
    origin = http_origins.nginx(ground, data, webdav=True)
    yield origin
    origin.stop()


def cache_of(ground: Ground, *origins: str, **settings: object) -> Forebay:
    """A cache in front of these origins, which fetches only what is read."""
    export = {"path": "/", "origins": list(origins), **settings}
    return forebay.configured(ground, {"export": [export], "read_ahead": {"enabled": False}})


def test_the_second_protocol_serves_where_the_first_server_is_down(
    ground: Ground, nginx: HttpOrigin, patterns: dict[str, Pattern]
) -> None:
    dead = f"root://127.0.0.1:{ground.free_port()}"
    with cache_of(ground, dead, nginx.url) as cache:
        for path, pattern in patterns.items():
            assert_same(fetch("xrdcp", ground, cache.file_url(path)), pattern.all(), path)
        listed = run_client([program("xrdfs"), cache.address, "ls", "/sizes"])
        assert PATH.encode() in listed.stdout
        missing = run_client([program("xrdfs"), cache.address, "stat", "/none"])
        assert missing.returncode != 0


@pytest.mark.parametrize("first", ["root", "http"])
def test_an_open_file_is_read_on_at_the_other_protocol(
    first: str, ground: Ground, data: Path, nginx: HttpOrigin, patterns: dict[str, Pattern]
) -> None:
    root = xrootd.plain(ground, data)
    origins = [root.url, nginx.url] if first == "root" else [nginx.url, root.url]
    pattern = patterns[PATH]
    half = pattern.size // 2 // BLOCK * BLOCK
    with cache_of(ground, *origins) as cache, cache.client() as client:
        handle = client.open(PATH)
        assert client.read(handle, 0, 1000).ok() == pattern.read(0, 1000)
        (root if first == "root" else nginx).stop()
        assert client.read(handle, half, 5000).ok() == pattern.read(half, 5000)
    if first == "http":
        root.stop()
