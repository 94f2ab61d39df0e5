"""Several disks on file systems of their own: one that is full, read-only or gone costs its own files only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from harness import forebay, xrootd
from harness.admin import Site
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.loop_disk import LoopDisk
from harness.metrics import Metrics
from harness.relay import Relay
from harness.waiting import until

FILES = 12
CONTENT = Pattern(2 << 20, 5)
SMALL = Pattern(4096, 6)


@pytest.fixture(scope="module")
def origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with a few files of the same content."""
    directory = ground.directory("several")
    for number in range(FILES):
        CONTENT.write(directory / f"{number}.bin")
    for path in SMALL_PATHS:
        SMALL.write(directory / path[1:])
    return xrootd.plain(ground, directory)


@pytest.fixture
def relay(origin: xrootd.Origin) -> Iterator[Relay]:
    """Counts requests to the origin."""
    with Relay(("127.0.0.1", origin.port)) as way:
        yield way


@pytest.fixture
def disks(ground: Ground) -> Iterator[list[LoopDisk]]:
    """Two disks."""
    made: list[LoopDisk] = []
    try:
        for name in ("first", "second"):
            made.append(LoopDisk.make(ground, name))
        yield made
    finally:
        for disk in made:
            disk.unmount()


PATHS = [f"/{number}.bin" for number in range(FILES)]
# So many that some are placed on each disk.
SMALL_PATHS = [f"/small-{number}.bin" for number in range(32)]


def start(ground: Ground, origin_url: str, disks: list[LoopDisk]) -> Forebay:
    """A cache on all disks."""
    configuration: dict[str, Any] = {
        "export": [{"origins": [origin_url]}],
        "disk": [{"path": str(disk.path), "mounted": True} for disk in disks],
    }
    return forebay.configured(ground, configuration, store=disks[0].path)


def read_all(cache: Forebay, paths: list[str], content: Pattern = CONTENT) -> None:
    """Opens, reads and checks every file."""
    with cache.client() as client:
        for path in paths:
            handle = client.open(path)
            assert_same(client.read(handle, 0, content.size).ok(), content.read(0, content.size), path)
            client.close_file(handle)


def state(metrics: Metrics, disk: LoopDisk) -> str:
    """The state of a disk according to the metrics."""
    states = ("healthy", "degraded", "full", "read_only", "offline", "probing")
    reported = [name for name in states if metrics.total("forebay_disk_state", disk=str(disk.path), state=name) == 1]
    assert len(reported) == 1, f"{disk.path} is {reported}"
    return reported[0]


def hits(cache: Forebay, paths: list[str]) -> int:
    """Bytes given from the disk when everything is read once more."""
    before = cache.metrics().client_bytes()["hit"]
    read_all(cache, paths)
    return cache.metrics().client_bytes()["hit"] - before


def is_recorded(ground: Ground, disk: LoopDisk, path: str) -> bool:
    """Whether the record of a cached file has all of its blocks."""
    inspected = forebay.run(ground, "inspect", "--json", str(disk.path / path[1:]))
    return inspected.returncode == 0 and json.loads(inspected.stdout)["state_complete"] == "complete"


def test_files_are_spread_and_found_again(ground: Ground, relay: Relay, disks: list[LoopDisk]) -> None:
    with start(ground, relay.url, disks) as cache:
        read_all(cache, PATHS)
        cache.settled_metrics()
        assert [state(cache.metrics(), disk) for disk in disks] == ["healthy", "healthy"]
        assert cache.metrics().total("forebay_disk_bytes", disk=str(disks[0].path)) > 0
    assert all(sum(disk.holds(path) for disk in disks) == 1 for path in PATHS)
    assert all(any(disk.holds(path) for path in PATHS) for disk in disks)
    with start(ground, relay.url, disks[::-1]) as cache:
        asked = len(relay.reads)
        assert hits(cache, PATHS) == len(PATHS) * CONTENT.size
        assert len(relay.reads) == asked


def test_disk_that_becomes_read_only_is_read_and_not_written(
    ground: Ground, relay: Relay, disks: list[LoopDisk]
) -> None:
    with start(ground, relay.url, disks) as cache:
        read_all(cache, PATHS[:8])
        cache.settled_metrics()
        on_first = [path for path in PATHS[:8] if disks[0].holds(path)]
        until(
            lambda: all(is_recorded(ground, disks[0], path) for path in on_first), "the records are complete", within=20
        )
        disks[0].sync()
        disks[0].abort()
        assert hits(cache, on_first) == len(on_first) * CONTENT.size
        read_all(cache, PATHS)
        # Uses alone write nothing for minutes: the disk is found read-only by the files that are placed on it.
        read_all(cache, SMALL_PATHS, SMALL)
        assert not any(disks[0].holds(path) for path in PATHS[8:] + SMALL_PATHS)
        until(lambda: state(cache.metrics(), disks[0]) == "read_only", "the metrics show it", within=20)
        assert state(cache.metrics(), disks[1]) == "healthy"
    disks[0].repair()
    with start(ground, relay.url, disks) as cache:
        # A disk that is slow on a busy machine is offline until it answers.
        until(lambda: state(cache.metrics(), disks[0]) == "healthy", "the disk is used again", within=60)
        assert hits(cache, on_first) == len(on_first) * CONTENT.size


