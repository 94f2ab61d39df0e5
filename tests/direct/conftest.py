"""Fixtures: caches whose files other programs of this machine can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import xrootd
from harness.forebay import Forebay
from harness.ground import Ground
from harness.process import give_to_service

Serve = Callable[[Mapping[str, Any]], Forebay]


@pytest.fixture
def store(ground: Ground) -> Path:
    """A directory for a cache, into which clients can look."""
    directory = give_to_service(ground.directory("shared-store"))
    directory.chmod(0o755)
    return directory


@pytest.fixture
def cache(serve: Serve, plain_origin: xrootd.Origin, store: Path) -> Callable[..., Forebay]:
    """Starts caches of the stock origin whose files others can read, with direct access as given."""

    def start(
        *,
        direct: str = "complete",
        mode: str = "0644",
        origin: str | None = None,
        export: Mapping[str, object] | None = None,
        tables: Mapping[str, object] | None = None,
        **more: object,
    ) -> Forebay:
        return serve(
            {
                "export": [{"origins": [origin or plain_origin.url], "direct": direct, **(export or {})}],
                "store": {"path": str(store)},
                "direct": {"file_mode": mode, **more},
                **(tables or {}),
            }
        )

    return start
