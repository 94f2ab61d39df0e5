"""Fixtures: a place to work, a directory of known files, the origins of the matrix, the words of failed servers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import forebay, process, xrootd
from harness.content import Pattern
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.root_files import Sums, make_tree

SIZES = {
    "empty": 0,
    "one-byte": 1,
    "block-less-one": BLOCK - 1,
    "block": BLOCK,
    "block-and-one": BLOCK + 1,
    "many-blocks": 40 * BLOCK + 1234,
}


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    """The worker's temporary area."""
    area = Ground()
    yield area
    for running in list(process.running):
        running.stop()
    area.remove()


@pytest.fixture(scope="session")
def patterns() -> dict[str, Pattern]:
    """The known files, by path."""
    return {f"/sizes/{name}.bin": Pattern(size, seed) for seed, (name, size) in enumerate(SIZES.items())}


@pytest.fixture(scope="session")
def tree_path() -> str:
    """Path of the ROOT file."""
    return "/tree/events.root"


@pytest.fixture(scope="session")
def data(ground: Ground, patterns: dict[str, Pattern]) -> Path:
    """The directory that every origin serves."""
    directory = ground.directory("data")
    for path, pattern in patterns.items():
        pattern.write(directory / path[1:])
    (directory / "empty-folder").mkdir()
    return directory


@pytest.fixture(scope="session")
def tree_sums(data: Path, tree_path: str) -> Sums:
    """Makes the ROOT file and knows its sums."""
    target = data / tree_path[1:]
    target.parent.mkdir(exist_ok=True)
    return make_tree(target)


@pytest.fixture(scope="session")
def plain_origin(ground: Ground, data: Path) -> xrootd.Origin:
    """The distribution's xrootd."""
    return xrootd.plain(ground, data)


@pytest.fixture(scope="session")
def cluster_origin(ground: Ground, data: Path) -> xrootd.Origin:
    """The distribution's xrootd behind its redirector."""
    return xrootd.cluster(ground, data)


@pytest.fixture(scope="session")
def forebay_origin(ground: Ground, data: Path) -> Forebay:
    """Forebay's own export of a directory."""
    return forebay.export(ground, data)


@pytest.fixture(params=["xrootd", "xrootd-cluster", "forebay"])
def any_origin(request: pytest.FixtureRequest) -> xrootd.Origin | Forebay:
    """Each origin of the matrix in turn."""
    names = {"xrootd": "plain_origin", "xrootd-cluster": "cluster_origin", "forebay": "forebay_origin"}
    origin: xrootd.Origin | Forebay = request.getfixturevalue(names[request.param])
    return origin


@pytest.fixture
def cache_of(ground: Ground) -> Iterator[Callable[..., Forebay]]:
    """Starts caches in front of an origin; they are stopped, and their stores removed, when the test ends."""
    started: list[Forebay] = []
    stores: list[Path] = []

    def start(origin_url: str, **options: object) -> Forebay:
        if options.get("store") is None:
            stores.append(ground.directory("store"))
            options["store"] = stores[-1]
        started.append(forebay.cache(ground, origin_url, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for cache in started:
        cache.stop()
    for store in stores:
        shutil.rmtree(store)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the last output of every running server to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        for server in process.running:
            report.sections.append((f"{server.name} (pid {server.pid})", server.tail()))


@pytest.fixture(scope="session")
def grid(ground: Ground) -> Grid:
    """The certificates of the run."""
    return Grid(ground)


@pytest.fixture(scope="session")
def host(grid: Grid) -> Credential:
    """The credential of this host."""
    return grid.host()


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
