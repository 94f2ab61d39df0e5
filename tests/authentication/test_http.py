"""Clients of HTTP prove their identity by tokens and certificates, with the grants of `root://`."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import xrootd
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.http_client import Connection, ask
from harness.pki import Credential, Grid
from harness.tokens import TokenIssuer
from harness.voms import Organization

PATH = "/sizes/many-blocks.bin"
BY_SCOPE = [{"path": "/", "rights": ["read", "list", "stat"], "methods": ["token"], "scopes": "grant"}]
TO_THE_GRID = [{"path": "/", "rights": ["read", "list"], "subject": "/DC=test/DC=grid/*", "methods": ["tls"]}]
TO_PRODUCTION = [{"path": "/", "rights": ["read"], "vo": "atlas", "role": "production", "methods": ["tls"]}]


@pytest.fixture
def tls(grid: Grid) -> ssl.SSLContext:
    """TLS of a client without a certificate."""
    return context_of(grid)


def context_of(grid: Grid, credential: Credential | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=str(grid.directory))
    if credential is not None:
        context.load_cert_chain(credential.in_one_file())
    return context


@pytest.fixture
def server_of(
    serve: Callable[[Mapping[str, Any]], Forebay], grid: Grid, host: Credential, issuer: TokenIssuer
) -> Callable[..., Forebay]:
    """Starts servers that ask for tokens."""

    def start(export: Mapping[str, Any], grants: list[dict[str, Any]], **tables: object) -> Forebay:
        return serve(
            {
                "export": [{"path": "/", **export}],
                "tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)},
                "authentication": {"methods": ["ztn"]},
                "issuer": [{"url": issuer.url, "keys": str(issuer.keys), "audiences": ["https://cache.test"]}],
                "grant": grants,
                **tables,
            }
        )

    return start


def test_tokens_are_read_from_the_header_and_the_query(
    server_of: Callable[..., Forebay],
    data: Path,
    issuer: TokenIssuer,
    tls: ssl.SSLContext,
    patterns: dict[str, Pattern],
) -> None:
    server = server_of({"directory": str(data)}, BY_SCOPE)
    content, token = patterns[PATH].all(), issuer.token()
    header = {"Authorization": f"Bearer {token}"}
    for target, fields in (
        (PATH, header),
        (f"{PATH}?authz=Bearer%20{token}", {}),
        (f"{PATH}?x=y&authz={token}", {}),
        (f"{PATH}?access_token={token}", {}),
        (f"{PATH}?authz={token}", header),
    ):
        assert_same(ask(server, "GET", target, fields, tls=tls).body, content, target)
    for method, status in (("HEAD", 200), ("PROPFIND", 207)):
        assert ask(server, method, PATH, header, tls=tls).status == status
    other = issuer.token(scope="storage.read:/elsewhere")
    for target, fields, status in (
        (PATH, {}, 401),
        (PATH, {"Authorization": "Bearer None"}, 401),
        (PATH, {"Authorization": f"Bearer {token}x"}, 401),
        (f"{PATH}?authz={other}", header, 400),
        (PATH, {"Authorization": f"Bearer {other}"}, 403),
    ):
        for method in ("GET", "HEAD", "PROPFIND"):
            reply = ask(server, method, target, fields, tls=tls)
            assert reply.status == status, (method, target)
            assert ("www-authenticate" in reply.fields) == (status == 401)
    assert ask(server, "OPTIONS", "/", tls=tls).status == 200
    # Others on the way could read it.
    assert ask(server, "GET", PATH, header).status == 403


def test_commands_show_the_token_of_their_user(
    server_of: Callable[..., Forebay],
    data: Path,
    grid: Grid,
    issuer: TokenIssuer,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    server = server_of({"directory": str(data)}, BY_SCOPE)
    url = f"https://{server.address}{PATH}"
    env = {"X509_CERT_DIR": str(grid.directory), "BEARER_TOKEN": issuer.token()}
    assert_same(fetch("forebay-get", ground, url, env), patterns[PATH].all(), "with a token")
    for refused in ({**env, "BEARER_TOKEN": ""}, {**env, "X509_CERT_DIR": "/nonexistent"}):
        with pytest.raises(ClientFailed):
            fetch("forebay-get", ground, url, refused)


def test_one_connection_serves_several_tokens_each_with_its_own_rights(
    server_of: Callable[..., Forebay], data: Path, issuer: TokenIssuer, tls: ssl.SSLContext
) -> None:
    server = server_of({"directory": str(data)}, BY_SCOPE)
    good, bad = issuer.token(), issuer.token(scope="storage.read:/elsewhere")
    with Connection(server, tls) as connection:
        for _ in range(3):
            for token, status in ((good, 206), (bad, 403), (None, 401)):
                fields = {"Range": "bytes=0-9"} | ({"Authorization": f"Bearer {token}"} if token else {})
                assert connection.ask("GET", PATH, fields).status == status


def test_tokens_are_neither_logged_nor_named_in_redirects_or_files(
    server_of: Callable[..., Forebay],
    plain_origin: xrootd.Origin,
    issuer: TokenIssuer,
    tls: ssl.SSLContext,
) -> None:
    server = server_of({"origins": [plain_origin.url]}, BY_SCOPE, logging={"filter": "trace"})
    token = issuer.token()
    bad = issuer.token(scope="storage.read:/elsewhere")
    assert ask(server, "GET", f"{PATH}?authz=Bearer%20{token}", tls=tls).status == 200
    assert ask(server, "GET", f"{PATH}?authz=Bearer%20{bad}", tls=tls).status == 403
    reply = ask(server, "GET", f"/sizes?authz=Bearer%20{token}", tls=tls)
    assert (reply.status, reply.fields["location"]) == (301, "/sizes/")
    server.settled_metrics()
    names = [path.relative_to(server.data) for path in server.data.rglob("*")]
    assert any(path.name == "many-blocks.bin" for path in names)
    log = server.process.output()
    assert "many-blocks.bin" in log
    for secret in (token, bad):
        signature = secret.rsplit(".", 1)[1]
        assert signature not in log
        assert not any(signature in str(path) for path in names)


def test_hits_and_misses_have_the_decisions_of_root(
    server_of: Callable[..., Forebay],
    plain_origin: xrootd.Origin,
    issuer: TokenIssuer,
    tls: ssl.SSLContext,
    ground: Ground,
    grid: Grid,
) -> None:
    server = server_of({"origins": [plain_origin.url]}, BY_SCOPE)
    tokens = {
        issuer.token(): True,
        issuer.token(scope="storage.read:/sizes"): True,
        issuer.token(scope="storage.read:/elsewhere"): False,
        issuer.token(exp=1_000_000_000): False,
    }
    for _ in ("cold", "warm"):
        for token, is_allowed in tokens.items():
            reply = ask(server, "GET", PATH, {"Authorization": f"Bearer {token}"}, tls=tls)
            assert (reply.status == 200) == is_allowed
            environment = {**grid.environment(), "BEARER_TOKEN": token}
            try:
                fetch("xrdcp", ground, f"roots://127.0.0.1:{server.port}/{PATH}", environment)
                assert is_allowed
            except ClientFailed:
                assert not is_allowed


@pytest.mark.parametrize("kind", ["certificate", "proxy", "proxy of a proxy"])
def test_certificates_of_the_handshake_count(
    kind: str, guarded: Callable[..., Forebay], grid: Grid, patterns: dict[str, Pattern]
) -> None:
    carl = grid.issuer.user("Carl")
    credential = {
        "certificate": carl,
        "proxy": grid.issuer.proxy(carl),
        "proxy of a proxy": grid.issuer.proxy(grid.issuer.proxy(carl)),
    }
    server = guarded(TO_THE_GRID, methods=["tls"])
    context = context_of(grid, credential[kind])
    assert_same(ask(server, "GET", PATH, tls=context).body, patterns[PATH].all(), kind)
    assert ask(server, "GET", PATH, tls=context_of(grid)).status == 403
    assert ask(server, "GET", PATH).status == 403


def test_attributes_of_a_proxy_count(guarded: Callable[..., Forebay], grid: Grid, atlas: Organization) -> None:
    carl = grid.issuer.user("Carl")
    server = guarded(TO_PRODUCTION, methods=["tls"])
    production = atlas.proxy(carl, "/atlas/Role=production", environment=grid.environment())
    member = atlas.proxy(carl, "/atlas", environment=grid.environment())
    for credential, status in ((production, 200), (member, 403), (carl, 403)):
        assert ask(server, "GET", PATH, tls=context_of(grid, credential)).status == status


def test_resumed_sessions_keep_the_identity_of_their_certificates(
    guarded: Callable[..., Forebay], grid: Grid, atlas: Organization
) -> None:
    server = guarded(TO_PRODUCTION, methods=["tls"])
    carl = grid.issuer.user("Carl")
    production = atlas.proxy(carl, "/atlas/Role=production", environment=grid.environment())
    for credential, status in ((production, 200), (carl, 403), (None, 403)):
        context, session = context_of(grid, credential), None
        for is_resumed in (False, True, True):
            plain = socket.create_connection((server.host, server.port), 30)
            with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as encrypted:
                assert encrypted.session_reused is is_resumed
                encrypted.sendall(f"GET {PATH} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode())
                with encrypted.makefile("rb") as received:
                    assert received.read().startswith(f"HTTP/1.1 {status} ".encode())
                session = encrypted.session


def test_curl_reads_with_a_proxy(
    guarded: Callable[..., Forebay], grid: Grid, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server = guarded(TO_THE_GRID, methods=["tls"])
    proxy = grid.issuer.proxy(grid.issuer.user("Carl")).in_one_file()
    target = ground.directory("curl") / "file"
    subprocess.run(
        [
            program("curl"),
            *("--silent", "--fail", "--capath", grid.directory, "--cert", proxy, "--output", target),
            f"https://127.0.0.1:{server.port}{PATH}",
        ],
        check=True,
    )
    assert_same(target.read_bytes(), patterns[PATH].all(), "curl")


@pytest.mark.parametrize(
    ("wish", "is_asked", "without"), [("off", False, 200), ("ask", True, 200), ("require", True, 403)]
)
def test_certificates_are_asked_for_as_configured(
    wish: str,
    is_asked: bool,
    without: int,
    serve: Callable[[Mapping[str, Any]], Forebay],
    data: Path,
    grid: Grid,
    host: Credential,
    ground: Ground,
) -> None:
    server = serve(
        {
            "export": [{"path": "/", "directory": str(data)}],
            "tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)},
            "http": {"client_certificates": wish},
        }
    )
    shown = subprocess.run(
        [program("openssl"), "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2", "-trace"],
        input=b"",
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (b"CertificateRequest" in shown.stdout) == is_asked
    assert ask(server, "GET", PATH, tls=context_of(grid)).status == without
    carl = context_of(grid, grid.issuer.user("Carl"))
    assert ask(server, "GET", PATH, tls=carl).status == 200


def test_tls_can_be_required(
    serve: Callable[[Mapping[str, Any]], Forebay], data: Path, grid: Grid, host: Credential, tls: ssl.SSLContext
) -> None:
    files = {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)}
    server = serve({"export": [{"path": "/", "directory": str(data)}], "tls": {**files, "policy": "login"}})
    assert ask(server, "GET", PATH).status == 403
    assert ask(server, "GET", PATH, tls=tls).status == 200


def test_without_rules_a_token_goes_to_the_origin(
    for_bearers: xrootd.Origin, issuer: TokenIssuer, grid: Grid, host: Credential, serve: Callable[..., Forebay]
) -> None:
    server = serve(
        {
            "tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)},
            "export": [{"path": "/", "origins": [for_bearers.url], "origin_check": True}],
            "credential": [{"hosts": ["*"], "method": "client"}],
        }
    )
    tls = context_of(grid)
    header = {"Authorization": f"Bearer {issuer.token()}"}
    for _ in ("cold", "warm"):
        assert ask(server, "GET", PATH, header, tls=tls).status == 200
        assert ask(server, "GET", PATH, tls=tls).status in (401, 403)


def test_gfal2_reads_with_a_token(
    server_of: Callable[..., Forebay],
    data: Path,
    grid: Grid,
    issuer: TokenIssuer,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    server = server_of({"directory": str(data)}, BY_SCOPE)
    env = {"BEARER_TOKEN": issuer.token(), "X509_USER_PROXY": "/nonexistent"}
    assert_same(gfal_copy(server, grid, ground, env), patterns[PATH].all(), "with a token")
    other = {**env, "BEARER_TOKEN": issuer.token(scope="storage.read:/elsewhere")}
    with pytest.raises(subprocess.CalledProcessError):
        gfal_copy(server, grid, ground, other)


def test_gfal2_reads_with_a_proxy(
    guarded: Callable[..., Forebay],
    grid: Grid,
    atlas: Organization,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    carl = grid.issuer.user("Carl")
    server = guarded(TO_PRODUCTION, methods=["tls"])
    production = atlas.proxy(carl, "/atlas/Role=production", environment=grid.environment())
    env = {"X509_USER_PROXY": str(production.in_one_file())}
    assert_same(gfal_copy(server, grid, ground, env), patterns[PATH].all(), "with a proxy")
    member = atlas.proxy(carl, "/atlas", environment=grid.environment())
    with pytest.raises(subprocess.CalledProcessError):
        gfal_copy(server, grid, ground, {"X509_USER_PROXY": str(member.in_one_file())})


def gfal_copy(server: Forebay, grid: Grid, ground: Ground, env: Mapping[str, str]) -> bytes:
    """The file as gfal2 copies it, with the checksums of both sides compared."""
    target = ground.directory("gfal") / "file"
    subprocess.run(
        [program("gfal-copy"), "-K", "ADLER32", f"davs://localhost:{server.port}{PATH}", f"file://{target}"],
        env={**os.environ, "GFAL_PYTHONBIN": "/usr/bin/python3", "X509_CERT_DIR": str(grid.directory), **env},
        check=True,
        capture_output=True,
        timeout=120,
    )
    return target.read_bytes()
