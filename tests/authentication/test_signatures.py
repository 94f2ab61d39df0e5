"""Requests are signed where the server requires it, and an attacker in the network cannot add or change any."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

import pytest

from harness import wire
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Grid
from harness.relay import Relay
from harness.waiting import until
from harness.wire import Request

PATH = "/sizes/many-blocks.bin"
OTHER_PATH = "/sizes/block.bin"
GRANTS = [{"path": "/", "rights": ["read", "list"], "subject": "/DC=test/DC=grid/*"}]

# Requests of a reading client that each level requires to be signed.
SIGNED = {
    "none": [],
    "compatible": [],
    "standard": [Request.OPEN],
    "intense": [Request.OPEN, Request.CLOSE],
    "pedantic": [Request.OPEN, Request.CLOSE, Request.STAT],
}


@pytest.fixture(scope="module")
def bob(grid: Grid) -> dict[str, str]:
    """The environment of a user with a proxy."""
    return grid.environment(grid.issuer.proxy(grid.issuer.user("Bob")))


def code_of(request: bytes) -> int:
    """The code of a request."""
    return int(struct.unpack_from(">H", request, 2)[0])


def fetch_by(relay: Relay, client: str, ground: Ground, environment: dict[str, str], path: str = PATH) -> bytes:
    return fetch(client, ground, f"{relay.url}/{path}", environment)


@pytest.mark.parametrize("level", SIGNED)
@pytest.mark.parametrize("client", ["xrdcp", "xrdfs-cat", "pyxrootd"])
def test_stock_clients_sign_as_announced(
    client: str,
    level: str,
    guarded: Callable[..., Forebay],
    ground: Ground,
    bob: dict[str, str],
    patterns: dict[str, Pattern],
) -> None:
    signed: list[int] = []

    def note(request: bytes) -> bytes:
        if code_of(request) == Request.SIGVER:
            signed.append(int(struct.unpack_from(">H", request, 4)[0]))
        return request

    server = guarded(GRANTS, signing=level)
    with Relay(("127.0.0.1", server.port), meddle=note) as relay:
        assert_same(fetch_by(relay, client, ground, bob), patterns[PATH].all(), client)
    assert [code for code in SIGNED[level] if code not in signed and code != Request.STAT] == []
    if not SIGNED[level]:
        assert signed == []
    if level == "pedantic":
        assert {Request.READ, Request.READV, Request.PGREAD} & set(signed), signed


def without_signature(request: bytes) -> bytes:
    return b"" if code_of(request) == Request.SIGVER else request


def with_wrong_signature(request: bytes) -> bytes:
    return request[:-1] + bytes([request[-1] ^ 1]) if code_of(request) == Request.SIGVER else request


def of_another_file(request: bytes) -> bytes:
    if code_of(request) != Request.OPEN:
        return request
    path = OTHER_PATH.encode()
    return request[:20] + struct.pack(">I", len(path)) + path


def with_another_sequence(request: bytes) -> bytes:
    return request[:8] + bytes(8) + request[16:] if code_of(request) == Request.SIGVER else request


@pytest.mark.parametrize(
    "meddle",
    [without_signature, with_wrong_signature, of_another_file, with_another_sequence],
    ids=lambda m: m.__name__,
)
def test_requests_that_were_changed_on_the_way_are_refused(
    meddle: Callable[[bytes], bytes], guarded: Callable[..., Forebay], ground: Ground, bob: dict[str, str]
) -> None:
    server = guarded(GRANTS, signing="standard")
    with Relay(("127.0.0.1", server.port), meddle=meddle) as relay, pytest.raises(ClientFailed, match=r"\[3022\]"):
        fetch_by(relay, "xrdcp", ground, bob)
    metrics = server.metrics()
    assert metrics.total("forebay_client_requests_total", kind="open") == 0
    assert metrics.total("forebay_client_errors_total", side="authorization") > 0


@pytest.mark.parametrize("kind", ["replayed", "added"])
def test_requests_that_were_added_on_the_way_end_the_connection(
    kind: str, guarded: Callable[..., Forebay], ground: Ground, bob: dict[str, str]
) -> None:
    opened: list[bytes] = []
    unsigned = wire.request(b"\xff\xfe", Request.OPEN, struct.pack(">HH", 0, wire.OPEN_READ), PATH.encode())

    def add(request: bytes) -> bytes:
        if code_of(request) in (Request.SIGVER, Request.OPEN):
            opened.append(request)
        if code_of(request) != Request.CLOSE:
            return request
        return (unsigned if kind == "added" else b"".join(opened[:2])) + request

    server = guarded(GRANTS, signing="standard")
    with Relay(("127.0.0.1", server.port), meddle=add) as relay:
        # The client may succeed: it has all bytes by then.
        with contextlib.suppress(ClientFailed):
            fetch_by(relay, "xrdfs-cat", ground, bob)
        assert relay.requests(Request.OPEN) == 1
    refused = "forebay_client_errors_total"
    metrics = until(lambda: (now := server.metrics()).total(refused, side="authorization") > 0 and now, "it is refused")
    assert metrics.total("forebay_client_requests_total", kind="open") == 1


def test_nothing_is_signed_over_tls(
    guarded: Callable[..., Forebay],
    ground: Ground,
    bob: dict[str, str],
    patterns: dict[str, Pattern],
) -> None:
    server = guarded(GRANTS, signing="pedantic")
    url = f"roots://127.0.0.1:{server.port}/{PATH}"
    for client in ("xrdcp", "xrdfs-cat", "pyxrootd"):
        assert_same(fetch(client, ground, url, bob), patterns[PATH].all(), client)
