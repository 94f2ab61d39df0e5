"""The compared set-ups: the source of a job's file, and the state of the cache."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from . import engine
from .engines.job import Job
from .errors import LabError
from .inputs.catalogue import Input
from .memory import AFTER, BEFORE, WARM, file_system, need_room, refaults
from .servers import SERVED_SHARE_MAX, Server, Servers, settle

CACHES = ("forebay", "xcache")
SETUPS = ("local", "direct", *(f"{cache}-{state}" for cache in CACHES for state in ("cold", "warm", "file")))
"""`local` reads the file itself, `direct` the origin; `file`: the cache sends the client to its complete file."""

STRAY_BYTES = 200_000
"""Bytes that servers read for themselves: records, configuration."""


@dataclass(frozen=True)
class Target:
    """The source of a job's file, and its server; none for a local file."""

    url: str
    server: Server | None


class Scene:
    """One input over one path, with the servers of all set-ups. Use as a context manager.

    An origin runs all the time, and caches that hold the file from when they are first wanted; each cold set-up has a
    new cache with an empty store. The local file and the stores of warm caches are in memory, cold stores and the
    origin's file on disk.
    """

    def __init__(self, servers: Servers, data: Input) -> None:
        self.servers = servers
        self.data = data
        self._stack = ExitStack()
        self._filled: dict[str, Server] = {}

    def __enter__(self) -> Scene:
        self.origin = self._stack.enter_context(self.servers.origin(self.data.path.parent))
        need_room(self.servers.warm_directory, self.data.size)
        self.local = Path(shutil.copy(self.data.path, self.servers.warm_directory))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @contextmanager
    def target(self, setup: str) -> Iterator[Target]:
        """Makes a set-up ready."""
        path = self.data.origin_path
        if setup == "local":
            yield Target(str(self.local), None)
        elif setup == "direct":
            yield Target(self.origin.url(path), self.origin)
        elif setup.endswith("-cold"):
            with self._cache(setup.removesuffix("-cold")) as server:
                yield Target(server.url(path), server)
        else:
            server = self._filled.get(setup) or self._fill(setup)
            yield Target(server.url(path), server)

    def measure(self, setup: str, engine_name: str, job: Job) -> dict[str, object]:
        """Runs a job in a set-up, and returns its cost at all servers. `job.url` is filled in here."""
        with self.target(setup) as target:
            watched = [self.origin, *([target.server] if target.server else [])]
            settle(*watched)
            before = [server.usage() for server in watched]
            whole = replace(job, url=target.url, warm_up=str(self.local))
            lost = refaults()
            result = engine.run(self.servers.programs, engine_name, whole, enter=self.servers.path.near.enter)
            lost_after = refaults()
            settle(*watched)
            after = [server.usage() for server in watched]
        used = [now.cpu_since(then) for now, then in zip(after, before, strict=True)]
        read = [now.bytes_since(then) for now, then in zip(after, before, strict=True)]
        self._check(setup, result.read_bytes, origin_bytes=read[0], server_bytes=read[-1])
        return {
            "setup": setup,
            "engine": engine_name,
            "events": job.events,
            **self.servers.path.facts,
            **self.data.facts(),
            "xcache": self.servers.xcache_settings,
            "tree_cache": job.tree_cache,
            "warm_store": file_system(self.servers.warm_directory),
            BEFORE: lost,
            AFTER: lost_after,
            "wall_s": result.wall_s,
            "open_s": result.open_s,
            "cpu_s": result.cpu_s,
            "server_cpu_s": used[-1] if target.server else 0.0,
            "origin_cpu_s": used[0],
            "origin_bytes": read[0],
            "read_bytes": result.read_bytes,
            "particles": result.particles,
            "histograms": result.histograms,
        }

    def _check(self, setup: str, wanted: int, *, origin_bytes: int, server_bytes: int) -> None:
        """Refuses a row whose counters contradict its set-up."""
        allowed = STRAY_BYTES + SERVED_SHARE_MAX * wanted
        if setup.endswith(WARM) and origin_bytes > allowed:
            raise LabError(f"{setup}: {origin_bytes} bytes left the origin although the file was near already")
        if setup.endswith("-file") and server_bytes > allowed:
            raise LabError(f"{setup}: the cache served {server_bytes} bytes instead of leaving the file to the client")

    def _fill(self, setup: str) -> Server:
        cache, state = setup.split("-")
        direct = state == "file"
        need_room(self.servers.warm_directory, self.data.size)
        server = self._stack.enter_context(self._cache(cache, direct=direct, warm=True))
        if direct:
            self.servers.fill_direct(server, self.data.origin_path, self.data.size)
        else:
            self.servers.fill(server, self.data.origin_path)
        self._filled[setup] = server
        return server

    @contextmanager
    def _cache(self, kind: str, *, direct: bool = False, warm: bool = False) -> Iterator[Server]:
        start = self.servers.forebay if kind == "forebay" else self.servers.xcache
        with start(self.origin, direct=direct, warm=warm) as server:
            yield server


def same_histograms(rows: list[dict[str, object]]) -> None:
    """Fails unless all set-ups and engines have found the same for the same events of the same file."""
    found: dict[tuple[object, ...], dict[object, str]] = {}
    for row in rows:
        question = (row["events"], row["events_in_file"], row["seed"])
        found.setdefault(question, {})[row["histograms"]] = f"{row['engine']} in set-up {row['setup']}"
    for (events, *_), answers in found.items():
        if len(answers) > 1:
            raise LabError(
                f"histograms of {events} events differ: {'; '.join(f'{who}: {what}' for what, who in answers.items())}"
            )
