"""An origin that misbehaves: the client gets the right bytes or the right error, never wrong bytes, never a hang."""

from __future__ import annotations

import socket
import time

import pytest

from harness import faults, wire
from harness.connections import Listener
from harness.content import assert_same
from harness.forebay import Forebay
from harness.raw_client import Answer, RawClient
from harness.scripted import Action, Exchange, ScriptedOrigin
from harness.waiting import until
from harness.wire import Error, Request

from .conftest import CONTENT, PATH, CacheBefore

DATA = (Request.READ, Request.PGREAD, Request.READV)
BOUND_SECONDS = 30.0
WHOLE = (0, CONTENT.size)
PATIENT_SECONDS = 60
PATIENT = {"first_byte_timeout": f"{PATIENT_SECONDS}s", "stall_timeout": f"{PATIENT_SECONDS}s", "deadline": "120s"}


def on_data(origin: ScriptedOrigin, action: Action, times: int | None = None) -> None:
    """Misbehaves on every kind of read."""
    for code in DATA[:2]:
        origin.on(code, action, times=times)
    origin.on(Request.READV, faults.fail_with(Error.UNSUPPORTED))


def read_whole(client: RawClient, *, pages: bool = False) -> Answer:
    """Reads the file in one request; must end in time."""
    started = time.monotonic()
    handle = client.open(PATH)
    answer = client.page_read(handle, *WHOLE) if pages else client.read(handle, *WHOLE)
    assert time.monotonic() - started < BOUND_SECONDS
    return answer


@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize(
    "action",
    [faults.die, faults.die_after(8), faults.die_after(70_000), faults.die_after(3), faults.stay_silent],
    ids=["dies", "dies-after-header", "dies-mid-answer", "dies-mid-header", "stalls"],
)
def test_one_failure_in_mid_read_is_recovered_without_the_client_noticing(
    action: Action, pages: bool, cache: Forebay, origin: ScriptedOrigin
) -> None:
    on_data(origin, action, times=1)
    with cache.client() as client:
        assert_same(read_whole(client, pages=pages).ok(), CONTENT.all(), "read")


@pytest.mark.parametrize(
    ("action", "errors"),
    [
        (faults.die, (Error.IO_ERROR, Error.NO_SERVER)),
        (faults.die_after(1000), (Error.IO_ERROR, Error.NO_SERVER)),
        (faults.stay_silent, (Error.TIMED_OUT, Error.IO_ERROR)),
        (faults.end_early(0), (Error.IO_ERROR, Error.FS_ERROR)),
        (faults.fail_with(Error.IO_ERROR), (Error.IO_ERROR,)),
        (faults.fail_with(Error.FS_ERROR), (Error.FS_ERROR,)),
        (faults.fail_with(Error.NOT_AUTHORIZED), (Error.NOT_AUTHORIZED,)),
    ],
    ids=["dies", "dies-mid-answer", "stalls", "ends-early", "io-error", "fs-error", "not-authorized"],
)
def test_lasting_failure_becomes_the_right_error_and_heals_afterwards(
    action: Action, errors: tuple[Error, ...], cache: Forebay, origin: ScriptedOrigin
) -> None:
    on_data(origin, action)
    with cache.client() as client:
        answer = read_whole(client)
        assert answer.error in errors, answer.error_text
        assert answer.error_text
        origin.behave()
        healed = until(lambda: (got := read_whole(client)).error is None and got, "the cache recovers", within=20)
        assert_same(healed.ok(), CONTENT.all(), "after recovery")


def test_origin_that_dies_in_every_answer_never_yields_wrong_bytes(cache: Forebay, origin: ScriptedOrigin) -> None:
    # Each answer brings some bytes before it breaks: giving up is right, and so is getting there in the end.
    on_data(origin, faults.die_after(70_000))
    with cache.client() as client:
        answer = read_whole(client)
        if answer.error is None:
            assert_same(answer.ok(), CONTENT.all(), "read")
        else:
            assert answer.error in (Error.IO_ERROR, Error.NO_SERVER)


