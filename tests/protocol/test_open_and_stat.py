"""Opening, closing, stat, statx: layouts, texts and refusals."""

from __future__ import annotations

import struct

import pytest

from harness import wire
from harness.content import Pattern, assert_same
from harness.raw_client import RawClient, read_params
from harness.wire import Error, Request, Status

from .conftest import FILE

IS_DIRECTORY = 2


def test_open_with_retstat_returns_the_stat_text_after_empty_compression_fields(
    client: RawClient, file: Pattern
) -> None:
    body = client.try_open(FILE).ok()
    assert body[4:12] == bytes(8)
    assert body.endswith(b"\0")
    assert int(body[12:-1].split(b" ")[1]) == file.size


def test_recovery_open_returns_just_a_handle(client: RawClient) -> None:
    assert len(client.try_open(FILE, wire.OPEN_READ).ok()) == 4


def test_open_with_compress_returns_empty_compression_fields(client: RawClient) -> None:
    body = client.try_open(FILE, wire.OPEN_READ | 0x0001).ok()
    assert len(body) == 12
    assert body[4:] == bytes(8)


def test_unknown_optional_bits_of_open_are_ignored(client: RawClient) -> None:
    params = struct.pack(">HHH", 0, wire.OPEN_AS_XRDCP | 0x4000 | 0x0080, 0xFFF0)
    assert client.call(Request.OPEN, params, FILE.encode()).ok()


@pytest.mark.parametrize(
    "ending", [b"\0", b"?", b"?&a=b", b"?a=b&xrdcl.requuid=1", b"?a=b?token", b"?authz=" + b"x" * 20_000]
)
def test_open_accepts_one_nul_and_any_opaque_data(client: RawClient, ending: bytes) -> None:
    assert client.try_open(FILE.encode() + ending).ok()


@pytest.mark.parametrize("path", ["//sizes//many-blocks.bin", "/sizes/./many-blocks.bin"])
def test_open_squeezes_slashes_and_dots(client: RawClient, path: str) -> None:
    assert client.try_open(path).ok()


def test_embedded_nul_is_refused(client: RawClient) -> None:
    assert client.try_open(b"/sizes\0/many-blocks.bin").error == Error.ARG_INVALID


@pytest.mark.parametrize("path", ["sizes/many-blocks.bin", "/sizes/../sizes/many-blocks.bin", "/.."])
def test_relative_and_climbing_paths_are_not_authorized(client: RawClient, path: str) -> None:
    assert client.try_open(path).error == Error.NOT_AUTHORIZED
    assert client.stat(path).error == Error.NOT_AUTHORIZED


def test_missing_path_is_said_to_be_missing(client: RawClient) -> None:
    assert client.try_open(b"").error == Error.ARG_MISSING


def test_overlong_path_is_too_long(client: RawClient) -> None:
    assert client.try_open("/" + "d/" * 2500).error == Error.ARG_TOO_LONG


def test_missing_file_is_not_found_with_a_text(client: RawClient) -> None:
    answer = client.try_open("/nowhere/nothing")
    assert answer.error == Error.NOT_FOUND
    assert answer.error_text


def test_opening_a_directory_is_refused_as_a_directory(client: RawClient) -> None:
    assert client.try_open("/sizes").error == Error.IS_DIRECTORY


@pytest.mark.parametrize(
    "options",
    [wire.OPEN_UPDATE, wire.OPEN_NEW, wire.OPEN_DELETE, wire.OPEN_APPEND, wire.OPEN_WRITE_ONLY, 0x0462, 0x1462],
)
def test_opening_for_writing_is_refused_as_read_only(client: RawClient, options: int) -> None:
    assert client.try_open(FILE, options).error == Error.READ_ONLY


def test_requests_on_a_closed_handle_find_no_file(client: RawClient, handle: bytes) -> None:
    client.close_file(handle).ok()
    assert client.close_file(handle).error == Error.FILE_NOT_OPEN
    assert client.read(handle, 0, 10).error == Error.FILE_NOT_OPEN
    assert client.page_read(handle, 0, 10).error == Error.FILE_NOT_OPEN
    assert client.read_vector([(handle, 0, 10)]).error == Error.FILE_NOT_OPEN
    assert client.stat(handle=handle).error == Error.FILE_NOT_OPEN
    assert client.call(Request.SYNC, handle).error == Error.FILE_NOT_OPEN


def test_late_requests_do_not_reach_the_next_file_in_the_same_place(client: RawClient, handle: bytes) -> None:
    client.close_file(handle).ok()
    other = client.open("/sizes/block.bin")
    assert other == handle or client.read(handle, 0, 10).error == Error.FILE_NOT_OPEN


def test_close_lets_reads_in_flight_finish(client: RawClient, handle: bytes, file: Pattern) -> None:
    reading = client.send(Request.READ, read_params(handle, 0, 1_000_000), bytes(8))
    closing = client.send(Request.CLOSE, handle)
    assert_same(client.answer(reading).ok(), file.read(0, 1_000_000), "read")
    assert client.answer(closing).status == Status.OK


def test_sync_of_a_read_handle_is_harmless(client: RawClient, handle: bytes) -> None:
    assert client.call(Request.SYNC, handle).status == Status.OK


def test_stat_text_has_size_before_flags_in_plain_decimal(client: RawClient, file: Pattern) -> None:
    body = client.stat(FILE).ok()
    assert body.endswith(b"\0")
    fields = body[:-1].split(b" ")
    assert len(fields) in (4, 9)
    assert int(fields[1]) == file.size
    assert int(fields[2]) & IS_DIRECTORY == 0
    for field in fields[:4]:
        assert field == str(int(field)).encode()
    if len(fields) == 9:
        assert len(fields[6]) >= 4


def test_stat_by_handle_agrees_with_stat_by_path(client: RawClient, handle: bytes) -> None:
    by_path, by_handle = client.stat(FILE).ok(), client.stat(handle=handle).ok()
    assert by_path.split(b" ")[1:4] == by_handle.split(b" ")[1:4]


def test_stat_of_a_directory_sets_the_directory_flag_even_when_the_cache_holds_it(client: RawClient) -> None:
    client.read(client.open(FILE), 0, 10).ok()
    for path in ("/", "/sizes", "/sizes/"):
        assert int(client.stat(path).ok().split(b" ")[2]) & IS_DIRECTORY


def test_stat_of_a_missing_file_is_not_found(client: RawClient) -> None:
    assert client.stat("/nowhere").error == Error.NOT_FOUND


def test_stat_of_a_cached_file_is_answered_and_not_redirected(client: RawClient, handle: bytes, file: Pattern) -> None:
    client.page_read(handle, 0, file.size).ok()
    assert client.stat(FILE).status == Status.OK
    assert client.page_read(handle, 0, 10).status == Status.STATUS


def test_vfs_stat_gives_six_numbers(client: RawClient) -> None:
    fields = client.stat("/", options=1).ok().rstrip(b"\0").split(b" ")
    assert len(fields) == 6
    assert all(int(field) >= 0 for field in fields)


def test_vfs_stat_without_a_path_misses_its_argument(client: RawClient) -> None:
    assert client.stat(options=1).error == Error.ARG_MISSING


def test_statx_gives_one_byte_for_each_path(client: RawClient) -> None:
    assert client.call(Request.STATX, payload=f"{FILE}\n/sizes".encode()).ok() == b"\x00\x02"


def test_statx_fails_as_a_whole(client: RawClient) -> None:
    assert client.call(Request.STATX, payload=f"{FILE}\n/nowhere".encode()).error == Error.NOT_FOUND
