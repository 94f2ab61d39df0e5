"""A real origin behind a relay that dies during a read and comes back, with stock clients reading."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import xrootd
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same, first_difference
from harness.forebay import Forebay
from harness.ground import Ground
from harness.relay import Relay

from .conftest import CacheBefore

PATH = "/file.bin"
CONTENT = Pattern(6_000_000, 31)


@pytest.fixture(scope="module")
def real_origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with one file."""
    directory = ground.directory("real")
    CONTENT.write(directory / PATH[1:])
    return xrootd.plain(ground, directory)


@pytest.fixture
def relay(real_origin: xrootd.Origin) -> Iterator[Relay]:
    """The way to it."""
    with Relay(("127.0.0.1", real_origin.port)) as way:
        yield way


@pytest.fixture
def cache(cache_before: CacheBefore, relay: Relay) -> Forebay:
    """An impatient cache behind the relay."""
    return cache_before(relay.url)


@pytest.mark.parametrize("client", ["xrdcp", "pyxrootd", "forebay-get"])
def test_client_sees_an_error_while_the_origin_is_dead_and_right_bytes_after(
    client: str, cache: Forebay, relay: Relay, ground: Ground
) -> None:
    relay.cut_after(2_000_000)
    with pytest.raises(ClientFailed):
        fetch(client, ground, cache.file_url(PATH))
    relay.revive()
    assert_same(fetch(client, ground, cache.file_url(PATH)), CONTENT.all(), "after the origin came back")


def test_origin_that_dies_again_and_again_never_yields_wrong_bytes(cache: Forebay, relay: Relay) -> None:
    choice = random.Random(11)
    for _ in range(12):
        relay.cut_after(choice.randrange(1000, 2_500_000))
        with cache.client() as client:
            answer = client.try_open(PATH)
            if answer.error is None:
                got = client.read(answer.body[:4], 0, CONTENT.size)
                assert got.error is not None or first_difference(got.body, CONTENT.all()) is None
        relay.revive()
    with cache.client() as client:
        assert_same(client.read(client.open(PATH), 0, CONTENT.size).ok(), CONTENT.all(), "in the end")


def test_many_clients_survive_one_reset_of_the_origin(cache_before: CacheBefore, relay: Relay, ground: Ground) -> None:
    cache = cache_before(relay.url, attempts=20, read_attempts=20)
    with ThreadPoolExecutor(6) as pool:
        relay.cut_after(1_500_000)
        copies = [pool.submit(fetch, "xrdcp", ground, cache.file_url(PATH)) for _ in range(6)]
        relay.revive_when_cut()
        for copy in copies:
            assert_same(copy.result(), CONTENT.all(), "copy")


def test_stalled_link_is_noticed_and_healed(cache: Forebay, relay: Relay) -> None:
    with cache.client() as client:
        handle = client.open(PATH)
        assert_same(client.read(handle, 0, 100).ok(), CONTENT.read(0, 100), "before")
        relay.stall()
        assert client.read(handle, 3_000_000, 100).error is not None
        relay.flow()
        handle = client.open(PATH)
        assert_same(client.read(handle, 3_000_000, 100).ok(), CONTENT.read(3_000_000, 100), "after")
