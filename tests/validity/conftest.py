"""A real origin of one file that can be stopped and started again, and caches before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.content import Pattern
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground

PATH = "/data/file.bin"
CONTENT = Pattern(24 * BLOCK + 321, 11)
CHANGED = Pattern(CONTENT.size, 12)
MTIME = 1_600_000_000
# A stopped origin refuses connections at once, so patience is for a busy machine only.
PATIENCE = {"deadline": "60s", "attempts": 2}

CacheBefore = Callable[..., Forebay]


class Site:
    """An origin's directory, and the xrootd that serves it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._port = ground.free_port()
        self._server: xrootd.Origin | None = None
        self.data = ground.directory("data")
        self.put(CONTENT, mtime=MTIME)
        self.start()

    @property
    def address(self) -> str:
        """Host and port, also while it does not run."""
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """URL of the server without a path."""
        return f"root://{self.address}"

    @property
    def file(self) -> Path:
        """The file in the origin's directory."""
        return self.data / PATH[1:]

    def put(self, content: Pattern, *, mtime: int) -> None:
        """Gives the file another content and time of change."""
        self.file.parent.mkdir(exist_ok=True)
        new = content.write(self.file.with_suffix(".new"))
        os.utime(new, (mtime, mtime))
        new.rename(self.file)

    def start(self) -> None:
        """Starts the server, always at the same port."""
        self._server = xrootd.plain(self._ground, self.data, port=self._port)

    def stop(self) -> None:
        """Stops the server: connections to it are refused."""
        if self._server is not None:
            self._server.stop()
            self._server = None


@pytest.fixture
def site(ground: Ground) -> Iterator[Site]:
    """An origin with a file that has not changed for years."""
    origin = Site(ground)
    yield origin
    origin.stop()


@pytest.fixture
def cache_before(ground: Ground) -> Iterator[CacheBefore]:
    """Starts caches before origins, with settings of the export; they are stopped when the test ends."""
    started: list[Forebay] = []

    def start(site: Site, **settings: object) -> Forebay:
        export = {"path": "/", "origins": [site.url], **settings}
        decision = {"check_time_max": "60s", "negative_time": "1h"}
        configuration = {"export": [export], "origin": PATIENCE, "decision": decision}
        started.append(forebay.configured(ground, configuration))
        return started[-1]

    yield start
    for cache in started:
        cache.stop()
