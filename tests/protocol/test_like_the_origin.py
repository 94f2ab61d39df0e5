"""The same requests to the stock server and to a cache of it, where their answers are to be the same."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from harness import forebay, wire, xrootd
from harness.ground import Ground
from harness.process import give_to_service
from harness.raw_client import Answer, RawClient
from harness.wire import Error, Query, Request

DSTAT = 2
NAMES = ["/", "/d", "/d/", "/d/plain", "/d/read-only", "/d/program", "/d/secret", "/d/sub"]
WRITABLE = 32
CACHED = 0x200


@dataclass
class Pair:
    """The stock server, and a cache in front of it that redirects writers to it."""

    stock: RawClient
    cache: RawClient

    def both(self, ask: Callable[[RawClient], Answer]) -> tuple[Answer, Answer]:
        """The answers of both to one request."""
        return ask(self.stock), ask(self.cache)


@pytest.fixture(scope="module")
def pair(ground: Ground) -> Iterator[Pair]:
    data = ground.directory("modes")
    (data / "d" / "sub").mkdir(parents=True)
    for name, mode in {"plain": 0o644, "read-only": 0o444, "program": 0o755, "secret": 0}.items():
        (data / "d" / name).write_bytes(b"content")
        (data / "d" / name).chmod(mode)
    give_to_service(data)
    origin = xrootd.plain(ground, data, writable=True)
    export = {"path": "/", "origins": [origin.url], "writes": "redirect"}
    with (
        forebay.configured(ground, {"export": [export]}) as cache,
        RawClient("127.0.0.1", origin.port) as stock,
        cache.client() as client,
    ):
        # One of the files is in the cache.
        handle = client.open("/d/plain")
        assert client.read(handle, 0, 7).ok() == b"content"
        client.close_file(handle).ok()
        cache.settled_metrics()
        yield Pair(stock, client)
    origin.stop()


def attributes(text: bytes) -> tuple[bytes, int, bytes, list[bytes]]:
    """Size, flags, time of change, and mode, owner and group of a stat text."""
    fields = text.rstrip(b"\0").split(b" ")
    return fields[1], int(fields[2]) & ~CACHED, fields[3], fields[6:]


@pytest.mark.parametrize("name", NAMES)
def test_stat_has_the_flags_mode_and_owner_of_the_origin(pair: Pair, name: str) -> None:
    stock, cache = pair.both(lambda client: client.stat(name))
    assert attributes(cache.ok()) == attributes(stock.ok())


@pytest.mark.parametrize("name", ["/", "/d"])
def test_listing_has_the_flags_modes_and_owners_of_the_origin(pair: Pair, name: str) -> None:
    listings = []
    for answer in pair.both(lambda client: client.dirlist(name, DSTAT)):
        lines = answer.ok().rstrip(b"\0").split(b"\n")[2:]
        listings.append({entry: attributes(text) for entry, text in zip(lines[::2], lines[1::2], strict=True)})
    assert listings[0] == listings[1]


@pytest.mark.parametrize("name", ["/d", "/d/plain", "/d/read-only", "*/d/plain", "*"])
def test_locate_has_the_access_type_of_the_origin(pair: Pair, name: str) -> None:
    stock, cache = pair.both(lambda client: client.locate(name))
    assert cache.ok()[:2] == stock.ok()[:2]


@pytest.mark.parametrize("name", ["/d/plain/", "/d/plain//", "/d/plain/.", "/d/", "/d/sub/", "/nowhere/"])
@pytest.mark.parametrize("opaque", ["", "?a=b"])
def test_a_slash_at_the_end_is_refused_after_a_file(pair: Pair, name: str, opaque: str) -> None:
    requests: list[Callable[[RawClient], Answer]] = [
        lambda client: client.stat(name + opaque),
        lambda client: client.try_open(name + opaque),
        lambda client: client.locate(name + opaque),
        lambda client: client.dirlist(name + opaque),
        lambda client: client.call(Request.STATX, payload=name.encode()),
    ]
    for ask in requests:
        stock, cache = pair.both(ask)
        assert cache.error == stock.error, (cache, stock)
    assert pair.cache.query(Query.CHECKSUM, (name + opaque).encode()).error is not None


def test_a_copy_is_refused_with_a_slash_at_its_end(pair: Pair) -> None:
    assert int(pair.cache.stat("/d/plain").ok().split(b" ")[2]) & CACHED
    assert pair.cache.try_open("/d/plain/").error == Error.FS_ERROR


@pytest.mark.parametrize("names", [b"", b"\0", b" ", b"\n", b"\nrole", b"  \nrole"])
def test_configuration_query_without_a_name_is_refused(pair: Pair, names: bytes) -> None:
    stock, cache = pair.both(lambda client: client.query(Query.CONFIG, names))
    assert cache.error == stock.error is not None


def test_configuration_query_ends_at_a_nul(pair: Pair) -> None:
    stock, cache = pair.both(lambda client: client.query(Query.CONFIG, b" bind_max \0readv_iov_max"))
    assert cache.ok() == stock.ok() == b"15\n"


@pytest.mark.parametrize("kind", [Query.STATS, Query.CHECKSUM, Query.XATTR, Query.SPACE, Query.CONFIG])
def test_query_without_an_argument_is_about_an_open_file(pair: Pair, kind: Query) -> None:
    assert all(answer.error == Error.FILE_NOT_OPEN for answer in pair.both(lambda client: client.query(kind, b"")))

    def ask(client: RawClient) -> Answer:
        handle = client.open("/d/plain")
        answer = client.call(Request.QUERY, struct.pack(">H2x4s", kind, handle))
        client.close_file(handle).ok()
        return answer

    assert all(answer.error == Error.ARG_MISSING for answer in pair.both(ask))


def test_persistence_on_close_is_announced_where_the_origin_does_it(pair: Pair) -> None:
    assert pair.stock.flags & pair.cache.flags & wire.PERSISTS_ON_CLOSE
    # A reader may say it too.
    assert all(answer.ok() for answer in pair.both(lambda client: client.try_open("/d/plain", 0x1450)))
    # A writer is redirected, to the server that does it.
    answer = pair.cache.try_open("/d/new", 0x1000 | wire.OPEN_NEW | wire.OPEN_UPDATE)
    assert re.match(rb"127\.0\.0\.1", answer.body[4:])


def test_cache_that_refuses_writes_promises_nothing_to_writers(ground: Ground, plain_origin: xrootd.Origin) -> None:
    with forebay.cache(ground, plain_origin.url) as cache, cache.client() as client:
        assert not client.flags & wire.PERSISTS_ON_CLOSE
        fields = client.stat("/sizes").ok().rstrip(b"\0").split(b" ")
        assert not int(fields[2]) & WRITABLE
        assert fields[6:] == [b"0555", b"*", b"*"]
        assert client.locate("/sizes").ok().startswith(b"Sr")
