"""Handshake, protocol, login, bind and the end of sessions."""

from __future__ import annotations

import struct

import pytest

from harness import wire
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.raw_client import RawClient, protocol_request, read_params
from harness.waiting import until
from harness.wire import Error, Request, Status

from .conftest import FILE


def test_handshake_reply_has_a_status_header_of_16_bytes(server: Forebay) -> None:
    with server.client(login=False) as client:
        client.send_bytes(wire.HANDSHAKE)
        stream_id, status, length, version, kind = struct.unpack(">2sHIii", client.receive_bytes(16))
    assert (stream_id, status, length, kind) == (b"\0\0", 0, 8, 1)
    assert version >= 0x511


def test_handshake_and_protocol_request_may_come_in_one_segment(server: Forebay) -> None:
    with server.client(login=False) as client:
        client.greet()


def test_bytes_may_come_one_at_a_time(server: Forebay) -> None:
    with server.client(login=False) as client:
        for byte in wire.HANDSHAKE + protocol_request(b"\0\0"):
            client.send_bytes(bytes([byte]))
        client.read_handshake_reply()
        assert client.answer(b"\0\0").ok()


def test_role_is_a_caching_proxy_that_reads_pages(client: RawClient) -> None:
    expected = wire.IS_SERVER | wire.ATTR_PROXY | wire.ATTR_CACHE | wire.PAGE_IO
    assert client.flags & expected == expected
    assert not client.flags & (wire.GOTO_TLS | wire.IS_MANAGER)
    assert client.server_version >= 0x511


def test_protocol_may_be_asked_again_after_login_and_may_carry_a_payload(client: RawClient) -> None:
    client.send_bytes(protocol_request(b"zz", payload=b"ignored"))
    assert len(client.answer(b"zz").ok()) >= 8


@pytest.mark.parametrize("sent", [b"\x01" * 20, b"\x16\x03\x01\x00\x10", b"\0" * 19 + b"\1"])
def test_bytes_of_no_protocol_close_the_connection(server: Forebay, sent: bytes) -> None:
    with server.client(login=False) as client:
        client.send_bytes(sent)
        assert client.is_closed_by_peer()


def test_login_returns_a_session_id_and_asks_no_authentication(client: RawClient) -> None:
    assert len(client.session_id) == 16


def test_session_ids_are_not_predictable(server: Forebay) -> None:
    with server.client() as first, server.client() as second:
        differing = sum(a != b for a, b in zip(first.session_id, second.session_id, strict=True))
    assert differing >= 4


def test_second_login_is_an_invalid_request(client: RawClient) -> None:
    assert client.login().error == Error.INVALID_REQUEST


def test_request_before_login_is_refused_and_closes(server: Forebay) -> None:
    with server.client(login=False) as client:
        client.greet()
        assert client.stat("/").error == Error.INVALID_REQUEST
        assert client.is_closed_by_peer()


def test_auth_without_demand_is_refused_and_the_connection_stays(client: RawClient) -> None:
    for kind in (b"gsi\0", b"ztn\0"):
        assert client.call(Request.AUTH, bytes(12) + kind, kind + b"credentials").error == Error.INVALID_REQUEST
    assert client.stat(FILE).ok()


def test_stream_ids_are_echoed_byte_for_byte_and_may_repeat(client: RawClient) -> None:
    for stream_id in (b"\xff\xfe", b"\x00\x01", b"ab", b"ab"):
        assert client.call(Request.PING, stream_id=stream_id).status == Status.OK


def test_ping_with_a_payload_is_consumed(client: RawClient) -> None:
    assert client.call(Request.PING, payload=b"x" * 100).status == Status.OK
    assert client.stat(FILE).ok()


@pytest.mark.parametrize("session_id", [bytes(16), b"\xa5" * 16])
def test_endsess_of_an_unknown_session_is_ok(client: RawClient, session_id: bytes) -> None:
    assert client.call(Request.ENDSESS, session_id).status == Status.OK


