"""query, set, prepare, fattr: the small talk of clients."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Callable

import pytest
from crc32c import crc32c

from harness import xrootd
from harness.content import Pattern
from harness.forebay import Forebay
from harness.raw_client import RawClient
from harness.waiting import until
from harness.wire import Error, Query, Request, Status

from .conftest import FILE


def test_config_answers_one_line_for_each_name(client: RawClient) -> None:
    lines = client.query(Query.CONFIG, b"readv_ior_max readv_iov_max\0").ok().rstrip(b"\0").decode().split("\n")
    assert lines[-1] == ""
    assert [int(line) for line in lines[:-1]] == [2097136, 1024]


def test_config_echoes_names_it_does_not_know(client: RawClient) -> None:
    answer = client.query(Query.CONFIG, b"nonsense readv_iov_max tpc").ok().rstrip(b"\0")
    assert answer == b"nonsense\n1024\ntpc\n"


def test_config_list_ends_at_a_newline(client: RawClient) -> None:
    assert client.query(Query.CONFIG, b"readv_iov_max\nrole\n").ok().rstrip(b"\0") == b"1024\n"


@pytest.mark.parametrize(
    "name", ["bind_max", "chksum", "role", "sitename", "version", "cid", "vnid", "window", "start"]
)
def test_config_names_of_the_field_get_a_single_line(client: RawClient, name: str) -> None:
    text = client.query(Query.CONFIG, name.encode()).ok().rstrip(b"\0").decode()
    assert text.endswith("\n")
    assert text.count("\n") == 1


@pytest.mark.parametrize("algorithm", ["adler32", "crc32c", "ADLER32"])
def test_checksum_is_type_and_eight_digits(client: RawClient, file: Pattern, algorithm: str) -> None:
    name, value = client.query(Query.CHECKSUM, f"{FILE}?cks.type={algorithm}".encode()).ok().rstrip(b"\0").split(b" ")
    compute = zlib.adler32 if algorithm.lower() == "adler32" else crc32c
    assert name.decode() == algorithm.lower()
    assert value.decode() == f"{compute(file.all()):08x}"


def test_checksum_without_a_type_uses_the_default(client: RawClient) -> None:
    assert len(client.query(Query.CHECKSUM, FILE.encode() + b"\0").ok().rstrip(b"\0").split(b" ")) == 2


def test_checksum_of_an_unknown_type_is_an_error(client: RawClient) -> None:
    assert client.query(Query.CHECKSUM, f"{FILE}?cks.type=foo".encode()).error in (
        Error.SERVER_ERROR,
        Error.UNSUPPORTED,
        Error.ARG_INVALID,
    )


def test_checksum_of_a_missing_file_is_an_error(client: RawClient) -> None:
    assert client.query(Query.CHECKSUM, b"/nowhere?cks.type=adler32").error is not None


def test_space_is_reported_with_the_usual_names(client: RawClient) -> None:
    values = dict(item.split("=") for item in client.query(Query.SPACE, b"/\0").ok().rstrip(b"\0").decode().split("&"))
    assert int(values["oss.space"]) >= int(values["oss.free"]) > 0


def test_statistics_are_xml(client: RawClient) -> None:
    root = ElementTree.fromstring(client.query(Query.STATS, b"a").ok().rstrip(b"\0").decode())
    assert root.tag == "statistics"


def test_extended_attributes_name_type_and_size(client: RawClient, file: Pattern) -> None:
    text = client.query(Query.XATTR, FILE.encode()).ok().rstrip(b"\0").decode()
    values = dict(item.split("=", 1) for item in text.split("&"))
    assert values["oss.type"] == "f"
    assert int(values["oss.used"]) == file.size


@pytest.mark.parametrize("kind", [8, 9, 10, 16, 32, 64])
def test_queries_of_plug_ins_are_unsupported(client: RawClient, kind: int) -> None:
    assert client.query(kind, b"/x").error in (Error.UNSUPPORTED, Error.ARG_INVALID)


def test_unknown_query_is_invalid(client: RawClient) -> None:
    assert client.query(999, b"x").error == Error.ARG_INVALID
    assert client.stat(FILE).ok()


def test_set_takes_an_application_id_and_refuses_the_unknown(client: RawClient) -> None:
    assert client.call(Request.SET, payload=b"appid analysis").status == Status.OK
    assert client.call(Request.SET, payload=b"nonsense 1").error == Error.ARG_INVALID


def test_extended_attribute_requests_are_answered_in_one_frame(client: RawClient, handle: bytes) -> None:
    params = handle + struct.pack(">BBB", 1, 1, 0)
    answer = client.call(Request.FATTR, params, b"\0" + struct.pack(">H", 0) + b"name\0")
    assert len(answer.frames) == 1
    assert answer.error in (None, Error.UNSUPPORTED)


def test_prepare_is_taken(client: RawClient) -> None:
    answer = client.call(Request.PREPARE, struct.pack(">BB", 8, 0), FILE.encode())
    assert answer.status == Status.OK
    assert not answer.body.endswith(b"\0")


def test_staged_file_is_fetched(cache_of: Callable[..., Forebay], plain_origin: xrootd.Origin) -> None:
    cache = cache_of(plain_origin.url)
    with RawClient("127.0.0.1", cache.port) as client:
        assert client.call(Request.PREPARE, struct.pack(">BB", 8, 0), FILE.encode()).status == Status.OK
        size = (plain_origin.data / FILE[1:]).stat().st_size
        until(lambda: cache.metrics().origin_bytes >= size, "the file is fetched", within=60)
        refused = client.call(Request.PREPARE, struct.pack(">BB", 8, 0), f"{FILE}\n/../x".encode())
        assert refused.error is not None


def test_unneeded_signature_is_consumed_without_an_answer(client: RawClient) -> None:
    client.send(Request.SIGVER, struct.pack(">HBBQB", Request.STAT, 0, 1, 1, 1), bytes(32), stream_id=b"\x41\x00")
    assert client.call(Request.STAT, bytes(16), FILE.encode(), stream_id=b"\x41\x00").status == Status.OK
