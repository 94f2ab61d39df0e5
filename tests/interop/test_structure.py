"""Read-ahead by the structure of ROOT files: the baskets of the columns that a job reads, and no others."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import uproot

from harness import forebay, xrootd
from harness.admin import Site
from harness.content import assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.raw_client import RawClient
from harness.relay import OriginRead, Relay
from harness.waiting import until

COLUMNS, CLUSTERS, ENTRIES = 30, 12, 20_000
PATH, NEXT, DAMAGED, OTHER = "/set/01/tree.root", "/set/02/next.root", "/damaged.root", "/tree.dat"
USED = ("x03", "x17")
HEAD = 400
# User and program of a set.
JOBS = [(None, None), ("tester", "raw")]
Range = tuple[int, int]


@dataclass
class Tree:
    """A ROOT file, and where the baskets of each column lie."""

    content: bytes
    baskets: dict[str, list[Range]]
    record: Range


@pytest.fixture(scope="module")
def directory(ground: Ground) -> Path:
    """Two files of a dataset with baskets of different lengths, one of them under another name and damaged too."""
    directory = ground.directory("structure")
    for seed, path in enumerate((PATH, NEXT)):
        (directory / path[1:]).parent.mkdir(parents=True)
        make_tree(directory / path[1:], seed)
    content = (directory / PATH[1:]).read_bytes()
    (directory / OTHER[1:]).write_bytes(content)
    (start, length), damage = record_of(directory / PATH[1:]), b"\xff" * 500
    (directory / DAMAGED[1:]).write_bytes(
        content[: start + length // 2] + damage + content[start + length // 2 + 500 :]
    )
    return directory


def make_tree(path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [f"x{number:02}" for number in range(COLUMNS)]
    with uproot.recreate(path) as file:
        tree = file.mktree("Events", dict.fromkeys(names, "float32"))
        for _ in range(CLUSTERS):
            columns = {name: random.normal(size=ENTRIES).astype("float32") for name in names}
            for values in columns.values():
                values[: random.integers(ENTRIES // 2)] = 0
            tree.extend(columns)


def record_of(path: Path) -> Range:
    """Where the record of the tree lies."""
    with uproot.open(path) as file:
        key = file.key("Events")
        return int(key.fSeekKey), int(key.fNbytes)


@pytest.fixture(scope="module")
def tree(ground: Ground, directory: Path) -> Tree:
    return read_tree(ground, directory, PATH)


@pytest.fixture(scope="module")
def next_tree(ground: Ground, directory: Path) -> Tree:
    return read_tree(ground, directory, NEXT)


def read_tree(ground: Ground, directory: Path, path: str) -> Tree:
    printed = forebay.run(ground, "root-layout", str(directory / path[1:]), "--items", "--json")
    (layout,) = json.loads(printed.stdout)["trees"]
    baskets: dict[str, list[Range]] = defaultdict(list)
    for offset, length, _, column in layout["items"]:
        baskets[layout["columns"][column]["name"]].append((offset, length))
    content = (directory / path[1:]).read_bytes()
    return Tree(content, baskets, record_of(directory / path[1:]))


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

    def read_all(self, tree: Tree, names: tuple[str, ...] = USED) -> None:
        """Reads the baskets of some columns, cluster by cluster."""
        for cluster in range(CLUSTERS):
            for name in names:
                self.read(*tree.baskets[name][cluster])

    def close(self) -> None:
        """Closes the file."""
        self.client.close_file(self.handle).ok()


def blocks_of(ranges: list[Range]) -> set[int]:
    return {block for offset, length in ranges for block in range(offset // BLOCK, (offset + length - 1) // BLOCK + 1)}


def assert_fetched_once(reads: list[OriginRead]) -> None:
    """Baskets come first, and the rests of their blocks when they were read: no byte comes twice."""
    ranges = sorted((read.offset, read.offset + read.length) for read in reads)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges)), ranges


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
        for cluster in range(2, CLUSTERS):
            for name in USED:
                job.read(*tree.baskets[name][cluster])
        job.close()
        cache.settled_metrics()
        size = len(tree.content)
        ends = blocks_of([(0, BLOCK), (size - BLOCK, BLOCK), tree.record])
        assert fetched() <= wanted | ends
        assert_fetched_once(relay.reads)
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


def baskets_of(tree: Tree, names: tuple[str, ...] = USED) -> set[int]:
    return blocks_of([basket for name in names for basket in tree.baskets[name]])


def settings(relay: Relay, **read_ahead: object) -> dict[str, object]:
    return {"read_ahead": read_ahead, "export": [{"origins": [relay.url]}]}


def read_first(site: Site, tree: Tree, *, remembers: bool = True) -> None:
    """A job reads the first file of the dataset."""
    with site.server.client() as client:
        job = Job(client, tree)
        until(lambda: parsed(site.server, "parsed"), "the file is parsed")
        job.read_all(tree)
        job.close()
    site.server.settled_metrics()
    if remembers:
        until(lambda: learned(site), "the first file is learned from")


def history(site: Site, event: str) -> float:
    """Bytes that were fetched because of other files."""
    return site.server.settled_metrics().total("forebay_read_ahead_bytes_total", event=event, source="history")


def learned(site: Site) -> dict[tuple[str | None, str | None], dict[str, object]]:
    """The sets of the tree, by user and program."""
    sets = [one for one in site.get("/learned-columns")["sets"] if one["tree"] == "Events"]
    keys = ("dataset", "columns", "uses", "hits")
    return {(one["user"], one["program"]): {key: one[key] for key in keys} for one in sets}


@pytest.mark.parametrize("restarts", [False, True])
def test_the_columns_of_one_file_are_fetched_at_the_open_of_the_next(
    ground: Ground, relay: Relay, tree: Tree, next_tree: Tree, *, restarts: bool
) -> None:
    store = ground.directory("store")
    site = Site(ground, settings(relay), store=store)
    read_first(site, tree)
    if restarts:
        site.server.stop()
        site = Site(ground, settings(relay), store=store)
    with site, site.server.client() as client:
        before = len(relay.reads)
        job = Job(client, next_tree, NEXT)

        def fetched() -> set[int]:
            return blocks_of([(read.offset, read.length) for read in relay.reads[before:]])

        until(lambda: baskets_of(next_tree) <= fetched(), "the baskets are fetched before one is read")
        job.read_all(next_tree)
        job.close()
        site.server.settled_metrics()
        size = len(next_tree.content)
        # Of a dataset that is known the tail is a quarter longer than the record.
        ends = blocks_of([(0, BLOCK), (next_tree.record[0] - BLOCK, size - next_tree.record[0] + BLOCK)])
        assert fetched() <= baskets_of(next_tree) | ends
        assert_fetched_once(relay.reads[before:])
        assert history(site, "fetched") > 0
        assert history(site, "wasted") == 0
        expected = {"dataset": "/set", "columns": len(USED), "uses": 1, "hits": 1}
        until(lambda: learned(site) == dict.fromkeys(JOBS, expected), "the second file is learned from")
        assert site.server.metrics().total("forebay_structure_columns_total", event="confirmed") == len(USED)


@pytest.mark.parametrize(
    ("read_ahead", "forgets"),
    [({"structure": "learn"}, False), ({"structure_history_max": "0"}, False), ({}, True)],
)
def test_columns_are_not_fetched_at_the_open_where_they_are_not_remembered(
    ground: Ground, relay: Relay, tree: Tree, next_tree: Tree, read_ahead: dict[str, object], *, forgets: bool
) -> None:
    with Site(ground, settings(relay, **read_ahead)) as site:
        read_first(site, tree, remembers=read_ahead.get("structure") != "learn")
        if forgets:
            assert site.call("DELETE", "/api/v1/learned-columns?dataset=/other").json == {"sets": 0}
            assert site.call("DELETE", "/api/v1/learned-columns?dataset=/set&user=tester").json == {"sets": 1}
            assert site.call("DELETE", "/api/v1/learned-columns?dataset=/set").json == {"sets": 2}
        with site.server.client() as client:
            job = Job(client, next_tree, NEXT)
            until(lambda: site.server.metrics().total("forebay_structure_files_total") == 2, "the file is parsed")
            job.read_all(next_tree)
            job.close()
            assert history(site, "fetched") == 0


def test_a_damaged_set_is_no_advice(ground: Ground, relay: Relay, tree: Tree, next_tree: Tree) -> None:
    store = ground.directory("store")
    with Site(ground, settings(relay), store=store) as site:
        read_first(site, tree)
    damage_sets(store)
    with Site(ground, settings(relay), store=store) as site, site.server.client() as client:
        assert not learned(site)
        job = Job(client, next_tree, NEXT)
        until(lambda: parsed(site.server, "parsed"), "the file is parsed")
        job.read_all(next_tree)
        job.close()
        assert history(site, "fetched") == 0
        until(lambda: len(learned(site)) == len(JOBS), "the sets are learned again")


def damage_sets(store: Path) -> None:
    """Flips a bit in each stored set, and in nothing else of the index."""
    hash_of_name = 0xCBF29CE484222325
    for byte in USED[0].encode():
        hash_of_name = (hash_of_name ^ byte) * 0x100000001B3 % 2**64
    stored = hash_of_name.to_bytes(8, "little")
    holders = [path for path in store.rglob("*") if path.is_file() and stored in path.read_bytes()]
    assert holders, "a set is stored"
    for path in holders:
        path.write_bytes(path.read_bytes().replace(stored, bytes([stored[0] ^ 1]) + stored[1:]))


def test_wrong_columns_cost_a_bounded_number_of_bytes_and_less_the_next_time(
    ground: Ground, relay: Relay, tree: Tree, next_tree: Tree
) -> None:
    with Site(ground, settings(relay, structure_history_max="256KiB")) as site:
        read_first(site, tree)
        with site.server.client() as client:
            job = Job(client, next_tree, NEXT)
            source = {"event": "fetched", "source": "history"}
            until(
                lambda: site.server.metrics().total("forebay_read_ahead_bytes_total", **source) > 0,
                "columns are fetched",
            )
            job.read_all(next_tree, ("x05", "x21"))
            job.close()
        # In whole blocks.
        assert 0 < history(site, "wasted") <= (256 << 10) * 3
        until(lambda: [(one["uses"], one["hits"]) for one in learned(site).values()] == [(1, 0)] * 2, "that is noted")
        metrics = site.server.metrics()
        assert metrics.total("forebay_structure_columns_total", event="refuted") == len(USED)
        assert metrics.total("forebay_client_errors_total") == 0
