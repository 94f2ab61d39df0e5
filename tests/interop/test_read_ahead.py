"""Reading ahead and completing files, over a way that is long: counted at the origin."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest

from harness import xrootd
from harness.clients import DRIVERS, fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay, configured
from harness.ground import Ground
from harness.relay import Relay
from harness.root_files import Sums
from harness.waiting import until

LATENCY_SECONDS = 0.02
LONG = Pattern(160 * BLOCK + 777, 3)
PATH = "/long.bin"


@pytest.fixture(scope="module")
def origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with a file that takes many reads."""
    directory = ground.directory("long")
    LONG.write(directory / PATH[1:])
    return xrootd.plain(ground, directory)


@pytest.fixture
def way(origin: xrootd.Origin) -> Iterator[Relay]:
    """A long way to the origin."""
    with Relay(("127.0.0.1", origin.port), latency=LATENCY_SECONDS) as relay:
        yield relay


def far_cache(ground: Ground, way: Relay, **read_ahead: object) -> Forebay:
    """A cache at the near end of the way."""
    configuration = {"read_ahead": read_ahead, "export": [{"path": "/", "origins": [way.url]}]}
    return configured(ground, configuration)


def read_in_order(cache: Forebay, length: int) -> None:
    """Reads the whole file in small reads, one after the other."""
    with cache.client() as client:
        handle = client.open(PATH)
        for offset in range(0, LONG.size, length):
            wanted = LONG.read(offset, min(length, LONG.size - offset))
            assert_same(client.read(handle, offset, length).ok(), wanted, f"at {offset}")


def test_small_reads_in_order_cost_few_origin_requests(ground: Ground, way: Relay) -> None:
    with far_cache(ground, way, enabled=False) as cache:
        read_in_order(cache, BLOCK)
        assert len(way.reads) == LONG.size // BLOCK + 1
    way.forget()
    with far_cache(ground, way) as cache:
        read_in_order(cache, BLOCK)
        metrics = cache.settled_metrics()
        assert len(way.reads) <= LONG.size // BLOCK // 3
        assert metrics.origin_bytes == LONG.size
        assert metrics.total("forebay_read_ahead_bytes_total", event="wasted") == 0
        assert metrics.total("forebay_read_ahead_bytes_total", event="used") > LONG.size / 2
        assert metrics.total("forebay_origin_latency_seconds") >= LATENCY_SECONDS


def test_xrdcp_over_a_long_way_reads_each_byte_once(ground: Ground, way: Relay) -> None:
    with far_cache(ground, way) as cache:
        assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), LONG.all(), "copy")
        assert cache.settled_metrics().origin_bytes == LONG.size


def test_a_random_reader_costs_its_blocks_and_no_more(ground: Ground, way: Relay) -> None:
    choice = random.Random(11)
    with far_cache(ground, way) as cache, cache.client() as client:
        handle, blocks = client.open(PATH), set()
        for _ in range(60):
            offset = choice.randrange(LONG.size - 1000)
            assert_same(client.read(handle, offset, 1000).ok(), LONG.read(offset, 1000), f"at {offset}")
            blocks |= {offset // BLOCK, (offset + 999) // BLOCK}
        assert cache.settled_metrics().origin_bytes <= len(blocks) * BLOCK


def test_a_root_file_is_read_right_over_a_long_way(
    ground: Ground, plain_origin: xrootd.Origin, tree_path: str, tree_sums: Sums
) -> None:
    with Relay(("127.0.0.1", plain_origin.port), latency=LATENCY_SECONDS) as way, far_cache(ground, way) as cache:
        result = run_client([sys.executable, DRIVERS / "uproot_sum.py", cache.file_url(tree_path)])
        assert Sums.from_json(result.stdout.decode().strip().splitlines()[-1]).agrees_with(tree_sums)
        metrics = cache.settled_metrics()
        kept = metrics.total("forebay_read_ahead_bytes_total", event="wasted")
        assert metrics.origin_bytes <= sum(metrics.client_bytes().values()) + kept + 32 * BLOCK


@pytest.mark.parametrize("stays", [True, False])
def test_a_file_that_is_to_be_complete_becomes_so(ground: Ground, way: Relay, *, stays: bool) -> None:
    fill = "while-open" if stays else "to-end"
    with far_cache(ground, way, fill=fill) as cache:
        with cache.client() as client:
            handle = client.open(PATH)
            if not stays:
                client.close_file(handle).ok()
            until(lambda: cache.metrics().origin_bytes == LONG.size, "the rest of the file has come")
        cache.settled_metrics()
        way.forget()
        read_in_order(cache, 4 * BLOCK)
        assert way.reads == []
