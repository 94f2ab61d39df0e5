"""read, pgread and readv return the requested bytes, at every edge. Each case runs cold and warm."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest

from harness import forebay, wire, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.raw_client import RawClient, vector_elements
from harness.wire import Error, Request, Status

from .conftest import FILE

RANGES = [
    (0, 1),
    (0, 300),
    (1, BLOCK),
    (BLOCK - 1, 2),
    (BLOCK, BLOCK),
    (3 * BLOCK - 17, 5 * BLOCK + 33),
    (100, 10_000),
    (7, 40 * BLOCK),
]


@pytest.fixture(scope="module", params=["cold", "warm"])
def server(request: pytest.FixtureRequest, ground: Ground, plain_origin: xrootd.Origin) -> Iterator[Forebay]:
    """A cache that holds nothing, or everything, when the module's tests begin."""
    with forebay.cache(ground, plain_origin.url) as cache:
        if request.param == "warm":
            with cache.client() as client:
                client.read(client.open(FILE), 0, 1 << 30).ok()
        yield cache


@pytest.mark.parametrize(("offset", "length"), RANGES)
def test_read_returns_exactly_the_range(
    client: RawClient, handle: bytes, file: Pattern, offset: int, length: int
) -> None:
    assert_same(client.read(handle, offset, length).ok(), file.read(offset, length), "read")


@pytest.mark.parametrize(("offset", "length"), RANGES)
def test_pgread_returns_exactly_the_range(
    client: RawClient, handle: bytes, file: Pattern, offset: int, length: int
) -> None:
    answer = client.page_read(handle, offset, length)
    assert_same(answer.ok(), file.read(offset, length), "pgread")
    expected = offset
    for frame in answer.page_frames:
        assert frame.offset == expected
        assert expected == offset or expected % wire.PAGE == 0
        expected += len(frame.data)


def test_pgread_pages_are_aligned_to_the_file(client: RawClient, handle: bytes) -> None:
    answer = client.page_read(handle, 100, 10_000)
    assert [size for frame in answer.page_frames for size in frame.page_sizes] == [3996, 4096, 1908]


@pytest.mark.parametrize("args", [b"", b"\0", b"\0\0", b"\0\x01"])
def test_pgread_arguments_are_optional(client: RawClient, handle: bytes, file: Pattern, args: bytes) -> None:
    assert_same(client.page_read(handle, 0, 5000, args).ok(), file.read(0, 5000), "pgread")


def test_read_arguments_are_optional(client: RawClient, handle: bytes, file: Pattern) -> None:
    assert_same(client.read(handle, 9, 90, b"").ok(), file.read(9, 90), "read")


def test_preread_hints_are_taken_without_an_answer(client: RawClient, handle: bytes, file: Pattern) -> None:
    hints = bytes(8) + struct.pack(">4siq", handle, 4096, 8192) * 3
    assert_same(client.read(handle, 0, 64, hints).ok(), file.read(0, 64), "read")
    assert client.stat(FILE).ok()


@pytest.mark.parametrize("overhang", [1, 4095, 4096, 1_000_000])
def test_reads_crossing_the_end_of_file_stop_there(
    client: RawClient, handle: bytes, file: Pattern, overhang: int
) -> None:
    offset = file.size - 5000
    assert_same(client.read(handle, offset, 5000 + overhang).ok(), file.read(offset, 5000), "read")
    assert_same(client.page_read(handle, offset, 5000 + overhang).ok(), file.read(offset, 5000), "pgread")


@pytest.mark.parametrize("beyond", [0, 1, 1 << 40])
def test_reads_past_the_end_of_file(client: RawClient, handle: bytes, file: Pattern, beyond: int) -> None:
    read = client.read(handle, file.size + beyond, 100)
    assert (read.status, read.body) == (Status.OK, b"")
    pages = client.page_read(handle, file.size + beyond, 100)
    assert [(frame.final, frame.data, frame.offset) for frame in pages.page_frames] == [(True, b"", file.size + beyond)]
    vector = client.read_vector([(handle, 0, 10), (handle, file.size + beyond, 1)])
    assert vector.error == Error.FS_ERROR


def test_empty_file_reads_empty(client: RawClient) -> None:
    handle = client.open("/sizes/empty.bin")
    assert client.read(handle, 0, 100).ok() == b""
    assert client.page_read(handle, 0, 100).ok() == b""


def test_read_of_nothing_is_an_empty_ok(client: RawClient, handle: bytes) -> None:
    assert client.read(handle, 0, 0).ok() == b""


@pytest.mark.parametrize(("offset", "length"), [(0, -1), (-1, 10)])
def test_negative_numbers_are_invalid(client: RawClient, handle: bytes, offset: int, length: int) -> None:
    assert client.read(handle, offset, length).error == Error.ARG_INVALID
    assert client.page_read(handle, offset, length).error == Error.ARG_INVALID
    assert client.read_vector([(handle, offset, length)]).error in (Error.ARG_INVALID, Error.FS_ERROR)


