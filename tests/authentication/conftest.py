"""Shared by the tests of authentication: a grid of certificates, an organization, and servers that require a login."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import xrootd
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.tokens import TokenIssuer
from harness.voms import Organization


@pytest.fixture(scope="session")
def atlas(ground: Ground, grid: Grid) -> Organization:
    """An organization that the servers know."""
    return Organization(ground, grid.issuer, "atlas")


@pytest.fixture(scope="session")
def issuer(ground: Ground) -> TokenIssuer:
    """Whose tokens the servers accept."""
    return TokenIssuer(ground)


@pytest.fixture
def for_bearers(
    ground: Ground, data: Path, issuer: TokenIssuer, grid: Grid, host: Credential
) -> Iterator[xrootd.Origin]:
    """A stock server that gives its files to bearers of the issuer's tokens only, over TLS."""
    origin = xrootd.for_bearers(ground, data, issuer, host, grid.directory)
    yield origin
    origin.stop()


@pytest.fixture
def guarded(
    serve: Callable[[Mapping[str, Any]], Forebay], data: Path, grid: Grid, host: Credential, atlas: Organization
) -> Callable[..., Forebay]:
    """Starts servers of the known files that ask for certificates, with grants as given."""

    def start(
        grants: list[dict[str, Any]],
        *,
        crl: str = "try",
        server: Mapping[str, Any] | None = None,
        **authentication: object,
    ) -> Forebay:
        tls = {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory), "crl": crl}
        asks = {"methods": ["gsi"], "voms_dir": str(atlas.vomsdir), **authentication}
        files = [{"path": "/", "directory": str(data)}]
        return serve({"server": server or {}, "export": files, "tls": tls, "authentication": asks, "grant": grants})

    return start
