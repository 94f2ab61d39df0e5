"""The certificate in a TLS handshake authenticates a client without a further login."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.raw_client import RawClient
from harness.voms import Organization
from harness.wire import Error, Request

PATH = "/sizes/many-blocks.bin"
TO_THE_GRID = [{"path": "/", "rights": ["read", "list"], "subject": "/DC=test/DC=grid/*", "methods": ["tls"]}]
TO_PRODUCTION = [{"path": "/", "rights": ["read"], "vo": "atlas", "role": "production", "methods": ["tls"]}]


@pytest.fixture(scope="module")
def carl(grid: Grid) -> Credential:
    """A user with a certificate."""
    return grid.issuer.user("Carl")


def context_of(grid: Grid, files: Path | None) -> ssl.SSLContext:
    """A client's TLS with a certificate, its key and its chain in one file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=str(grid.directory))
    if files is not None:
        context.load_cert_chain(files)
    return context


def logged_in(server: Forebay, grid: Grid, files: Path | None) -> RawClient:
    """A client that has come through TLS and sent its login, whatever was said to that."""
    client = server.client(login=False)
    client.start_tls(context_of(grid, files))
    return client


@pytest.mark.parametrize("kind", ["certificate", "proxy", "proxy of a proxy", "limited proxy"])
def test_certificate_is_a_login(
    kind: str, guarded: Callable[..., Forebay], grid: Grid, carl: Credential, patterns: dict[str, Pattern]
) -> None:
    credentials = {
        "certificate": carl,
        "proxy": grid.issuer.proxy(carl),
        "proxy of a proxy": grid.issuer.proxy(grid.issuer.proxy(carl)),
        "limited proxy": grid.issuer.proxy(carl, limited=True),
    }
    server = guarded(TO_THE_GRID, methods=["tls"])
    with logged_in(server, grid, credentials[kind].in_one_file()) as client:
        assert len(client.login().ok()) == 16, "nothing else is asked"
        assert client.read(client.open(PATH), 0, 1000).ok() == patterns[PATH].all()[:1000]


def test_attributes_of_a_proxy_count(
    guarded: Callable[..., Forebay], grid: Grid, atlas: Organization, carl: Credential
) -> None:
    server = guarded(TO_PRODUCTION, methods=["tls"])
    production = atlas.proxy(carl, "/atlas/Role=production", environment=grid.environment())
    member = atlas.proxy(carl, "/atlas", environment=grid.environment())
    for credential, error in ((production, None), (member, Error.NOT_AUTHORIZED), (carl, Error.NOT_AUTHORIZED)):
        with logged_in(server, grid, credential.in_one_file()) as client:
            client.login().ok()
            assert client.try_open(PATH).error == error


def test_certificates_that_prove_nothing_are_refused_with_a_reason(
    guarded: Callable[..., Forebay], grid: Grid, carl: Credential
) -> None:
    shallow = grid.issuer.proxy(carl, path_length=0)
    credentials = {
        "authority": grid.stranger.proxy(grid.stranger.user("Eve")),
        "path length": grid.issuer.proxy(shallow),
        "expired": grid.issuer.proxy(carl, days="-1"),
        "authentication": None,
    }
    server = guarded(TO_THE_GRID, methods=["tls"])
    for reason, credential in credentials.items():
        with logged_in(server, grid, credential.in_one_file() if credential else None) as client:
            answer = client.login()
            assert answer.error == Error.AUTH_FAILED, reason
            assert reason in answer.error_text, answer.error_text
            assert client.try_open(PATH).error is not None


def test_certificate_without_an_identity_permits_the_other_methods(
    guarded: Callable[..., Forebay], grid: Grid, carl: Credential
) -> None:
    grants = [{"path": "/", "rights": ["read"], "methods": ["tls", "unix"]}]
    server = guarded(grants, methods=["tls", "unix"])
    stranger = grid.stranger.proxy(grid.stranger.user("Eve")).in_one_file()
    for files, demands in ((stranger, b"&P=unix"), (None, b"&P=unix"), (carl.in_one_file(), b"")):
        with logged_in(server, grid, files) as client:
            assert client.login().ok()[16:] == demands


def test_certificate_counts_only_where_it_is_a_method(
    guarded: Callable[..., Forebay], grid: Grid, carl: Credential
) -> None:
    server = guarded(TO_THE_GRID, methods=["gsi"])
    with logged_in(server, grid, carl.in_one_file()) as client:
        assert client.login().ok()[16:].startswith(b"&P=gsi,")


