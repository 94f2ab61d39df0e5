"""Readers of ROOT files over HTTP get the baskets of their columns fetched ahead, as those of root:// do."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import uproot

from harness import forebay, xrootd
from harness.admin import Site
from harness.forebay import BLOCK
from harness.ground import Ground
from harness.relay import Relay
from harness.waiting import until

COLUMNS, CLUSTERS, ENTRIES = 20, 10, 15_000
FIRST, NEXT = "/set/01/first.root", "/set/02/next.root"
USED = ("x03", "x11")
HEAD = 403
SOURCES = {"fsspec": uproot.source.fsspec.FSSpecSource, "http": uproot.source.http.HTTPSource}


@pytest.fixture(scope="module")
def directory(ground: Ground) -> Path:
    """Two files of a dataset."""
    directory = ground.directory("structure-http")
    random = np.random.default_rng(5)
    names = [f"x{number:02}" for number in range(COLUMNS)]
    for path in (FIRST, NEXT):
        (directory / path[1:]).parent.mkdir(parents=True)
        with uproot.recreate(directory / path[1:]) as file:
            tree = file.mktree("Events", dict.fromkeys(names, "float32"))
            for _ in range(CLUSTERS):
                tree.extend({name: random.normal(size=ENTRIES).astype("float32") for name in names})
    return directory


@pytest.fixture
def relay(ground: Ground, directory: Path) -> Iterator[Relay]:
    """Counts requests to the origin."""
    origin = xrootd.plain(ground, directory)
    with Relay(("127.0.0.1", origin.port)) as way:
        yield way
    origin.stop()


def blocks_of_used(ground: Ground, file: Path) -> set[int]:
    """The blocks with baskets of the columns in use."""
    printed = forebay.run(ground, "root-layout", str(file), "--items", "--json")
    (layout,) = json.loads(printed.stdout)["trees"]
    baskets: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for offset, length, _, column in layout["items"]:
        baskets[layout["columns"][column]["name"]].append((offset, length))
    return blocks_of(basket for name in USED for basket in baskets[name])


def blocks_of(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {block for offset, length in ranges for block in range(offset // BLOCK, (offset + length - 1) // BLOCK + 1)}


@contextmanager
def kept_open(site: Site, path: str) -> Iterator[None]:
    """A client of root:// has the file open, and has read its head. HTTP connections close files after some seconds."""
    with site.server.client() as client:
        handle = client.open(path)
        assert len(client.read(handle, 0, HEAD).ok()) == HEAD
        yield
        client.close_file(handle).ok()


def read(site: Site, path: str, source: str, directory: Path) -> None:
    """A job reads the columns, and finds what the file has."""
    with (
        uproot.open(f"http://{site.server.address}{path}", handler=SOURCES[source]) as file,
        uproot.open(directory / path[1:]) as plain,
    ):
        for name in USED:
            expected = plain["Events"][name].array(library="np")
            assert np.array_equal(file["Events"][name].array(library="np"), expected)


def parsed(site: Site) -> float:
    return site.server.metrics().total("forebay_structure_files_total", outcome="parsed")


def learned(site: Site) -> set[int]:
    """Numbers of columns of the sets of the tree."""
    return {one["columns"] for one in site.get("/learned-columns")["sets"] if one["tree"] == "Events"}


@pytest.mark.parametrize("source", SOURCES)
def test_the_columns_that_a_job_reads_over_http_are_fetched_for_the_next_file(
    source: str, ground: Ground, relay: Relay, directory: Path
) -> None:
    with Site(ground, {"export": [{"origins": [relay.url]}]}) as site:
        with kept_open(site, FIRST):
            until(lambda: parsed(site) == 1, "the file is parsed")
            read(site, FIRST, source, directory)
        until(lambda: learned(site) == {len(USED)}, "the columns are learned")
        # The rests of the blocks of the first file.
        site.server.settled_metrics()
        before = len(relay.reads)
        wanted = blocks_of_used(ground, directory / NEXT[1:])
        with kept_open(site, NEXT):
            until(
                lambda: wanted <= blocks_of((one.offset, one.length) for one in relay.reads[before:]),
                "the baskets are fetched before one is read",
            )
            read(site, NEXT, source, directory)
        site.server.settled_metrics()
        # The rests of the blocks follow when the baskets were read: no byte comes twice.
        ranges = sorted((one.offset, one.offset + one.length) for one in relay.reads[before:])
        assert all(end <= start for (_, end), (start, _) in pairwise(ranges)), ranges