def test_damaged_directory_costs_its_own_files_only(ground: Ground, disks: list[LoopDisk]) -> None:
    directory = ground.directory("halves")
    good, bad, new = ([f"/{name}/{number}.bin" for number in range(4)] for name in ("good", "bad", "new"))
    for path in good + bad + new:
        (directory / path[1:]).parent.mkdir(exist_ok=True)
        CONTENT.write(directory / path[1:])
    origin, disk = xrootd.plain(ground, directory), disks[0]
    with start(ground, origin.url, [disk]) as cache:
        read_all(cache, good + bad)
        cache.settled_metrics()
    disk.damage_directory("/bad")
    with pytest.raises(OSError, match="Bad message"):
        next((disk.path / "bad").iterdir())
    # Without the index, all directories are walked over.
    for file in (disk.path / ".forebay").glob("index*"):
        file.unlink()
    with start(ground, origin.url, [disk]) as cache:
        cache.process.wait_for_line("the index has every entry on the disk .*files=4 ")
        for _ in range(3):
            read_all(cache, bad)
        errors = cache.metrics().total("forebay_disk_errors_total")
        assert errors > 0
        assert cache.metrics().total("forebay_not_kept_total", reason="disk_error") > 0
        assert hits(cache, good) == len(good) * CONTENT.size, "at once after the failures"
        read_all(cache, new)
        until(lambda: hits(cache, new) == len(new) * CONTENT.size, "new files are stored", within=20)
        with cache.client() as client:
            # More than enough failures for a disk that fails as a whole.
            for number in range(20):
                assert client.try_open(f"/bad/absent-{number}.bin").error is not None
        read_all(cache, bad)
        assert hits(cache, good + new) == len(good + new) * CONTENT.size
        assert state(cache.metrics(), disk) in ("healthy", "degraded")
        assert cache.process.output().count("cannot be used") == 1, "logged once a minute"
        assert cache.metrics().total("forebay_client_errors_total") <= 20, "of the absent files"
    for file in (disk.path / ".forebay").glob("index*"):
        file.unlink()
    configuration = {"export": [{"origins": [origin.url]}], "integrity": {"scrub_rate": "1GiB"}}
    with Site(ground, configuration, store=disk.path) as site:
        until(lambda: site.get("/status")["index"]["files"] == len(good + new), "all that can be read is found")
        assert site.command("scrub", "--wait").returncode == 0
        assert site.get("/scrub")["bad_blocks"] == 0
        purged = site.command("purge", "--to", "0%", "--yes")
        assert purged.returncode == 0, purged.stderr
        assert not any(disk.holds(path) for path in good + new), "all others are removed"
        read_all(site.server, good + bad)
        assert state(site.server.metrics(), disk) in ("healthy", "degraded")
    origin.stop()


def test_absent_disk_is_used_once_it_is_mounted(ground: Ground, relay: Relay, disks: list[LoopDisk]) -> None:
    with start(ground, relay.url, disks) as cache:
        read_all(cache, PATHS)
    on_first = [path for path in PATHS if disks[0].holds(path)]
    on_second = [path for path in PATHS if disks[1].holds(path)]
    disks[1].unmount()
    with start(ground, relay.url, disks) as cache:
        assert state(cache.metrics(), disks[1]) == "offline"
        assert hits(cache, on_first) == len(on_first) * CONTENT.size
        assert not any(disks[1].path.iterdir()), "nothing is written below a bare mount point"
        disks[1].mount()
        until(lambda: state(cache.metrics(), disks[1]) == "healthy", "it is back", within=60)
        assert hits(cache, on_second) == len(on_second) * CONTENT.size


def test_full_disk_pauses_itself_only(ground: Ground, relay: Relay, disks: list[LoopDisk]) -> None:
    with (disks[0].path / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, os.statvfs(disks[0].path).f_bavail * os.statvfs(disks[0].path).f_frsize)
    with start(ground, relay.url, disks) as cache:
        for _ in range(3):
            read_all(cache, PATHS)
        cache.settled_metrics()
        asked = sum(min(read.length, CONTENT.size - read.offset) for read in relay.reads)
        assert asked <= 2 * len(PATHS) * CONTENT.size, "a full disk must not cause endless fetching"
        assert hits(cache, PATHS) > 0
        assert cache.metrics().total("forebay_client_errors_total") == 0
