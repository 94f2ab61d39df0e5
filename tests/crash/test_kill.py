"""SIGKILL while filling, again and again: after each restart every byte read equals the origin's."""

from __future__ import annotations

import contextlib
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.raw_client import Closed

ROUNDS = 50
READERS = 4
FILE_BLOCKS = 24
FILES = {f"/round-{index}.bin": Pattern(FILE_BLOCKS * BLOCK + index * 37, index) for index in range(ROUNDS)}
FREQUENT_SYNC = {"sync_interval": "50ms"}


@pytest.fixture(scope="module")
def origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with a file for each round."""
    directory = ground.directory("rounds")
    for path, content in FILES.items():
        content.write(directory / path[1:])
    return xrootd.plain(ground, directory)


def start(ground: Ground, origin: xrootd.Origin, store: Path) -> Forebay:
    """A cache that syncs often, so that much has been promised to survive when it is killed."""
    export = {"path": "/", "origins": [origin.url]}
    return forebay.configured(ground, {"export": [export], "store": FREQUENT_SYNC}, store=store)


def verify(cache: Forebay, path: str) -> None:
    """Reads a whole file and compares every byte."""
    with cache.client() as client:
        assert_same(client.read(client.open(path), 0, 1 << 30).ok(), FILES[path].all(), path)


class FillUntilKilled:
    """Reads one file at random with several clients and kills the cache in the middle of it.

    First only half of the file is read, until a sync has put bits on the disk; then all of it, for a number of bytes.
    """

    def __init__(self, cache: Forebay, path: str, kill_after_bytes: int, seed: int) -> None:
        self._cache = cache
        self._path = path
        self._seed = seed
        self._left = kill_after_bytes
        self._synced = False
        self._lock = threading.Lock()

    def run(self) -> None:
        """Returns when the cache is dead."""
        with ThreadPoolExecutor(READERS) as pool:
            for outcome in pool.map(self._read, range(READERS)):
                assert outcome is None
        self._cache.process.kill()

    def _read(self, number: int) -> None:
        choice = random.Random(self._seed * READERS + number)
        content = FILES[self._path]
        with contextlib.suppress(Closed, ConnectionError), self._cache.client() as client:
            handle = client.open(self._path)
            received = 0
            while self._goes_on(received):
                offset = choice.randrange(content.size if self._synced else content.size // 2)
                data = client.read(handle, offset, choice.randrange(1, 3 * BLOCK)).ok()
                assert_same(data, content.read(offset, len(data)), f"{self._path} at {offset}")
                received = len(data)

    def _goes_on(self, received: int) -> bool:
        """Counts received bytes from the first sync on; kills the cache at the limit."""
        with self._lock:
            if not self._synced:
                self._synced = bool(present_blocks(self._cache.data / f"{self._path[1:]}.cinfo"))
                return True
            self._left -= received
            if self._left <= 0:
                self._cache.process.kill()
            return self._left > 0


@pytest.mark.timeout(1200)
def test_every_byte_is_right_after_each_of_50_kills_while_filling(ground: Ground, origin: xrootd.Origin) -> None:
    store = ground.directory("store")
    survived = 0
    for index, path in enumerate(FILES):
        cache = start(ground, origin, store)
        for earlier in list(FILES)[max(0, index - 2) : index]:
            verify(cache, earlier)
        survived += cache.metrics().client_bytes()["hit"]
        limit = random.Random(index).randrange(1, FILE_BLOCKS * BLOCK)
        FillUntilKilled(cache, path, limit, index).run()
    with start(ground, origin, store) as cache:
        for path in FILES:
            verify(cache, path)
    assert survived > 0, "no block survived any kill: the test has tested nothing"


def test_bits_are_never_set_for_blocks_that_the_data_file_lacks(ground: Ground, origin: xrootd.Origin) -> None:
    store = ground.directory("store")
    path = next(iter(FILES))
    for seed in range(8):
        cache = start(ground, origin, store)
        FillUntilKilled(cache, path, (1 + seed) * 3 * BLOCK, seed).run()
        origin_data, cached = FILES[path].all(), (store / path[1:]).read_bytes()
        for block in present_blocks(store / f"{path[1:]}.cinfo"):
            piece = slice(block * BLOCK, (block + 1) * BLOCK)
            assert cached[piece] == origin_data[piece], f"block {block}"


def present_blocks(cinfo: Path) -> list[int]:
    """Reads the bit vector of a version 4 cinfo: it begins after the 56 fixed bytes."""
    try:
        image = cinfo.read_bytes()
    except FileNotFoundError:
        # Not created yet, or an unusable one of a killed process is being replaced.
        return []
    vector = image[56 : 56 + (FILE_BLOCKS + 8) // 8]
    if len(vector) * 8 < FILE_BLOCKS:
        return []  # It is created concurrently with the first reads.
    return [index for index in range(FILE_BLOCKS) if vector[index // 8] >> (index % 8) & 1]
