"""A cache is read-only: every writing request is refused, its payload drained, and the connection stays usable."""

from __future__ import annotations

import struct

import pytest

from harness import forebay, wire, xrootd
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.raw_client import Closed, RawClient
from harness.wire import Error, Request, Status, encode_pages

from .conftest import FILE

NAMESPACE = {
    "rm": (Request.RM, b"", FILE.encode()),
    "rmdir": (Request.RMDIR, b"", b"/empty-folder"),
    "mkdir": (Request.MKDIR, struct.pack(">B13xH", 1, 0o755), b"/new/folder"),
    "chmod": (Request.CHMOD, struct.pack(">14xH", 0o644), FILE.encode()),
    "mv": (Request.MV, b"", f"{FILE} /other".encode()),
    "mv of a name with blanks": (Request.MV, struct.pack(">14xH", 8), b"/a b c d /e f"),
    "truncate": (Request.TRUNCATE, struct.pack(">4xq", 0), FILE.encode()),
}


@pytest.mark.parametrize("name", NAMESPACE)
def test_change_of_the_name_space_is_refused_as_read_only(client: RawClient, name: str) -> None:
    code, params, payload = NAMESPACE[name]
    assert client.call(code, params, payload).error == Error.READ_ONLY
    assert client.stat(FILE).ok()


@pytest.mark.parametrize("length", [1, 4096, 3_000_000])
def test_refused_write_is_drained(client: RawClient, handle: bytes, length: int) -> None:
    answer = client.call(Request.WRITE, handle + bytes(12), b"w" * length)
    assert answer.error in (Error.READ_ONLY, Error.FILE_NOT_OPEN)
    assert client.stat(FILE).ok()


def test_refused_page_write_is_drained(client: RawClient, handle: bytes) -> None:
    answer = client.call(Request.PGWRITE, handle + bytes(12), encode_pages(0, b"w" * 100_000))
    assert answer.error in (Error.READ_ONLY, Error.FILE_NOT_OPEN)
    assert client.stat(FILE).ok()


def test_refused_vector_write_keeps_framing_or_closes(client: RawClient, handle: bytes) -> None:
    elements = struct.pack(">4siq", handle, 5000, 0) + struct.pack(">4siq", handle, 7000, 9000)
    client.send(Request.WRITEV, payload=elements, stream_id=b"\x31\x00")
    try:
        client.send_bytes(b"w" * 12_000)
        assert client.answer(b"\x31\x00").error in (Error.READ_ONLY, Error.FILE_NOT_OPEN)
        assert client.stat(FILE).ok()
    except (Closed, ConnectionError):
        pass


def test_truncate_by_handle_is_refused(client: RawClient, handle: bytes) -> None:
    answer = client.call(Request.TRUNCATE, handle + struct.pack(">q", 0))
    assert answer.error in (Error.READ_ONLY, Error.FILE_NOT_OPEN)


def test_export_that_says_so_redirects_writers_to_its_origin(ground: Ground) -> None:
    data = ground.directory("written")
    origin = xrootd.plain(ground, data, writable=True)
    content = Pattern(400_000, 12)
    source = content.write(ground.directory("source") / "file.bin")
    export = {"path": "/", "origins": [origin.url], "writes": "redirect"}
    with forebay.configured(ground, {"export": [export]}) as cache:
        with cache.client() as client:
            answer = client.try_open("/new.bin", wire.OPEN_NEW | wire.OPEN_UPDATE)
            assert answer.status == Status.REDIRECT
            assert struct.unpack(">i", answer.body[:4]) == (origin.port,)
            assert answer.body[4:].startswith(b"127.0.0.1")
        copied = run_client([program("xrdcp"), "--nopbar", source, cache.file_url("/new.bin")])
        assert copied.returncode == 0, copied.stderr
        assert_same((data / "new.bin").read_bytes(), content.all(), "at the origin")
        assert_same(fetch("xrdcp", ground, cache.file_url("/new.bin")), content.all(), "through the cache")
    origin.stop()


def test_upload_to_a_read_only_cache_fails_in_a_stock_client(server: Forebay, ground: Ground) -> None:
    source = Pattern(1000, 12).write(ground.directory("source") / "file.bin")
    copied = run_client([program("xrdcp"), "--nopbar", source, server.file_url("/new.bin")])
    assert copied.returncode != 0
    assert b"3025" in copied.stderr


@pytest.mark.parametrize("code", [Request.CHKPOINT, Request.CLONE])
def test_requests_of_writers_are_refused(client: RawClient, handle: bytes, code: Request) -> None:
    params = handle + bytes(12)
    payload = struct.pack(">4s4xQQQ", handle, 0, 1, 0) if code == Request.CLONE else b""
    assert client.call(code, params, payload).error in (Error.READ_ONLY, Error.UNSUPPORTED, Error.INVALID_REQUEST)
    assert client.stat(FILE).ok()
