"""What the tests of encrypted connections share: one grid of certificates, and servers that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import forebay
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid


@pytest.fixture(scope="session")
def grid(ground: Ground) -> Grid:
    """The certificates of the run."""
    return Grid(ground)


@pytest.fixture(scope="session")
def host(grid: Grid) -> Credential:
    """The credential of this host."""
    return grid.host()


def tls_table(grid: Grid, host: Credential, **more: object) -> dict[str, Any]:
    """The table of a server's configuration that turns TLS on."""
    files = {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)}
    return {**files, **more}


@pytest.fixture
def serve(ground: Ground) -> Iterator[Callable[[Mapping[str, Any]], Forebay]]:
    """Starts servers from configurations; they are stopped when the test ends."""
    started: list[Forebay] = []

    def start(configuration: Mapping[str, Any]) -> Forebay:
        started.append(forebay.configured(ground, configuration))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def export(
    serve: Callable[[Mapping[str, Any]], Forebay], data: Path, grid: Grid, host: Credential
) -> Callable[..., Forebay]:
    """Starts servers of the known files, with TLS as its arguments say."""

    def start(credential: Credential = host, **tls: object) -> Forebay:
        files = [{"path": "/", "directory": str(data)}]
        return serve({"export": files, "tls": tls_table(grid, credential, **tls)})

    return start
