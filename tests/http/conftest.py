"""Caches that speak HTTP, and the raw requests of their clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.content import Pattern
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground

FILE = "/data/file.bin"
FILES = {
    FILE: Pattern(40 * BLOCK + 1234, 71),
    "/data/empty.bin": Pattern(0, 72),
    "/data/small.bin": Pattern(5000, 73),
    "/data/a b%20+é.bin": Pattern(70_000, 74),
    "/data/sub/inner.bin": Pattern(10, 75),
}


@pytest.fixture(scope="module")
def http_data(ground: Ground) -> Path:
    """The directory of the origin."""
    directory = ground.directory("http-data")
    for path, content in FILES.items():
        content.write(directory / path[1:])
    return directory


@pytest.fixture(scope="module")
def http_origin(ground: Ground, http_data: Path) -> xrootd.Origin:
    """The distribution's xrootd."""
    return xrootd.plain(ground, http_data)


@pytest.fixture(scope="module")
def exported(ground: Ground, http_data: Path) -> Forebay:
    """The same files without a cache, for tests of the protocol."""
    return forebay.export(ground, http_data)


@pytest.fixture
def cache(cache_of: Callable[..., Forebay], http_origin: xrootd.Origin) -> Forebay:
    """An empty cache."""
    return cache_of(http_origin.url)
