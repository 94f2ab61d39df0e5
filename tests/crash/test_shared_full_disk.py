"""A cache that shares its disk, with the index on it: another program, or the cache itself, fills it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import forebay, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.loop_disk import LoopDisk
from harness.metrics import Metrics
from harness.waiting import until

DISK = 96 << 20
FILE = 2 << 20
FILES = 30
LARGE = Pattern(160 << 20, 5)
PIECE = 1 << 20


def content(number: int) -> Pattern:
    """Of file `number`."""
    return Pattern(FILE, 100 + number)


@pytest.fixture(scope="module")
def origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with small files, and one that is larger than the disk."""
    directory = ground.directory("shared-full")
    for number in range(FILES):
        content(number).write(directory / f"{number}.bin")
    LARGE.write(directory / "large.bin")
    return xrootd.plain(ground, directory)


@pytest.fixture
def disk(ground: Ground) -> Iterator[LoopDisk]:
    """A disk of 96 MiB."""
    disk = LoopDisk.make(ground, "shared", DISK, ["-m", "0"])
    yield disk
    disk.unmount()


def start(ground: Ground, origin: xrootd.Origin, disk: LoopDisk) -> Forebay:
    """A cache whose marks are those of its file system."""
    store = disk.path / "store"
    where = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--store", str(store), "--block-size", "64KiB"]
    return Forebay(ground, [*where, "--memory", forebay.MEMORY, "--origin", origin.url], store=store)


def read(cache: Forebay, number: int) -> None:
    """Reads and checks a file."""
    with cache.client() as client:
        handle = client.open(f"/{number}.bin")
        for offset in range(0, FILE, PIECE):
            assert_same(client.read(handle, offset, PIECE).ok(), content(number).read(offset, PIECE), f"{number}")


def hit_bytes(cache: Forebay, number: int) -> int:
    """How many bytes of a read of the whole file come from the disk."""
    before = cache.metrics().client_bytes()["hit"]
    read(cache, number)
    return cache.metrics().client_bytes()["hit"] - before


def is_kept(cache: Forebay, number: int) -> bool:
    """Whether a file that is read for the second time comes from the disk."""
    read(cache, number)
    cache.settled_metrics()
    return hit_bytes(cache, number) == FILE


def assert_counted_as_full(metrics: Metrics) -> None:
    """Nothing is reported as a failure of the disk."""
    assert metrics.total("forebay_not_kept_total", reason="disk_error") == 0
    assert metrics.total("forebay_disk_errors_total") == 0
    assert metrics.total("forebay_index_errors_total") == 0


def test_disk_filled_by_others_is_purged_and_kept_on_again(
    ground: Ground, origin: xrootd.Origin, disk: LoopDisk
) -> None:
    with start(ground, origin, disk) as cache:
        for number in range(10):
            read(cache, number)
        cache.settled_metrics()
        disk.fill()
        for number in range(FILES):
            read(cache, number)
        until(lambda: cache.metrics().total("forebay_purged_files_total") > 0, "entries are removed", within=60)
        disk.free()
        until(lambda: is_kept(cache, 20), "files are kept again", within=60)
        assert_counted_as_full(cache.settled_metrics())
        output = cache.process.output()
    assert output.count("the cache disk is full") <= 3, "the same is not logged again and again"


def test_start_on_a_full_disk_serves_and_purges(ground: Ground, origin: xrootd.Origin, disk: LoopDisk) -> None:
    with start(ground, origin, disk) as cache:
        for number in range(10):
            read(cache, number)
        cache.settled_metrics()
    disk.fill()
    with start(ground, origin, disk) as cache:
        for number in range(FILES):
            read(cache, number)
        until(lambda: cache.metrics().total("forebay_purged_files_total") > 0, "entries are removed", within=60)
        disk.free()
        until(lambda: is_kept(cache, 20), "files are kept again", within=60)
        assert cache.metrics().total("forebay_index_errors_total") == 0


def test_file_larger_than_the_disk_is_kept_in_part(ground: Ground, origin: xrootd.Origin, disk: LoopDisk) -> None:
    with start(ground, origin, disk) as cache:
        for number in range(5):
            read(cache, number)
        cache.settled_metrics()
        for _ in range(2):
            with cache.client() as client:
                handle = client.open("/large.bin")
                for offset in range(0, LARGE.size, PIECE):
                    assert_same(client.read(handle, offset, PIECE).ok(), LARGE.read(offset, PIECE), f"at {offset}")
        metrics = cache.settled_metrics()
        assert metrics.client_bytes()["hit"] >= 20 << 20, "a part of it was kept"
        assert [number for number in range(5) if hit_bytes(cache, number) == FILE] == list(range(5))
        assert_counted_as_full(cache.metrics())
        assert is_kept(cache, 6)


def test_inodes_that_run_out_are_purged_for(ground: Ground, origin: xrootd.Origin) -> None:
    disk = LoopDisk.make(ground, "few-inodes", DISK, ["-m", "0", "-N", "64"])
    try:
        with start(ground, origin, disk) as cache:
            for number in range(FILES):
                read(cache, number)
            cache.settled_metrics()
            assert is_kept(cache, 3)
            assert_counted_as_full(cache.metrics())
    finally:
        disk.unmount()