def test_endsess_of_another_session_of_the_same_user_ends_it(server: Forebay) -> None:
    with server.client() as old, server.client() as new:
        assert new.call(Request.ENDSESS, old.session_id).status == Status.OK
        assert old.is_closed_by_peer()
        assert new.stat(FILE).ok()


def test_bound_stream_carries_the_answers_asked_for_it(client: RawClient, server: Forebay, file: Pattern) -> None:
    handle = client.open(FILE)
    with server.client(login=False) as stream:
        stream.greet()
        path_id = stream.call(Request.BIND, client.session_id).ok()
        assert len(path_id) == 1
        assert 1 <= path_id[0] <= 15
        client.send(Request.READ, read_params(handle, 0, 200_000), path_id + bytes(7), stream_id=b"\x07\x00")
        assert_same(stream.answer(b"\x07\x00").ok(), file.read(0, 200_000), "read")
        client.send(Request.PGREAD, read_params(handle, 100, 50_000), path_id + b"\0", stream_id=b"\x08\x00")
        assert_same(stream.answer(b"\x08\x00").ok(), file.read(100, 50_000), "pgread")
    assert_same(client.read(handle, 5, 10).ok(), file.read(5, 10), "the main connection survives its stream")


def test_bind_to_an_unknown_session_is_not_found(server: Forebay) -> None:
    with server.client(login=False) as stream:
        stream.greet()
        assert stream.call(Request.BIND, b"\x5a" * 16).error == Error.NOT_FOUND


def test_unknown_path_id_is_refused_on_the_main_connection(client: RawClient, handle: bytes) -> None:
    assert client.read(handle, 0, 10, b"\x09" + bytes(7)).error == Error.ARG_INVALID


def test_bound_streams_end_with_their_session(server: Forebay) -> None:
    with server.client() as main, server.client(login=False) as stream:
        stream.greet()
        assert stream.call(Request.BIND, main.session_id).ok()
        main.close()
        assert stream.is_closed_by_peer()


def test_unknown_request_is_refused_and_the_connection_stays(client: RawClient) -> None:
    assert client.call(3999, payload=b"whatever").error == Error.INVALID_REQUEST
    assert client.stat(FILE).ok()


def test_negative_payload_length_is_answered_and_closes(client: RawClient) -> None:
    client.send_bytes(b"\x01\x02" + struct.pack(">H16si", Request.PING, b"", -1))
    until(client.is_closed_by_peer if not _answered(client) else lambda: True, "the connection closes")


def test_absurd_payload_length_of_a_reading_request_closes(client: RawClient) -> None:
    client.send_bytes(b"\x01\x02" + struct.pack(">H16si", Request.STAT, b"", 0x7FFFFFFF))
    answered = _answered(client)
    assert not answered or client.is_closed_by_peer()


def test_hostile_login_text_does_not_split_lines_of_the_log(server: Forebay) -> None:
    with server.client(login=False) as client:
        client.greet()
        client.login(user=b"a\nFAKE\x1b", cgi=b"xrd.appname=evil\nFAKE LINE\x07&xrd.info=%0aFAKE")
        handle = client.open(FILE)
        client.read(handle, 0, 10).ok()
        client.close_file(handle).ok()
    until(lambda: FILE in server.process.output(), "the access log names the file")
    for line in server.process.output().splitlines():
        assert not line.startswith("FAKE")
        assert "\x1b" not in line
        assert "\x07" not in line


def test_early_disconnects_release_their_handles(server: Forebay) -> None:
    for _ in range(5):
        with server.client() as client:
            client.open(FILE)
    until(lambda: server.metrics().total("forebay_open_handles") == 0, "handles are closed with their connection")
    until(lambda: server.metrics().total("forebay_connections") == 0, "connections are counted down")


def _answered(client: RawClient) -> bool:
    """Whether a frame came before the connection closed; it must be an error."""
    if client.is_closed_by_peer():
        return False
    assert client.receive().status == Status.ERROR
    return True
