"""Shared by the tests of TLS: one grid of certificates, and servers that use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.forebay import Forebay
from harness.pki import Credential, Grid


def tls_table(grid: Grid, host: Credential, **more: object) -> dict[str, Any]:
    """The table of a server's configuration that turns TLS on."""
    files = {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)}
    return {**files, **more}


@pytest.fixture
def export(
    serve: Callable[[Mapping[str, Any]], Forebay], data: Path, grid: Grid, host: Credential
) -> Callable[..., Forebay]:
    """Starts servers of the known files, with TLS as its arguments say."""

    def start(credential: Credential = host, **tls: object) -> Forebay:
        files = [{"path": "/", "directory": str(data)}]
        return serve({"export": files, "tls": tls_table(grid, credential, **tls)})

    return start
