"""Offsets beyond 32 bits: a sparse file of 5 GiB."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness import forebay, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.raw_client import RawClient, vector_elements
from harness.wire import Status

GIB = 1 << 30
LARGE = Pattern(5 * GIB + 12345, 99)
ISLAND = 200_000
ISLANDS = [(0, ISLAND), (2 * GIB - 1000, ISLAND), (4 * GIB - 1000, ISLAND), (LARGE.size - ISLAND, ISLAND)]


@pytest.fixture(scope="module")
def directory_url(ground: Ground) -> str:
    """An xrootd that serves the large file."""
    directory = ground.directory("large")
    LARGE.write_sparse(directory / "large.bin", ISLANDS)
    return xrootd.plain(ground, directory).url


def check(client: RawClient) -> None:
    """Reads each island, the adjacent holes, and across the end of the file."""
    handle = client.open("/large.bin")
    assert int(client.stat("/large.bin").ok().split(b" ")[1]) == LARGE.size
    for offset, length in ISLANDS:
        expected = LARGE.read(offset, length)
        assert_same(client.read(handle, offset, length).ok(), expected, f"read at {offset}")
        assert_same(client.page_read(handle, offset, length).ok(), expected, f"pgread at {offset}")
        elements = vector_elements(client.read_vector([(handle, offset + 7, 9), (handle, offset + 5000, 70_000)]).ok())
        assert [data for _, data in elements] == [expected[7:16], expected[5000:75_000]]
    hole = 3 * GIB + 17
    assert_same(client.read(handle, hole, 3 * BLOCK).ok(), bytes(3 * BLOCK), "hole")
    assert_same(client.read(handle, LARGE.size - 10, 1 << 20).ok(), LARGE.read(LARGE.size - 10, 10), "across the end")
    beyond = client.read(handle, LARGE.size, 10)
    assert (beyond.status, beyond.body) == (Status.OK, b"")


def test_offsets_beyond_four_gibibytes(directory_url: str, cache_of: Callable[..., Forebay]) -> None:
    cache = cache_of(directory_url)
    with cache.client() as client:
        check(client)
        cold = cache.settled_metrics().origin_bytes
        check(client)
    assert cache.metrics().origin_bytes == cold
    assert cold < 8 << 20


def test_sparse_file_stays_sparse_in_the_store(directory_url: str, cache_of: Callable[..., Forebay]) -> None:
    cache = cache_of(directory_url)
    with cache.client() as client:
        client.read(client.open("/large.bin"), LARGE.size - 10, 10).ok()
    cache.stop()
    assert (cache.data / "large.bin").stat().st_blocks * 512 < 4 << 20


def test_export_serves_large_files(ground: Ground) -> None:
    directory = ground.directory("large-export")
    LARGE.write_sparse(directory / "large.bin", ISLANDS)
    with forebay.export(ground, directory) as server, server.client() as client:
        check(client)
