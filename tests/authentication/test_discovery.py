"""Keys of token issuers are fetched from the issuers over HTTPS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import forebay
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.tokens import ServedIssuer, token_file
from harness.waiting import until

PATH = "/sizes/many-blocks.bin"
A_MINUTE = 150.0
"""Tokens make keys be fetched once a minute at most."""


@pytest.fixture
def issuer(ground: Ground, host: Credential) -> Iterator[ServedIssuer]:
    """An issuer that serves its keys."""
    with ServedIssuer(ground, host) as served:
        yield served


@pytest.fixture
def start(ground: Ground, data: Path, grid: Grid, host: Credential, issuer: ServedIssuer) -> Iterator[Any]:
    """Starts servers that ask for tokens of the issuer, whose keys they fetch."""
    started: list[Forebay] = []

    def start(**authentication: object) -> Forebay:
        configuration = {
            "export": [{"path": "/", "directory": str(data)}],
            "tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)},
            "authentication": {"methods": ["ztn"], **authentication},
            "issuer": [{"url": issuer.url, "ca": str(grid.directory)}],
            "grant": [{"path": "/", "rights": ["read"], "methods": ["token"], "scopes": "grant"}],
        }
        started.append(forebay.configured(ground, configuration))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def read(server: Forebay, ground: Ground, grid: Grid, token: str) -> bytes:
    environment = {**grid.environment(), "BEARER_TOKEN_FILE": str(token_file(ground, token))}
    return fetch("xrdcp", ground, f"roots://127.0.0.1:{server.port}/{PATH}", environment)


def test_tokens_are_believed_by_keys_that_were_fetched(
    start: Callable[..., Forebay], issuer: ServedIssuer, ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    server = start()
    server.process.wait_for_line("fetched the keys of a token issuer")
    assert_same(read(server, ground, grid, issuer.token()), patterns[PATH].all(), "at once")
    issuer.rotate()
    token = issuer.token()

    def is_read() -> bool:
        try:
            return read(server, ground, grid, token) == patterns[PATH].all()
        except ClientFailed:
            return False

    until(is_read, "the new key is fetched", within=A_MINUTE)


def test_a_restart_while_the_issuer_is_away_keeps_its_bearers(
    start: Callable[..., Forebay], issuer: ServedIssuer, ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    keys = ground.directory("keys")
    server = start(keys_dir=str(keys))
    server.process.wait_for_line("fetched the keys of a token issuer")
    assert_same(read(server, ground, grid, issuer.token()), patterns[PATH].all(), "with the issuer")
    until(lambda: list(keys.glob("*.keys")), "the keys are kept")
    server.stop()
    issuer.close()
    server = start(keys_dir=str(keys))
    assert_same(read(server, ground, grid, issuer.token()), patterns[PATH].all(), "without the issuer")
    with pytest.raises(ClientFailed, match="Auth failed"):
        read(start(), ground, grid, issuer.token())


def test_an_issuer_that_names_another_is_not_believed(
    start: Callable[..., Forebay], issuer: ServedIssuer, ground: Ground, grid: Grid
) -> None:
    issuer.documents["/.well-known/openid-configuration"]["issuer"] = "https://other.example"
    server = start()
    with pytest.raises(ClientFailed, match="Auth failed"):
        read(server, ground, grid, issuer.token())
    server.process.wait_for_line("is of `https://other.example`")
