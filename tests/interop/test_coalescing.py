"""Many clients, one file: the origin is read once, counted at the origin; and every byte is accounted once."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.relay import OriginRead, Relay
from harness.wire import Request

CLIENTS = 64
SHARED = Pattern(96 * BLOCK + 777, 64)
PATH = "/shared.bin"


@pytest.fixture(scope="module")
def shared_origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with the shared file."""
    directory = ground.directory("shared")
    SHARED.write(directory / PATH[1:])
    return xrootd.plain(ground, directory)


def assert_each_byte_read_once(reads: list[OriginRead], size: int) -> None:
    """The ranges asked from the origin cover the file without overlap, in at most one read for each block."""
    position = 0
    for read in sorted(reads, key=lambda read: read.offset):
        assert read.offset == position, f"origin reads overlap or leave a gap at {position}"
        position = min(position + read.length, size)
    assert position == size
    assert len(reads) <= (size + BLOCK - 1) // BLOCK


def test_64_clients_on_one_cold_file_cost_one_origin_read_per_block(
    shared_origin: xrootd.Origin, cache_of: Callable[..., Forebay]
) -> None:
    with Relay(("127.0.0.1", shared_origin.port)) as relay:
        cache = cache_of(relay.url)

        def read_all(number: int) -> None:
            ranges = [(index * 3 * BLOCK, 3 * BLOCK) for index in range(33)]
            random.Random(number).shuffle(ranges)
            with cache.client() as client:
                handle = client.open(PATH)
                for offset, length in ranges:
                    assert_same(client.read(handle, offset, length).ok(), SHARED.read(offset, length), f"at {offset}")

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(read_all, range(CLIENTS)))
        metrics = cache.settled_metrics()
        assert_each_byte_read_once(relay.reads, SHARED.size)
    assert metrics.origin_bytes == SHARED.size
    assert metrics.client_bytes()["bypassed"] == 0
    assert metrics.client_bytes()["missed"] <= SHARED.size
    assert sum(metrics.client_bytes().values()) == CLIENTS * SHARED.size


def test_eight_xrdcp_at_once_read_the_origin_once(
    shared_origin: xrootd.Origin, cache_of: Callable[..., Forebay], ground: Ground
) -> None:
    with Relay(("127.0.0.1", shared_origin.port)) as relay:
        cache = cache_of(relay.url)
        with ThreadPoolExecutor(8) as pool:
            copies = pool.map(lambda _: fetch("xrdcp", ground, cache.file_url(PATH)), range(8))
            for copy in copies:
                assert_same(copy, SHARED.all(), "copy")
        assert_each_byte_read_once(relay.reads, SHARED.size)


def test_adjacent_missing_blocks_become_few_origin_requests(
    shared_origin: xrootd.Origin, cache_of: Callable[..., Forebay]
) -> None:
    with Relay(("127.0.0.1", shared_origin.port)) as relay, cache_of(relay.url).client() as client:
        assert_same(client.read(client.open(PATH), 0, SHARED.size).ok(), SHARED.all(), "read")
        assert_each_byte_read_once(relay.reads, SHARED.size)
        assert len(relay.reads) <= 8


def test_client_bytes_are_accounted_exactly_once(
    shared_origin: xrootd.Origin, cache_of: Callable[..., Forebay]
) -> None:
    cache = cache_of(shared_origin.url)
    delivered = 0
    choice = random.Random(7)
    with cache.client() as client:
        handle = client.open(PATH)
        for _ in range(150):
            offset, length = choice.randrange(SHARED.size), choice.randrange(1, 4 * BLOCK)
            kind = choice.choice(["read", "page_read"])
            delivered += len(getattr(client, kind)(handle, offset, length).ok())
        elements = [(handle, choice.randrange(SHARED.size - 5000), 5000) for _ in range(40)]
        client.read_vector(elements).ok()
        delivered += 40 * 5000
    metrics = cache.settled_metrics()
    assert sum(metrics.client_bytes().values()) == delivered
    assert metrics.client_bytes()["hit"] > 0
    assert metrics.client_bytes()["missed"] > 0
    assert metrics.origin_bytes <= SHARED.size


def test_reader_that_disconnects_does_not_cancel_shared_fetches(
    shared_origin: xrootd.Origin, cache_of: Callable[..., Forebay]
) -> None:
    with Relay(("127.0.0.1", shared_origin.port)) as relay:
        cache = cache_of(relay.url)
        with cache.client() as patient:
            handle = patient.open(PATH)
            with cache.client() as hasty:
                other = hasty.open(PATH)
                relay.stall()
                hasty.send(Request.READ, other + bytes(8) + (4 * BLOCK).to_bytes(4, "big"), bytes(8))
                waiting = patient.send(Request.READ, handle + bytes(8) + (4 * BLOCK).to_bytes(4, "big"), bytes(8))
            relay.flow()
            assert_same(patient.answer(waiting).ok(), SHARED.read(0, 4 * BLOCK), "read")
