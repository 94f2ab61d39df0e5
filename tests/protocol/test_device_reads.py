"""Reads that the page cache cannot answer return the bytes of the file, over both protocols."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.http_client import Connection

from .conftest import FILE

LENGTHS = [1, 4096, 16 << 10, 32 << 10, 3 * BLOCK + 17, 1 << 20]

Reader = Callable[[int, int], bytes]


def filled(ground: Ground, origin: xrootd.Origin) -> Forebay:
    """A cache that has the whole file, written to its disk."""
    cache = forebay.cache(ground, origin.url)
    with cache.client() as client:
        client.read(client.open(FILE), 0, 1 << 30).ok()
    cache.settled_metrics()
    return cache


@pytest.fixture(scope="module")
def cache(ground: Ground, plain_origin: xrootd.Origin) -> Iterator[Forebay]:
    """A cache for the tests that change nothing."""
    with filled(ground, plain_origin) as cache:
        yield cache


@pytest.fixture(params=["root", "http"])
def protocol(request: pytest.FixtureRequest) -> str:
    """The protocol of the reads."""
    return str(request.param)


@contextmanager
def reader(cache: Forebay, protocol: str) -> Iterator[Reader]:
    """Reads from the file, which stays open."""
    if protocol == "root":
        with cache.client() as client:
            handle = client.open(FILE)
            yield lambda offset, length: client.read(handle, offset, length).ok()
    else:
        with Connection(cache) as connection:
            yield (
                lambda offset, length: (
                    connection.ask("GET", FILE, {"Range": f"bytes={offset}-{offset + length - 1}"}).body
                )
            )


def stored(cache: Forebay) -> Path:
    """The data file."""
    return cache.data / FILE[1:]


def drop_pages(path: Path) -> None:
    """Has the next read of the file come from the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


@pytest.mark.parametrize("length", LENGTHS)
def test_random_reads_from_the_disk_return_exactly_the_range(
    cache: Forebay, file: Pattern, protocol: str, length: int
) -> None:
    places = random.Random(length)
    with reader(cache, protocol) as read:
        for _ in range(20):
            drop_pages(stored(cache))
            offset = places.randrange(file.size - length)
            assert_same(read(offset, length), file.read(offset, length), f"{length} bytes at {offset}")


def test_reads_in_order_from_the_disk_return_the_file(cache: Forebay, file: Pattern, protocol: str) -> None:
    drop_pages(stored(cache))
    step = BLOCK + 100
    with reader(cache, protocol) as read:
        for offset in range(0, file.size - step, step):
            assert_same(read(offset, step), file.read(offset, step), f"at {offset}")


def test_bytes_that_the_disk_lost_come_from_the_origin(
    ground: Ground, plain_origin: xrootd.Origin, file: Pattern, protocol: str
) -> None:
    with filled(ground, plain_origin) as cache, reader(cache, protocol) as read:
        read(0, 1)
        os.truncate(stored(cache), file.size // 2)
        drop_pages(stored(cache))
        offset = file.size // 2 - 50_000
        assert_same(read(offset, 100_000), file.read(offset, 100_000), "across the end of the file on disk")
        assert_same(read(0, 100_000), file.read(0, 100_000), "before it")
