"""Redirectors, nodes in front of one origin, and its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import cluster, xrootd
from harness.cluster import Cluster, Manager
from harness.content import Pattern
from harness.ground import Ground
from harness.xrootd import Origin, Release

NAMES = 40
SIZE = 200_000


@pytest.fixture(scope="module")
def names(data: Path) -> dict[str, Pattern]:
    """Files of the origin."""
    patterns = {f"/cluster/d{number % 5}/f{number}.bin": Pattern(SIZE, 900 + number) for number in range(NAMES)}
    for path, pattern in patterns.items():
        (data / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        pattern.write(data / path[1:])
    return patterns


@pytest.fixture(params=xrootd.releases(), ids=lambda release: release.name)
def release(request: pytest.FixtureRequest) -> Release:
    """The release of the redirectors."""
    chosen: Release = request.param
    return chosen


@pytest.fixture
def manager(ground: Ground, release: Release) -> Iterator[Manager]:
    """A redirector without nodes."""
    running = cluster.manager(ground, release=release)
    yield running
    running.stop()


@pytest.fixture
def cluster_of(ground: Ground, plain_origin: Origin, manager: Manager) -> Iterator[Callable[[int], Cluster]]:
    """Prepares a cluster of some nodes, without starting them."""
    made: list[Cluster] = []

    def make(nodes: int) -> Cluster:
        made.append(Cluster(ground, plain_origin, [manager], nodes))
        return made[-1]

    yield make
    for each in made:
        each.stop()
