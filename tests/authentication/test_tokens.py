"""Stock clients authenticate with tokens, at login or per request, and have the rights of scopes and grants."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.tokens import TokenIssuer, token_file

PATH = "/sizes/many-blocks.bin"
BY_SCOPE = [{"path": "/", "rights": ["read", "list"], "methods": ["token"], "scopes": "grant"}]


@pytest.fixture
def server(
    serve: Callable[[Mapping[str, Any]], Forebay], data: Path, grid: Grid, host: Credential, issuer: TokenIssuer
) -> Forebay:
    """A server of the known files that asks for tokens."""
    return serve(
        {
            "export": [{"path": "/", "directory": str(data)}],
            "tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)},
            "authentication": {"methods": ["ztn"]},
            "issuer": [{"url": issuer.url, "keys": str(issuer.keys), "audiences": ["https://cache.test"]}],
            "grant": BY_SCOPE,
        }
    )


def with_token(ground: Ground, grid: Grid, token: str) -> dict[str, str]:
    return {**grid.environment(), "BEARER_TOKEN_FILE": str(token_file(ground, token))}


def url(server: Forebay, path: str = PATH) -> str:
    return f"roots://127.0.0.1:{server.port}/{path}"


@pytest.mark.parametrize("client", ["xrdcp", "xrdfs-cat", "pyxrootd"])
@pytest.mark.parametrize("claims", [{}, {"scope": "storage.read:/sizes"}, {"aud": ["x", "https://cache.test"]}])
def test_token_with_the_scope_reads_every_byte(
    client: str,
    claims: dict[str, Any],
    server: Forebay,
    issuer: TokenIssuer,
    ground: Ground,
    grid: Grid,
    patterns: dict[str, Pattern],
) -> None:
    environment = with_token(ground, grid, issuer.token(**claims))
    assert_same(fetch(client, ground, url(server), environment), patterns[PATH].all(), client)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1_000_000_000},
        {"nbf": 4_000_000_000},
        {"exp": None},
        {"aud": "https://elsewhere.test"},
        {"iss": "https://stranger.test/"},
        {"scope": "storage.read:/elsewhere"},
        {"scope": "storage.read:/size"},
        {"scope": "storage.modify:/sizes"},
        {"scope": ""},
    ],
    ids=str,
)
def test_token_that_does_not_cover_the_file_reads_nothing(
    claims: dict[str, Any], server: Forebay, issuer: TokenIssuer, ground: Ground, grid: Grid
) -> None:
    with pytest.raises(ClientFailed, match=r"\[3010\]|Auth failed"):
        fetch("xrdcp", ground, url(server), with_token(ground, grid, issuer.token(**claims)))
    assert server.metrics().total("forebay_client_errors_total", side="authorization") > 0


def test_token_of_another_key_reads_nothing(server: Forebay, issuer: TokenIssuer, ground: Ground, grid: Grid) -> None:
    forged = TokenIssuer(ground, issuer.url).token()
    with pytest.raises(ClientFailed, match="Auth failed"):
        fetch("xrdcp", ground, url(server), with_token(ground, grid, forged))


def test_token_of_a_request_counts_instead_of_the_login(
    server: Forebay, issuer: TokenIssuer, ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    narrow = with_token(ground, grid, issuer.token(scope="storage.read:/elsewhere"))
    wide = issuer.token()
    got = fetch("xrdcp", ground, f"{url(server)}?authz=Bearer%20{wide}", narrow)
    assert_same(got, patterns[PATH].all(), "token of the request")
    with pytest.raises(ClientFailed, match=r"\[3010\]"):
        fetch("xrdcp", ground, f"{url(server)}?authz=Bearer%20{issuer.token(exp=int(time.time()) - 3600)}", narrow)


@pytest.mark.parametrize(
    ("methods", "bound", "is_read"),
    [(["unix"], None, False), (["unix", "ztn"], ["unix"], False), (["unix", "ztn"], ["unix", "ztn"], True)],
)
def test_token_of_a_request_counts_only_where_tokens_are_a_method(
    methods: list[str],
    bound: list[str] | None,
    is_read: bool,
    serve: Callable[[Mapping[str, Any]], Forebay],
    data: Path,
    ground: Ground,
    grid: Grid,
    host: Credential,
    issuer: TokenIssuer,
    patterns: dict[str, Pattern],
) -> None:
    server = serve(
        {
            "export": [{"path": "/", "directory": str(data)}],
            "tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)},
            "authentication": {"methods": methods},
            "binding": [{"host": "*", "methods": bound}] if bound else [],
            "issuer": [{"url": issuer.url, "keys": str(issuer.keys), "audiences": ["https://cache.test"]}],
            "grant": BY_SCOPE,
        }
    )
    source = f"{url(server)}?authz=Bearer%20{issuer.token()}"
    if is_read:
        assert_same(fetch("xrdcp", ground, source, grid.environment()), patterns[PATH].all(), "token of the request")
    else:
        with pytest.raises(ClientFailed, match=r"\[3010\]"):
            fetch("xrdcp", ground, source, grid.environment())


def test_tokens_are_not_asked_for_in_clear(server: Forebay, issuer: TokenIssuer, ground: Ground, grid: Grid) -> None:
    environment = {**with_token(ground, grid, issuer.token()), "X509_CERT_DIR": "/nonexistent"}
    with pytest.raises(ClientFailed, match="Login failed"):
        fetch("xrdcp", ground, url(server).replace("roots:", "root:"), environment)


def test_forged_tokens_of_requests_do_not_lock_out_other_clients(
    server: Forebay, issuer: TokenIssuer, ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    forged = TokenIssuer(ground, issuer.url).token()
    environment = with_token(ground, grid, issuer.token(scope="storage.read:/elsewhere"))
    for _ in range(3):
        with pytest.raises(ClientFailed, match=r"\[3010\]"):
            fetch("xrdcp", ground, f"{url(server)}?authz=Bearer%20{forged}", environment)
    wide = with_token(ground, grid, issuer.token())
    assert_same(fetch("xrdcp", ground, url(server), wide), patterns[PATH].all(), "another client")
