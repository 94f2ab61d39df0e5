"""Origins that are correct but different: waiting, deferring, redirecting, splitting, or lacking features."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from harness import faults, wire
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.scripted import Asked, Exchange, Manners, ScriptedOrigin, stat_text
from harness.wire import Error, Query, Request, Status

from .conftest import CONTENT, PATH, CacheBefore


def assert_reads(cache: Forebay, target: str = PATH, content: Pattern = CONTENT) -> None:
    """Reads the whole file by read, and parts of it by pgread and readv."""
    with cache.client() as client:
        handle = client.open(target)
        assert_same(client.page_read(handle, 5000, 9000).ok(), content.read(5000, 9000), "pgread")
        assert_same(client.read(handle, 0, content.size).ok(), content.all(), "read")


@pytest.mark.parametrize("text", [b"", b"staging", b"staging\0"])
def test_wait_is_obeyed_on_open_and_read(text: bytes, cache: Forebay, origin: ScriptedOrigin) -> None:
    for code in (Request.OPEN, Request.READ, Request.PGREAD):
        origin.on(code, faults.ask_to_wait(1, text), times=1)
    assert_reads(cache)


def test_promised_answers_are_awaited(cache: Forebay, origin: ScriptedOrigin) -> None:
    for code in (Request.OPEN, Request.STAT, Request.QUERY):
        origin.on(code, faults.promise(5))
    assert_reads(cache)


def test_wait_resp_followed_by_an_ordinary_answer_is_accepted(cache: Forebay, origin: ScriptedOrigin) -> None:
    def promise_then_answer(exchange: Exchange) -> None:
        exchange.reply(struct.pack(">i", 5), Status.WAITRESP)
        exchange.as_usual()

    origin.on(Request.OPEN, promise_then_answer)
    assert_reads(cache)


def test_read_answers_split_anywhere_are_joined(cache_before: CacheBefore) -> None:
    def in_odd_pieces(exchange: Exchange) -> None:
        content = exchange.origin.content(exchange)
        assert content is not None
        data = content.read(*exchange.asked.range)
        for start in range(0, len(data), 33_333):
            exchange.reply(data[start : start + 33_333], Status.OKSOFAR)
        exchange.reply(b"")

    with ScriptedOrigin({PATH: CONTENT}, manners=Manners(flags=wire.IS_SERVER)) as origin:
        origin.on(Request.READ, in_odd_pieces)
        assert_reads(cache_before(origin.url))


def test_origin_without_page_reads_is_read_by_read(cache_before: CacheBefore) -> None:
    with ScriptedOrigin({PATH: CONTENT}, manners=Manners(flags=wire.IS_SERVER, version=0x400)) as origin:
        assert_reads(cache_before(origin.url))
        assert not origin.asked(Request.PGREAD)


def test_origin_that_refuses_page_reads_it_promised_is_read_by_read(cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.on(Request.PGREAD, faults.fail_with(Error.UNSUPPORTED))
    assert_reads(cache)


def test_origin_that_knows_only_the_reads_of_dcache(cache: Forebay, origin: ScriptedOrigin) -> None:
    for code in (Request.PGREAD, Request.BIND, Request.PING, Request.QUERY, Request.LOCATE, Request.READV):
        origin.on(code, faults.fail_with(Error.UNSUPPORTED))
    assert_reads(cache)


def test_empty_login_reply_of_old_servers_is_accepted(cache_before: CacheBefore) -> None:
    with ScriptedOrigin({PATH: CONTENT}, manners=Manners(version=0x290, login_reply=b"")) as origin:
        assert_reads(cache_before(origin.url))


def test_server_and_manager_at_once_is_taken_as_a_manager(cache_before: CacheBefore) -> None:
    flags = wire.IS_SERVER | wire.IS_MANAGER
    with ScriptedOrigin({PATH: CONTENT}) as worker, ScriptedOrigin({}, manners=Manners(flags=flags)) as manager:
        manager.on(Request.OPEN, faults.redirect("127.0.0.1", worker.listener.port))
        assert_reads(cache_before(manager.url))


def test_open_without_the_stat_text_falls_back_to_stat(cache: Forebay, origin: ScriptedOrigin) -> None:
    def bare(exchange: Exchange) -> None:
        original = exchange.asked
        options = struct.pack(">H", wire.OPEN_READ)
        exchange.asked = type(original)(
            original.code, original.params[:2] + options + original.params[4:], original.payload, original.stream_id
        )
        exchange.as_usual()

    origin.on(Request.OPEN, bare)
    assert_reads(cache)


def test_short_stat_text_of_four_numbers_is_enough(cache: Forebay, origin: ScriptedOrigin) -> None:
    text = " ".join(stat_text(CONTENT.size).split(" ")[:4]).encode()
    origin.on(Request.STAT, lambda exchange: exchange.reply(text))
    with cache.client() as client:
        assert int(client.stat(PATH).ok().split(b" ")[1]) == CONTENT.size


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.0.0.1?id=42",
        "127.0.0.1?&id=42&cap.msg=a%20b",
        "127.0.0.1?id=42?token",
        "[::ffff:127.0.0.1]?id=42",
    ],
)
def test_host_redirects_in_every_spelling_are_followed_with_their_opaque_data(
    text: str, cache: Forebay, origin: ScriptedOrigin
) -> None:
    with ScriptedOrigin({PATH: CONTENT}) as worker:
        origin.on(Request.OPEN, faults.redirect(text, worker.listener.port))
        assert_reads(cache)
        target = worker.asked(Request.OPEN)[0].target
    for part in text.partition("?")[2].split("?")[0].split("&"):
        assert part in target


def test_redirect_to_an_ipv6_address_is_followed(cache: Forebay, origin: ScriptedOrigin) -> None:
    with ScriptedOrigin({PATH: CONTENT}, family=socket.AF_INET6) as worker:
        origin.on(Request.OPEN, faults.redirect("[::1]", worker.listener.port))
        assert_reads(cache)


def test_url_redirect_replaces_the_path(cache: Forebay, origin: ScriptedOrigin) -> None:
    with ScriptedOrigin({"/pool/000017": CONTENT}) as worker:
        origin.on(Request.OPEN, faults.redirect(f"root://someone@{worker.address}//pool/000017?ticket=1", -1))
        assert_reads(cache)
        assert "ticket=1" in worker.asked(Request.OPEN)[0].target


def test_long_capabilities_of_a_redirect_arrive_verbatim(cache: Forebay, origin: ScriptedOrigin) -> None:
    capability = "cap.msg=" + "Ab+/%=" * 800 + "&mgm.id=00ff"
    with ScriptedOrigin({PATH: CONTENT}) as worker:
        origin.on(Request.OPEN, faults.redirect(f"127.0.0.1?{capability}", worker.listener.port))
        assert_reads(cache)
        assert capability in worker.asked(Request.OPEN)[0].target


def test_reopening_goes_back_to_the_door_not_to_the_pool(cache: Forebay, origin: ScriptedOrigin) -> None:
    with ScriptedOrigin({PATH: CONTENT}) as pool:
        origin.on(Request.OPEN, faults.redirect("127.0.0.1?once=1", pool.listener.port))
        with cache.client() as client:
            handle = client.open(PATH)
            assert_same(client.read(handle, 0, 1000).ok(), CONTENT.read(0, 1000), "first")
            asked_before = len(origin.asked(Request.OPEN))
            pool.listener.drop_connections()
            assert_same(client.read(handle, 0, CONTENT.size).ok(), CONTENT.all(), "rest")
            assert len(origin.asked(Request.OPEN)) > asked_before


def test_redirect_to_a_local_file_is_refused(cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.on(Request.OPEN, faults.redirect("file://localhost/etc/passwd", -1))
    with cache.client() as client:
        assert client.try_open(PATH).error is not None


@pytest.mark.parametrize("value", ["1ab", "000001AB", "1AB\0"])
def test_checksum_of_the_origin_is_padded_to_eight_digits(value: str, cache: Forebay, origin: ScriptedOrigin) -> None:
    def answer(exchange: Exchange) -> None:
        if exchange.asked.params[:2] == struct.pack(">H", Query.CHECKSUM):
            exchange.reply(f"adler32 {value}".encode())
        else:
            exchange.as_usual()

    origin.on(Request.QUERY, answer)
    with cache.client() as client:
        reply = client.query(Query.CHECKSUM, f"{PATH}?cks.type=adler32".encode()).ok()
    assert reply.rstrip(b"\0").lower() == b"adler32 000001ab"


@pytest.mark.parametrize(("others", "succeeds"), [(3, True), (4, False)])
def test_checksum_of_another_algorithm_is_requested_again(
    others: int, succeeds: bool, cache: Forebay, origin: ScriptedOrigin
) -> None:
    def is_checksum(asked: Asked) -> bool:
        return asked.params[:2] == struct.pack(">H", Query.CHECKSUM)

    origin.on(Request.QUERY, lambda exchange: exchange.reply(b"crc32c 00000002"), when=is_checksum)
    # A stock server that computes the checksum of the file for another client gives its result to both.
    origin.on(Request.QUERY, lambda exchange: exchange.reply(b"adler32 00000001"), when=is_checksum, times=others)
    with cache.client() as client:
        answer = client.query(Query.CHECKSUM, f"{PATH}?cks.type=crc32c".encode())
    assert len([asked for asked in origin.asked(Request.QUERY) if is_checksum(asked)]) == 4
    if succeeds:
        assert answer.ok().rstrip(b"\0") == b"crc32c 00000002"
    else:
        assert answer.error is not None
        assert "another algorithm" in answer.error_text


def test_origin_that_demands_authentication_is_reported_at_once(cache_before: CacheBefore) -> None:
    login_reply = bytes(16) + b"&P=gsi,v:10600,c:ssl,ca:1234&P=ztn,0:4096:"
    with ScriptedOrigin({PATH: CONTENT}, manners=Manners(login_reply=login_reply)) as origin:
        started = time.monotonic()
        with cache_before(origin.url).client() as client:
            answer = client.try_open(PATH)
        assert answer.error is not None
        assert "gsi" in answer.error_text
        assert time.monotonic() - started < 15
        assert len(origin.asked(Request.AUTH)) <= 16


def test_origin_that_demands_tls_is_reported(cache_before: CacheBefore) -> None:
    manners = Manners(flags=wire.IS_SERVER | wire.HAVE_TLS | wire.GOTO_TLS)
    with ScriptedOrigin({PATH: CONTENT}, manners=manners) as origin, cache_before(origin.url).client() as client:
        answer = client.try_open(PATH)
    assert answer.error is not None
    assert "TLS" in answer.error_text


def test_answers_of_different_requests_may_come_in_any_order(cache: Forebay, origin: ScriptedOrigin) -> None:
    first: list[Exchange] = []

    def hold_the_first(exchange: Exchange) -> None:
        if not first:
            first.append(exchange)
            return
        exchange.as_usual()
        if len(first) == 1:
            first.append(exchange)
            first[0].as_usual()

    with cache.client() as client:
        handle = client.open(PATH)
        origin.on(Request.PGREAD, hold_the_first)
        origin.on(Request.READ, hold_the_first)
        early = client.send(Request.READ, handle + bytes(8) + (100).to_bytes(4, "big"), bytes(8))
        late = client.send(Request.READ, handle + (1 << 20).to_bytes(8, "big") + (100).to_bytes(4, "big"), bytes(8))
        assert_same(client.answer(late).ok(), CONTENT.read(1 << 20, 100), "late")
        assert_same(client.answer(early).ok(), CONTENT.read(0, 100), "early")


@pytest.mark.timeout(120)
def test_slow_miss_is_promised_and_answered_later(origin: ScriptedOrigin, cache_before: CacheBefore) -> None:
    cache = cache_before(origin.url)
    origin.on(Request.OPEN, faults.ask_to_wait(12), times=1)
    with cache.client() as client:
        answer = client.try_open(PATH)
        assert answer.promised
        handle = answer.ok()[:4]
        origin.on(Request.PGREAD, faults.ask_to_wait(12), times=1)
        origin.on(Request.READ, faults.ask_to_wait(12), times=1)
        reading = client.read(handle, 0, 100_000)
        assert reading.promised
        assert_same(reading.ok(), CONTENT.read(0, 100_000), "read")
