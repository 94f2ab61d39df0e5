"""Fixtures: forwarding caches that stop with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness import forebay
from harness.forebay import Forebay
from harness.ground import Ground


@pytest.fixture
def start_cache(ground: Ground) -> Iterator[Callable[..., Forebay]]:
    """Starts forwarding caches, by default for any port of this machine."""
    started: list[Forebay] = []

    def start(allowed: str = "127.0.0.1:*") -> Forebay:
        started.append(forebay.forwarding_cache(ground, allowed))
        return started[-1]

    yield start
    for cache in started:
        cache.stop()


@pytest.fixture
def cache(start_cache: Callable[..., Forebay]) -> Forebay:
    """One such cache."""
    return start_cache()
