"""Bytes that change on disk reach no client, and complete files answer for themselves."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, program
from harness.waiting import until

PATH = "/data/file.bin"
CONTENT = Pattern(24 * BLOCK + 321, 11)
BLOCKS = 25
PATIENCE = {"deadline": "60s", "attempts": 2}
CHECKS = "forebay_block_checks_total"


class Site:
    """A store that outlives its servers, and the origin before which they run."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        data = ground.directory("data")
        CONTENT.write(data / PATH[1:])
        self.origin = xrootd.plain(ground, data)
        self.store = ground.directory("store")

    def start(self, **integrity: object) -> Forebay:
        """A server on the store."""
        export = {"path": "/", "origins": [self.origin.url]}
        configuration = {"export": [export], "origin": PATIENCE, "integrity": integrity}
        return forebay.configured(self._ground, configuration, store=self.store)

    def fill(self) -> None:
        """Leaves the whole file, with its checksums, in the store."""
        with self.start() as cache:
            self.read(cache)
            compared = "forebay_checksum_comparisons_total"
            until(lambda: cache.metrics().total(compared, result="equal") == 1, "the checksum was compared")
            assert cache.metrics().total(compared, result="different") == 0

    def read(self, cache: Forebay) -> None:
        """Reads the whole file with a stock client and compares every byte."""
        assert_same(fetch("xrdcp", self._ground, cache.file_url(PATH)), CONTENT.all(), PATH)

    @property
    def file(self) -> Path:
        """The data file in the store."""
        return self.store / PATH[1:]


@pytest.fixture
def site(ground: Ground) -> Iterator[Site]:
    """A store that holds the whole file."""
    made = Site(ground)
    made.fill()
    yield made
    made.origin.stop()


def flip(path: Path, offset: int) -> None:
    """Changes one bit of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


def test_an_on_disk_checksum_error_is_a_refetch_and_not_a_client_error(site: Site) -> None:
    flip(site.file, 7 * BLOCK + 100)
    with site.start() as cache:
        site.read(cache)
        metrics = cache.settled_metrics()
        assert metrics.total(CHECKS, result="damaged") == 1
        assert metrics.total(CHECKS, result="intact") == BLOCKS - 1
        assert metrics.origin_bytes == BLOCK
        assert "a block on disk is damaged" in cache.process.output()
        assert str(site.file) in cache.process.output()
    site.origin.stop()
    with site.start() as cache:
        site.read(cache)
        assert cache.metrics().total(CHECKS, result="intact") == BLOCKS


def test_a_truncated_data_file_is_fetched_again(site: Site) -> None:
    with site.file.open("r+b") as file:
        file.truncate(3 * BLOCK)
    with site.start() as cache:
        site.read(cache)
        assert cache.settled_metrics().origin_bytes == CONTENT.size


def test_without_its_index_a_cache_serves_and_learns(site: Site) -> None:
    (site.store / ".forebay" / "index").unlink()
    with site.start() as cache:
        site.read(cache)
        metrics = cache.metrics()
        assert metrics.total(CHECKS, result="learned") == BLOCKS
        assert metrics.origin_bytes == 0


def test_no_block_is_checked_when_checks_are_disabled(site: Site) -> None:
    with site.start(check="never") as cache:
        site.read(cache)
        assert cache.metrics().total(CHECKS) == 0


def test_a_complete_file_has_its_checksum_while_its_origin_is_down(site: Site, ground: Ground) -> None:
    site.origin.stop()
    adler32 = f"{zlib.adler32(CONTENT.all()):08x}"
    with site.start() as cache:
        answer = run_client([program("xrdfs"), cache.address, "query", "checksum", PATH])
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.split() == [b"adler32", adler32.encode()]
        destination = ground.directory("download") / "file"
        copy: list[str | Path] = [
            program("xrdcp"),
            "--nopbar",
            "--cksum",
            "adler32:source",
            cache.file_url(PATH),
            destination,
        ]
        copied = run_client(copy)
        assert copied.returncode == 0, copied.stderr
        assert_same(destination.read_bytes(), CONTENT.all(), PATH)
