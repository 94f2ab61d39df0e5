"""Files of HTTP servers, read by clients of root:// through a cache: cold, warm, and after they changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import forebay, http_origins
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK
from harness.ground import Ground, program
from harness.http_client import Connection, parts_of
from harness.http_origins import HttpOrigin
from harness.waiting import until

PATH = "/sizes/many-blocks.bin"
VECTOR = Pattern(200 * BLOCK, 70)
RANGES = 64
SERVERS: dict[str, Callable[[Ground, Path], HttpOrigin]] = {
    "nginx": lambda ground, data: http_origins.nginx(ground, data, webdav=False),
    "nginx-webdav": lambda ground, data: http_origins.nginx(ground, data, webdav=True),
    "apache": http_origins.apache,
    "xrootd": http_origins.xrootd,
}


@pytest.fixture(params=list(SERVERS))
def http_origin(request: pytest.FixtureRequest, ground: Ground, data: Path) -> Iterator[HttpOrigin]:
    """An HTTP server of the known files."""
    origin = SERVERS[request.param](ground, data)
    yield origin
    origin.stop()


@pytest.mark.parametrize("client", ["xrdcp", "pyxrootd", "forebay-get"])
def test_files_are_read_cold_and_warm(
    client: str, http_origin: HttpOrigin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    with forebay.cache(ground, http_origin.url) as cache:
        for path, pattern in patterns.items():
            assert_same(fetch(client, ground, cache.file_url(path)), pattern.all(), f"{path} cold")
        cold = cache.settled_metrics()
        assert cold.origin_bytes == sum(pattern.size for pattern in patterns.values())
        for path, pattern in patterns.items():
            assert_same(fetch(client, ground, cache.file_url(path)), pattern.all(), f"{path} warm")
        assert cache.metrics().origin_bytes == cold.origin_bytes


def test_vectors_are_read_with_few_requests(http_origin: HttpOrigin, ground: Ground, data: Path) -> None:
    VECTOR.write(data / "vector.bin")
    # Whole blocks: nothing around them is fetched later.
    starts = [number * 3 * BLOCK for number in range(RANGES)]
    asked = ",".join(f"{start}-{start + BLOCK - 1}" for start in starts)
    with forebay.cache(ground, http_origin.url) as cache:
        with Connection(cache) as client:
            assert client.ask("GET", "/vector.bin", {"Range": "bytes=0-99"}).body == VECTOR.read(0, 100)
            parts = parts_of(client.ask("GET", "/vector.bin", {"Range": f"bytes={asked}"}))
        assert [body for _, body in parts] == [VECTOR.read(start, BLOCK) for start in starts]
        reads = cache.settled_metrics().total("forebay_origin_requests_total", kind="read")
    assert reads <= RANGES / 4, "several ranges share a request"


def test_clients_name_http_origins(http_origin: HttpOrigin, ground: Ground, patterns: dict[str, Pattern]) -> None:
    with forebay.configured(ground, {"forwarding": {"allow": ["http://127.0.0.1:*"]}}) as cache:
        url = f"{cache.url}//{http_origin.url}{PATH}"
        assert_same(fetch("xrdcp", ground, url), patterns[PATH].all(), "cold")
        stored = cache.data / "http:" / f"127.0.0.1:{http_origin.port}" / PATH[1:]
        until(stored.is_file, "the file is stored under the name of its origin")
        refused = run_client([program("xrdfs"), cache.address, "stat", f"/http://127.0.0.2:{http_origin.port}{PATH}"])
        assert refused.returncode != 0


def test_directories_are_listed_where_the_origin_has_webdav(
    http_origin: HttpOrigin, ground: Ground, data: Path, request: pytest.FixtureRequest
) -> None:
    with forebay.cache(ground, http_origin.url) as cache:
        result = run_client([program("xrdfs"), cache.address, "ls", "-l", "/sizes"])
        if request.node.callspec.params["http_origin"] == "nginx":
            assert result.returncode != 0
            assert b"WebDAV" in result.stderr
            return
        assert result.returncode == 0, result.stderr
        assert {line.split("/")[-1] for line in result.stdout.decode().splitlines()} == {
            path.name for path in (data / "sizes").iterdir()
        }
        stat = run_client([program("xrdfs"), cache.address, "stat", "/sizes/block.bin"])
        assert b"Size:   65536" in stat.stdout


@pytest.mark.parametrize("server", list(SERVERS))
def test_changed_file_is_read_again(server: str, ground: Ground) -> None:
    data = ground.directory("changing")
    old, new = Pattern(300_000, 1), Pattern(300_000, 2)
    old.write(data / "f.bin")
    origin = SERVERS[server](ground, data)
    export = {"path": "/", "origins": [origin.url], "validity": "each-open"}
    try:
        with forebay.configured(ground, {"export": [export]}) as cache:
            assert_same(fetch("xrdcp", ground, cache.file_url("/f.bin")), old.all(), "before")
            cache.settled_metrics()
            new.write(data / "f.bin")
            # The resolution of times of change in HTTP is a second.
            written = (data / "f.bin").stat().st_mtime
            os.utime(data / "f.bin", (written + 10, written + 10))
            assert_same(fetch("xrdcp", ground, cache.file_url("/f.bin")), new.all(), "after")
    finally:
        origin.stop()


def test_unchanged_file_is_not_read_again(
    http_origin: HttpOrigin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    """Later checks find the validator of the open; that of XrdHttp 5.5 is a property."""
    export = {"path": "/", "origins": [http_origin.url], "validity": "each-open"}
    with forebay.configured(ground, {"export": [export]}) as cache:
        for reads in (1, 2, 3):
            assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), patterns[PATH].all(), f"read {reads}")
            assert cache.settled_metrics().origin_bytes == patterns[PATH].size, f"read {reads}"


def test_redirects_that_clients_cannot_follow_are_not_sent(
    ground: Ground, data: Path, patterns: dict[str, Pattern]
) -> None:
    origin = http_origins.nginx(ground, data, webdav=False)
    table = {"export": [{"path": "/", "origins": [origin.url]}], "rule": [{"action": "redirect"}]}
    try:
        with forebay.configured(ground, table) as cache:
            assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), patterns[PATH].all(), "through the cache")
            assert not list(cache.data.rglob("*.bin")), "nothing is kept"
            removed = run_client([program("xrdfs"), cache.address, "rm", PATH])
            assert removed.returncode != 0
            assert (data / PATH[1:]).is_file(), "the origin has not been asked"
    finally:
        origin.stop()


def test_origin_that_is_down_is_named(ground: Ground) -> None:
    port = ground.free_port()
    with forebay.cache(ground, f"http://127.0.0.1:{port}") as cache:
        result = run_client([program("xrdfs"), cache.address, "stat", "/f"])
    assert result.returncode != 0
    assert f"127.0.0.1:{port}".encode() in result.stderr
