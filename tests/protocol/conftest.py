"""A cache with one warm and one cold file, and a raw connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.content import Pattern
from harness.forebay import Forebay
from harness.ground import Ground
from harness.raw_client import RawClient

FILE = "/sizes/many-blocks.bin"


@pytest.fixture(scope="module")
def server(ground: Ground, plain_origin: xrootd.Origin) -> Iterator[Forebay]:
    """One cache for the tests of a module: they change nothing."""
    with forebay.cache(ground, plain_origin.url) as cache:
        yield cache


@pytest.fixture
def client(server: Forebay) -> Iterator[RawClient]:
    """A logged-in connection."""
    with server.client() as connection:
        yield connection


@pytest.fixture
def file(patterns: dict[str, Pattern]) -> Pattern:
    """The content of FILE."""
    return patterns[FILE]


@pytest.fixture
def handle(client: RawClient) -> bytes:
    """FILE, open."""
    return client.open(FILE)


@pytest.fixture(scope="session")
def listed_names(data: Path) -> set[str]:
    """The listing of /sizes."""
    return {path.name for path in (data / "sizes").iterdir()}
