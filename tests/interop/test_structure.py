"""Read-ahead by the structure of ROOT files: the baskets of the columns that a job reads, and no others."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import uproot

from harness import forebay, xrootd
from harness.content import assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.raw_client import RawClient
from harness.relay import Relay
from harness.waiting import until

COLUMNS, CLUSTERS, ENTRIES = 30, 12, 20_000
PATH, DAMAGED, OTHER = "/tree.root", "/damaged.root", "/tree.dat"
USED = ("x03", "x17")
HEAD = 400
Range = tuple[int, int]


@dataclass
class Tree:
    """A ROOT file, and where the baskets of each column lie."""

    content: bytes
    baskets: dict[str, list[Range]]
    record: Range


@pytest.fixture(scope="module")
def directory(ground: Ground) -> Path:
    """A file of baskets of different lengths, the same one under another name, and a damaged one."""
    directory, random = ground.directory("structure"), np.random.default_rng(7)
    names = [f"x{number:02}" for number in range(COLUMNS)]
    with uproot.recreate(directory / PATH[1:]) as file:
        tree = file.mktree("Events", dict.fromkeys(names, "float32"))
        for _ in range(CLUSTERS):
            columns = {name: random.normal(size=ENTRIES).astype("float32") for name in names}
            for values in columns.values():
                values[: random.integers(ENTRIES // 2)] = 0
            tree.extend(columns)
    content = (directory / PATH[1:]).read_bytes()
    (directory / OTHER[1:]).write_bytes(content)
    (start, length), damage = record_of(directory / PATH[1:]), b"\xff" * 500
    (directory / DAMAGED[1:]).write_bytes(
        content[: start + length // 2] + damage + content[start + length // 2 + 500 :]
    )
    return directory


def record_of(path: Path) -> Range:
    """Where the record of the tree lies."""
    with uproot.open(path) as file:
        key = file.key("Events")
        return int(key.fSeekKey), int(key.fNbytes)


@pytest.fixture(scope="module")
def tree(ground: Ground, directory: Path) -> Tree:
    printed = forebay.run(ground, "root-layout", str(directory / PATH[1:]), "--items", "--json")
    (layout,) = json.loads(printed.stdout)["trees"]
    baskets: dict[str, list[Range]] = defaultdict(list)
    for offset, length, _, column in layout["items"]:
        baskets[layout["columns"][column]["name"]].append((offset, length))
    content = (directory / PATH[1:]).read_bytes()
    return Tree(content, baskets, record_of(directory / PATH[1:]))


@pytest.fixture
def relay(ground: Ground, directory: Path) -> Iterator[Relay]:
    """Counts requests to the origin."""
    origin = xrootd.plain(ground, directory)
    with Relay(("127.0.0.1", origin.port)) as way:
        yield way
    origin.stop()


def cache_of(ground: Ground, relay: Relay, **read_ahead: object) -> Forebay:
    """A cache in front of the origin."""
    return forebay.configured(ground, {"read_ahead": read_ahead, "export": [{"origins": [relay.url]}]})


class Job:
    """A reader of a tree: the head, the record of the tree, and then baskets."""

    def __init__(self, client: RawClient, tree: Tree, path: str = PATH) -> None:
        self.client, self.content, self.handle = client, tree.content, client.open(path)
        for offset, length in [(0, HEAD), tree.record]:
            self.read(offset, length)

    def read(self, offset: int, length: int) -> None:
        """Reads and checks a range."""
        got = self.client.read(self.handle, offset, length).ok()
        assert_same(got, self.content[offset : offset + length], f"at {offset}")


def blocks_of(ranges: list[Range]) -> set[int]:
    return {block for offset, length in ranges for block in range(offset // BLOCK, (offset + length - 1) // BLOCK + 1)}


def parsed(cache: Forebay, outcome: str) -> bool:
    return cache.metrics().total("forebay_structure_files_total", outcome=outcome) == 1


def test_baskets_of_the_columns_in_use_are_fetched_ahead_and_no_others(
    ground: Ground, relay: Relay, tree: Tree
) -> None:
    with cache_of(ground, relay) as cache, cache.client() as client:
        job = Job(client, tree)
        until(lambda: parsed(cache, "parsed"), "the file is parsed")
        for cluster in range(2):
            for name in USED:
                job.read(*tree.baskets[name][cluster])
        wanted = blocks_of([basket for name in USED for basket in tree.baskets[name]])

        def fetched() -> set[int]:
            return blocks_of([(read.offset, read.length) for read in relay.reads])

        until(lambda: wanted <= fetched(), "all baskets of these columns are fetched")
        cache.settled_metrics()
        size = len(tree.content)
        ends = blocks_of([(0, BLOCK), (size - BLOCK, BLOCK), tree.record])
        assert fetched() <= wanted | ends
        requests = len(relay.reads)
        for cluster in range(2, CLUSTERS):
            for name in USED:
                job.read(*tree.baskets[name][cluster])
        assert len(relay.reads) == requests
        assert cache.metrics().total("forebay_not_read_ahead_total") == 0


def test_columns_of_one_reader_are_fetched_for_the_next(ground: Ground, relay: Relay, tree: Tree) -> None:
    with cache_of(ground, relay, window_max="256KiB") as cache, cache.client() as first, cache.client() as second:
        job = Job(first, tree)
        until(lambda: parsed(cache, "parsed"), "the file is parsed")
        for cluster in range(2):
            job.read(*tree.baskets[USED[0]][cluster])
        other = Job(second, tree)
        other.read(*tree.baskets["x29"][6])
        wanted = blocks_of([tree.baskets[USED[0]][6]])
        until(
            lambda: wanted <= blocks_of([(read.offset, read.length) for read in relay.reads]),
            "the column of the first reader is fetched where the second one reads",
        )


@pytest.mark.parametrize(
    ("path", "structure", "outcome"), [(DAMAGED, "learn", "damaged"), (PATH, "off", None), (OTHER, "learn", None)]
)
def test_files_without_a_known_structure_are_read_as_before(
    path: str, structure: str, outcome: str | None, ground: Ground, relay: Relay, tree: Tree, directory: Path
) -> None:
    content = (directory / path[1:]).read_bytes()
    with cache_of(ground, relay, structure=structure) as cache, cache.client() as client:
        job = Job(client, Tree(content, tree.baskets, tree.record), path)
        if outcome:
            until(lambda: parsed(cache, outcome), "the file is parsed")
        for cluster in range(CLUSTERS):
            for name in USED:
                job.read(*tree.baskets[name][cluster])
        metrics = cache.settled_metrics()
        assert metrics.total("forebay_structure_files_total") == (1 if outcome else 0)
        assert metrics.total("forebay_client_errors_total") == 0