@pytest.mark.parametrize("index", [0, 7, 10_000])
def test_corrupt_page_is_asked_again(index: int, cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.on(Request.PGREAD, faults.corrupt_page(index), times=1)
    with cache.client() as client:
        assert_same(read_whole(client).ok(), CONTENT.all(), "read")
    again = [asked for asked in origin.asked(Request.PGREAD) if asked.payload[1:2] == b"\x01"]
    assert again
    assert all(asked.range[1] <= wire.PAGE for asked in again)


def test_page_that_stays_corrupt_is_a_checksum_error_and_never_kept(cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.on(Request.PGREAD, faults.corrupt_page(3))
    with cache.client() as client:
        answer = read_whole(client)
        assert answer.error in (Error.CHECKSUM, Error.IO_ERROR), answer.error_text
        origin.behave()
        healed = until(lambda: (got := read_whole(client)).error is None and got, "the cache recovers", within=20)
        assert_same(healed.ok(), CONTENT.all(), "after recovery")


def test_short_answers_are_continued(cache: Forebay, origin: ScriptedOrigin) -> None:
    on_data(origin, faults.end_early(90_000))
    with cache.client() as client:
        assert_same(read_whole(client).ok(), CONTENT.all(), "read")


def test_truncated_origin_file_is_never_padded(cache: Forebay, origin: ScriptedOrigin) -> None:
    on_data(origin, faults.end_early(100))
    with cache.client() as client:
        handle = client.open(PATH)
        for offset in (0, 5000, CONTENT.size - 200):
            answer = client.read(handle, offset, 200)
            assert answer.error is not None or answer.body == CONTENT.read(offset, 200)


@pytest.mark.parametrize(
    "code", [Error.NOT_FOUND, Error.NOT_AUTHORIZED, Error.IO_ERROR, Error.AUTH_FAILED, Error.NO_SPACE]
)
def test_refused_open_keeps_the_meaning_of_the_origin(code: Error, cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.on(Request.OPEN, faults.fail_with(code, "the origin's own words"))
    with cache.client() as client:
        answer = client.try_open(PATH)
    assert answer.error == code
    assert "the origin's own words" in answer.error_text


def test_unreachable_origin_is_named_in_the_error(cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.listener.close()
    with cache.client() as client:
        answer = client.try_open(PATH)
    assert answer.error == Error.NO_SERVER
    assert str(origin.listener.port) in answer.error_text


def test_silent_open_times_out(cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.on(Request.OPEN, faults.stay_silent)
    started = time.monotonic()
    with cache.client() as client:
        assert client.try_open(PATH).error == Error.TIMED_OUT
    assert time.monotonic() - started < BOUND_SECONDS


def test_origin_that_never_answers_the_handshake_times_out(cache_before: CacheBefore) -> None:
    mute = Listener(swallow)
    try:
        with cache_before(f"root://127.0.0.1:{mute.port}").client() as client:
            assert client.try_open(PATH).error in (Error.TIMED_OUT, Error.NO_SERVER)
    finally:
        mute.close()


def test_redirect_loop_ends_in_an_error(cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.on(Request.OPEN, faults.redirect("127.0.0.1", origin.listener.port))
    with cache.client() as client:
        assert client.try_open(PATH).error in (Error.SERVER_ERROR, Error.IO_ERROR)
    assert len(origin.asked(Request.OPEN)) <= 64


def test_redirects_between_two_origins_in_a_circle_end_in_an_error(cache: Forebay, origin: ScriptedOrigin) -> None:
    with ScriptedOrigin({PATH: CONTENT}) as other:
        origin.on(Request.OPEN, faults.redirect("127.0.0.1", other.listener.port))
        other.on(Request.OPEN, faults.redirect("127.0.0.1", origin.listener.port))
        with cache.client() as client:
            assert client.try_open(PATH).error in (Error.SERVER_ERROR, Error.IO_ERROR)


def test_silent_origin_delays_no_hit(cache_before: CacheBefore, origin: ScriptedOrigin) -> None:
    cache = cache_before(origin.url, **PATIENT)
    with cache.client() as client:
        handle = client.open(PATH)
        assert_same(client.read(handle, *WHOLE).ok(), CONTENT.all(), "cold")
        cache.settled_metrics()
        for code in (Request.PGREAD, Request.READ, Request.READV, Request.STAT, Request.OPEN):
            origin.on(code, faults.stay_silent)
        started = time.monotonic()
        assert_same(client.read(handle, *WHOLE).ok(), CONTENT.all(), "warm")
        assert time.monotonic() - started < PATIENT_SECONDS / 2


def test_failover_uses_the_next_origin_of_the_list(cache_before: CacheBefore, origin: ScriptedOrigin) -> None:
    with ScriptedOrigin({PATH: CONTENT}) as spare:
        dead = ScriptedOrigin({})
        dead.listener.close()
        with cache_before(dead.url, spare.url).client() as client:
            assert_same(read_whole(client).ok(), CONTENT.all(), "from the second origin")


def test_failover_in_mid_read(cache_before: CacheBefore, origin: ScriptedOrigin) -> None:
    with ScriptedOrigin({PATH: CONTENT}) as spare, cache_before(origin.url, spare.url).client() as client:
        handle = client.open(PATH)
        assert_same(client.read(handle, 0, 1000).ok(), CONTENT.read(0, 1000), "first")
        origin.listener.close()
        assert_same(client.read(handle, *WHOLE).ok(), CONTENT.all(), "rest")


def test_slow_origin_does_not_block_other_requests_of_the_connection(
    cache_before: CacheBefore, origin: ScriptedOrigin
) -> None:
    with cache_before(origin.url, **PATIENT).client() as client:
        handle = client.open(PATH)
        assert_same(client.read(handle, 0, 1000).ok(), CONTENT.read(0, 1000), "first block")
        held: list[Exchange] = []
        origin.on(Request.PGREAD, held.append)
        origin.on(Request.READ, held.append)
        slow = client.send(Request.READ, handle + (1 << 20).to_bytes(8, "big") + (100).to_bytes(4, "big"), bytes(8))
        assert_same(client.read(handle, 10, 100).ok(), CONTENT.read(10, 100), "hit after a miss")
        assert client.call(Request.PING).ok() == b""
        until(lambda: held, "the origin is asked")
        for exchange in held:
            exchange.as_usual()
        assert_same(client.answer(slow).ok(), CONTENT.read(1 << 20, 100), "slow")


def swallow(connection: socket.socket) -> None:
    """Reads and never answers."""
    while connection.recv(1 << 16):
        pass