def test_resumed_sessions_keep_the_identity_and_attributes_of_their_certificates(
    guarded: Callable[..., Forebay], grid: Grid, atlas: Organization, carl: Credential
) -> None:
    server = guarded(TO_PRODUCTION, methods=["tls"])
    production = atlas.proxy(carl, "/atlas/Role=production", environment=grid.environment())
    member = atlas.proxy(carl, "/atlas", environment=grid.environment())
    for credential, error in ((production, None), (member, Error.NOT_AUTHORIZED)):
        context, session = context_of(grid, credential.in_one_file()), None
        for is_resumed in (False, True, True):
            with server.client(login=False) as client:
                encrypted = client.start_tls(context, session)
                assert encrypted.session_reused is is_resumed
                client.login().ok()
                assert client.try_open(PATH).error == error
                session = encrypted.session


def test_sessions_are_ended_and_joined_by_their_identity_only(
    guarded: Callable[..., Forebay], grid: Grid, carl: Credential
) -> None:
    server = guarded(TO_THE_GRID, methods=["tls"])
    proxy, dora = grid.issuer.proxy(carl).in_one_file(), grid.issuer.user("Dora").in_one_file()
    with logged_in(server, grid, proxy) as main, logged_in(server, grid, dora) as other:
        main.login().ok()
        other.login().ok()
        assert other.call(Request.ENDSESS, main.session_id).error == Error.NOT_AUTHORIZED
        for files in (dora, None):
            with logged_in(server, grid, files) as stream:
                assert stream.call(Request.BIND, main.session_id).error == Error.NOT_AUTHORIZED
        with server.client(login=False) as stream:
            stream.greet()
            assert stream.call(Request.BIND, main.session_id).error == Error.NOT_AUTHORIZED
        assert main.open(PATH)
        with logged_in(server, grid, grid.issuer.proxy(carl).in_one_file()) as stream:
            assert stream.call(Request.BIND, main.session_id).ok()
        with logged_in(server, grid, grid.issuer.proxy(carl).in_one_file()) as again:
            again.login().ok()
            assert again.call(Request.ENDSESS, main.session_id).error is None


def test_one_identity_has_only_so_many_open_files(
    guarded: Callable[..., Forebay], grid: Grid, carl: Credential
) -> None:
    server = guarded(TO_THE_GRID, methods=["tls"], server={"handles_per_identity_max": 2})
    proxies = [grid.issuer.proxy(carl).in_one_file() for _ in range(2)]
    dora = grid.issuer.user("Dora").in_one_file()
    with logged_in(server, grid, proxies[0]) as first, logged_in(server, grid, proxies[1]) as second:
        for client in (first, second):
            client.login().ok()
            assert client.open(PATH)
        assert first.try_open(PATH).error == second.try_open(PATH).error == Error.OVERLOADED
        with logged_in(server, grid, dora) as other:
            other.login().ok()
            assert other.open(PATH)


def test_one_identity_has_only_so_many_sessions(guarded: Callable[..., Forebay], grid: Grid, carl: Credential) -> None:
    server = guarded(TO_THE_GRID, methods=["tls"], server={"sessions_per_identity_max": 2})
    proxies = [grid.issuer.proxy(carl).in_one_file() for _ in range(3)]
    dora = grid.issuer.user("Dora").in_one_file()
    with logged_in(server, grid, proxies[0]) as first, logged_in(server, grid, proxies[1]) as second:
        first.login().ok()
        second.login().ok()
        with logged_in(server, grid, proxies[2]) as third:
            refused = third.login()
            assert (refused.error, "2 sessions" in refused.error_text) == (Error.OVERLOADED, True)
            assert third.socket.recv(1) == b""
        with logged_in(server, grid, dora) as other:
            other.login().ok()
    assert server.metrics().total("forebay_connections_refused_total", limit="identity") == 1


@pytest.mark.parametrize(("client", "method"), [("xrdcp", "gsi"), ("xrdfs-cat", "gsi"), ("pyxrootd", "tls")])
def test_stock_clients_present_their_proxies_and_old_ones_log_in_afterwards(
    client: str,
    method: str,
    guarded: Callable[..., Forebay],
    ground: Ground,
    grid: Grid,
    atlas: Organization,
    carl: Credential,
    patterns: dict[str, Pattern],
) -> None:
    # Those of XRootD 5 omit the rest of the chain, which leaves no identity.
    grant = {"path": "/", "rights": ["read"], "vo": "atlas", "role": "production", "methods": [method]}
    server = guarded([grant], methods=["tls", "gsi"])
    proxy = atlas.proxy(carl, "/atlas/Role=production", environment=grid.environment())
    url = f"roots://127.0.0.1:{server.port}/{PATH}"
    assert_same(fetch(client, ground, url, grid.environment(proxy)), patterns[PATH].all(), client)
    with pytest.raises(ClientFailed):
        fetch(client, ground, url, grid.environment())
