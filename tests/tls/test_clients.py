"""Clients of the field reach the server over TLS as its policy says, or not at all."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import wire, xrootd
from harness.clients import COPIERS, ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pausing import PausingClient
from harness.pki import Authority, Credential, Grid, ca_directory
from harness.raw_client import RawClient
from harness.waiting import until

PATH = "/sizes/many-blocks.bin"
POLICIES = ["capable", "login", "session", "data", "all"]
WITHOUT_TLS = {"X509_CERT_DIR": "/nonexistent"}
"""Makes a stock client forget that it can do TLS."""

GOTO_TLS = 0x4000_0000
HAVE_TLS = 0x8000_0000
WANT_TLS = 0x06
TLS_REQUIRED = 3028


def handshakes(server: Forebay, result: str = "done") -> int:
    """TLS handshakes of the server so far."""
    return int(server.metrics().total("forebay_tls_handshakes_total", result=result))


def url(server: Forebay, scheme: str = "roots", path: str = PATH, host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:{server.port}/{path}"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("client", COPIERS)
def test_client_reads_every_byte_under_every_policy(
    client: str, policy: str, export: Callable[..., Forebay], ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    server = export(policy=policy)
    for scheme in ("root", "roots"):
        before = handshakes(server)
        assert_same(fetch(client, ground, url(server, scheme), grid.environment()), patterns[PATH].all(), scheme)
        is_encrypted = scheme == "roots" or policy != "capable"
        assert (handshakes(server) > before) == is_encrypted, scheme


@pytest.mark.parametrize("client", COPIERS)
def test_client_reads_every_size_cold_and_warm_over_tls(
    client: str,
    serve: Callable[..., Forebay],
    plain_origin: xrootd.Origin,
    ground: Ground,
    grid: Grid,
    host: Credential,
    patterns: dict[str, Pattern],
) -> None:
    tls = {"certificate": str(host.certificate), "key": str(host.key), "policy": "all"}
    cache = serve({"export": [{"origins": [plain_origin.url]}], "tls": tls})
    for temperature in ("cold", "warm"):
        for path, pattern in patterns.items():
            got = fetch(client, ground, url(cache, "roots", path), grid.environment())
            assert_same(got, pattern.all(), f"{path} {temperature}")
        cache.settled_metrics()
    assert cache.metrics().client_bytes()["hit"] >= sum(pattern.size for pattern in patterns.values())


def test_parallel_streams_are_encrypted_when_the_policy_says_so(
    export: Callable[..., Forebay], ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    streams = {"XRD_SUBSTREAMSPERCHANNEL": "4", "XRD_CPCHUNKSIZE": "262144"}
    # Once its first stream is encrypted, the stock client wants that of the others too, whatever the policy.
    for policy, expected in (("capable", 0), ("session", 4), ("data", 4), ("all", 4)):
        server = export(policy=policy)
        got = fetch("xrdcp", ground, url(server, "root"), {**grid.environment(), **streams})
        assert_same(got, patterns[PATH].all(), policy)
        # A copy may end before its client has made all connections.
        assert min(expected, 1) <= handshakes(server) <= expected, policy
        counted, variables = export(policy=policy), {**grid.environment(), **streams}
        command = [sys.executable, "pyxrootd_halves.py", url(counted, "root")]
        with PausingClient(*command, env=variables) as client:
            client.until_half()
            until(lambda at=counted, count=expected: handshakes(at) == count, policy)  # type: ignore[misc]
            client.finish()
        assert handshakes(counted) == expected, policy


@pytest.mark.parametrize("policy", ["capable", "login", "session"])
def test_data_of_an_encrypted_session_is_never_in_clear(
    policy: str, export: Callable[..., Forebay], ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    server = export(policy=policy)
    # The stock client wants clear streams for the data then, and the stock server accepts them.
    wishes = {"XRD_TLSNODATA": "1", "XRD_SUBSTREAMSPERCHANNEL": "4", "XRD_CPCHUNKSIZE": "262144"}
    got = fetch("xrdcp", ground, url(server), {**grid.environment(), **wishes})
    assert_same(got, patterns[PATH].all(), "by the session itself")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        RawClient("127.0.0.1", server.port, login=False) as session,
        RawClient("127.0.0.1", server.port, login=False) as stream,
    ):
        session.start_tls(context)
        session.login()
        stream.greet()
        assert stream.call(wire.Request.BIND, session.session_id).error == wire.Error.NOT_AUTHORIZED


def test_client_with_many_requests_under_way_gets_every_answer(
    export: Callable[..., Forebay], ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    """The stock client overlooks an answer that begins in the middle of a TLS record."""
    server = export(policy="all")
    many = {"XRD_CPCHUNKSIZE": "20000", "XRD_CPPARALLELCHUNKS": "16"}
    for _ in range(5):
        got = fetch("xrdcp", ground, url(server), {**grid.environment(), **many})
        assert_same(got, patterns[PATH].all(), "pipelined")


def test_client_without_tls_is_served_only_where_nothing_demands_it(
    export: Callable[..., Forebay], ground: Ground, patterns: dict[str, Pattern]
) -> None:
    for policy in POLICIES:
        server = export(policy=policy)
        if policy == "capable":
            assert_same(fetch("xrdcp", ground, url(server, "root"), WITHOUT_TLS), patterns[PATH].all(), policy)
        else:
            with pytest.raises(ClientFailed):
                fetch("xrdcp", ground, url(server, "root"), WITHOUT_TLS)
        assert handshakes(server) == 0


def test_login_in_clear_is_refused_with_the_code_that_says_why(export: Callable[..., Forebay]) -> None:
    with RawClient("127.0.0.1", export(policy="session").port, login=False) as client:
        client.greet()
        answer = client.login()
        assert answer.error == TLS_REQUIRED
        assert "TLS" in answer.error_text


def test_client_that_does_not_trust_the_ca_goes_away(
    export: Callable[..., Forebay], ground: Ground, grid: Grid
) -> None:
    server = export()
    other = {"X509_CERT_DIR": str(ca_directory(ground, grid.stranger))}
    for client in ("xrdcp", "forebay-get"):
        with pytest.raises(ClientFailed) as failed:
            fetch(client, ground, url(server), other)
    assert "its CA is not in" in str(failed.value)
    until(lambda: handshakes(server, "failed") >= 2, "both handshakes have failed")


def test_client_does_not_accept_the_certificate_of_another_host(
    export: Callable[..., Forebay], ground: Ground, grid: Grid, data: Path
) -> None:
    server = export(grid.host("DNS:other.example"))
    with pytest.raises(ClientFailed, match=r"for other\.example, not for 127\.0\.0\.1"):
        fetch("forebay-get", ground, url(server), grid.environment())


@pytest.mark.parametrize("kind", ["proxy", "proxy of a proxy", "limited", "certificate"])
def test_client_may_present_a_certificate(
    kind: str, export: Callable[..., Forebay], ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    user = grid.issuer.user("somebody")
    shown = {
        "proxy": lambda: grid.issuer.proxy(user),
        "proxy of a proxy": lambda: grid.issuer.proxy(grid.issuer.proxy(user)),
        "limited": lambda: grid.issuer.proxy(user, limited=True),
        "certificate": lambda: user,
    }[kind]()
    server = export()
    for client in ("xrdcp", "forebay-get"):
        got = fetch(client, ground, url(server), grid.environment(shown))
        assert_same(got, patterns[PATH].all(), client)


def test_client_whose_certificate_means_nothing_is_one_without(
    export: Callable[..., Forebay], ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    revoked = grid.issuer.user("revoked")
    stranger = Authority(ground.directory("unknown-ca"), "/DC=test/CN=Unknown CA").user("stranger")
    grid.issuer.revoke(revoked)
    lists = ca_directory(ground, grid.root, grid.issuer)
    server = export(ca_dir=str(lists), crl="require")
    for user in (revoked, stranger):
        got = fetch("xrdcp", ground, url(server), grid.environment(grid.issuer.proxy(user)))
        assert_same(got, patterns[PATH].all(), user.subject)


def test_slow_handshake_is_dropped(export: Callable[..., Forebay]) -> None:
    server = export(handshake_time_max="1s")
    with RawClient("127.0.0.1", server.port, login=False) as client:
        client.send_bytes(wire.HANDSHAKE)
        client.read_handshake_reply()
        params = struct.pack(">iBB10x", 0x511, WANT_TLS, 3)
        body = client.call(3006, params).ok()
        assert struct.unpack(">II", body)[1] & (GOTO_TLS | HAVE_TLS) == GOTO_TLS | HAVE_TLS
        # A ClientHello that announces more than ever comes.
        client.send_bytes(b"\x16\x03\x01\x02\x00\x01")
        assert client.is_closed_by_peer()
    until(lambda: handshakes(server, "timed_out") == 1, "the handshake is counted as too slow")


def test_data_in_clear_after_the_switch_to_tls_is_not_a_request(export: Callable[..., Forebay]) -> None:
    server = export()
    with RawClient("127.0.0.1", server.port, login=False) as client:
        protocol = wire.request(b"\0\1", 3006, struct.pack(">iBB10x", 0x511, WANT_TLS, 3))
        login = wire.request(b"\0\2", 3007, struct.pack(">i8sBBBB", 1, b"mallory", 0, 0, 0x85, 0))
        client.send_bytes(wire.HANDSHAKE + protocol + login)
        client.read_handshake_reply()
        assert client.receive().stream_id == b"\0\1"
        # An alert of TLS at most, and no answer.
        assert _rest(client.socket)[:1] in (b"\x15", b"")
    until(lambda: handshakes(server, "failed") == 1, "the handshake has failed")


def _rest(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(4096):
            received += chunk
    return received