def test_pgread_of_nothing_is_invalid(client: RawClient, handle: bytes) -> None:
    assert client.page_read(handle, 0, 0).error == Error.ARG_INVALID


def test_readv_returns_every_element_in_order(client: RawClient, handle: bytes, file: Pattern) -> None:
    other_path = "/sizes/block-and-one.bin"
    other = client.open(other_path)
    wanted = [(5 * BLOCK - 9, 20), (0, 0), (0, 1), (7 * BLOCK, BLOCK), (3, 3 * BLOCK), (0, 1)]
    elements = vector_elements(client.read_vector([(handle, *range_) for range_ in wanted] + [(other, BLOCK, 1)]).ok())
    assert [offset for offset, _ in elements] == [offset for offset, _ in wanted] + [BLOCK]
    for (offset, length), (_, data) in zip(wanted, elements, strict=False):
        assert_same(data, file.read(offset, length), f"element at {offset}")
    assert len(elements[-1][1]) == 1


def test_readv_elements_are_never_split_between_frames(client: RawClient, handle: bytes, file: Pattern) -> None:
    answer = client.read_vector([(handle, index * 30_000, 25_000) for index in range(80)])
    answer.ok()
    parts = [element for frame in answer.frames for element in vector_elements(frame.body)]
    assert [(offset, len(data)) for offset, data in parts] == [(index * 30_000, 25_000) for index in range(80)]
    for offset, data in parts:
        assert_same(data, file.read(offset, 25_000), f"element at {offset}")


def test_readv_of_1024_elements_is_served_and_one_more_is_too_long(client: RawClient, handle: bytes) -> None:
    elements = [(handle, index * 100, 16) for index in range(1024)]
    assert len(vector_elements(client.read_vector(elements).ok())) == 1024
    assert client.read_vector([*elements, (handle, 0, 16)]).error == Error.ARG_TOO_LONG
    assert client.read_vector(elements * 3).error == Error.ARG_TOO_LONG
    assert client.stat(FILE).ok()


@pytest.mark.parametrize("payload", [b"", b"x" * 15, b"x" * 17])
def test_malformed_readv_is_invalid(client: RawClient, payload: bytes) -> None:
    assert client.call(Request.READV, payload=payload).error in (Error.ARG_INVALID, Error.ARG_MISSING)
    assert client.stat(FILE).ok()


def test_readv_with_one_bad_handle_fails_as_a_whole(client: RawClient, handle: bytes) -> None:
    assert client.read_vector([(handle, 0, 10), (b"\xee" * 4, 0, 10)]).error == Error.FILE_NOT_OPEN


def test_readv_element_that_reaches_past_the_end_fails_the_whole_request(
    client: RawClient, handle: bytes, file: Pattern
) -> None:
    assert client.read_vector([(handle, 0, 10), (handle, file.size - 5, 6)]).error == Error.FS_ERROR


def test_unknown_handle_is_not_open(client: RawClient) -> None:
    assert client.read(b"\xee" * 4, 0, 10).error == Error.FILE_NOT_OPEN
    assert client.page_read(b"\xee" * 4, 0, 10).error == Error.FILE_NOT_OPEN


def test_pipelined_requests_are_all_answered_whatever_their_order(
    client: RawClient, handle: bytes, file: Pattern
) -> None:
    ranges = [((index * 977_777) % (file.size - 9000), 1 + index * 37) for index in range(200)]
    ids = [
        client.send(Request.PGREAD if index % 3 == 0 else Request.READ, struct.pack(">4sqi", handle, *range_), bytes(2))
        if index % 3 == 0
        else client.send(Request.READ, struct.pack(">4sqi", handle, *range_), bytes(8))
        for index, range_ in enumerate(ranges)
    ]
    for stream_id, range_ in reversed(list(zip(ids, ranges, strict=True))):
        assert_same(client.answer(stream_id).ok(), file.read(*range_), f"range {range_}")


def test_two_clients_do_not_see_each_others_handles(server: Forebay, handle: bytes) -> None:
    with server.client() as stranger:
        assert stranger.read(handle, 0, 10).error == Error.FILE_NOT_OPEN


@pytest.mark.parametrize("method", ["read", "page_read"])
def test_every_size_around_a_block_reads_whole(client: RawClient, patterns: dict[str, Pattern], method: str) -> None:
    for path, pattern in patterns.items():
        read: Callable[[bytes, int, int], object] = getattr(client, method)
        answer = read(client.open(path), 0, pattern.size + 100)
        assert_same(answer.ok(), pattern.all(), path)  # type: ignore[attr-defined]
