"""A scripted origin with one file, and a cache before it that loses patience within a second or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness import forebay
from harness.content import Pattern
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.scripted import ScriptedOrigin

PATH = "/data/file.bin"
CONTENT = Pattern(24 * BLOCK + 321, 5)
PATIENCE = {
    "connect_timeout": "2s",
    "first_byte_timeout": "2s",
    "stall_timeout": "2s",
    "deadline": "30s",
    "attempts": 3,
    "read_attempts": 3,
}

CacheBefore = Callable[..., Forebay]


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    """An origin without faults, until rules are added."""
    with ScriptedOrigin({PATH: CONTENT}) as server:
        yield server


@pytest.fixture
def cache_before(ground: Ground) -> Iterator[CacheBefore]:
    """Starts impatient caches before origins; they are stopped when the test ends."""
    started: list[Forebay] = []

    def start(*origin_urls: str, **settings: object) -> Forebay:
        export = {"path": "/", "origins": list(origin_urls)}
        started.append(forebay.configured(ground, {"export": [export], "origin": {**PATIENCE, **settings}}))
        return started[-1]

    yield start
    for cache in started:
        cache.stop()


@pytest.fixture
def cache(cache_before: CacheBefore, origin: ScriptedOrigin) -> Forebay:
    """An impatient cache before the scripted origin."""
    return cache_before(origin.url)
