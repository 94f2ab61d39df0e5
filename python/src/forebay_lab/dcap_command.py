"""A job over dCap: at a distant file server, and through a cache, with and without TTreeCache and read-ahead."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from . import dcap_summary
from . import options as shared
from .dcap_summary import SETUPS
from .errors import LabError
from .inputs import catalogue
from .inputs.catalogue import Input
from .measuring import path_named
from .memory import need_room
from .patterns import experiment
from .patterns.dcap_replay import replay
from .patterns.schedule import thinking_s
from .patterns.strategies import as_recorded, joined_reads
from .patterns.trace import Trace
from .run import Row, Run, record_environment
from .servers import Server, Servers, settle
from .statistics import balanced_order
from .trace_command import BRANCHES, FILE_EVENTS, QUICK_EVENTS

EXPERIMENT = "dcap"
KEY = ("path", "setup", "way", "repetition")
PATH = "FZU-Pilsen"


@dataclass(frozen=True)
class Way:
    """A way of reading."""

    name: str
    tree_cache: bool
    change: Callable[[Trace], Trace] = as_recorded
    read_ahead: bool = False


WAYS = (
    Way("off", False),
    Way("off, read-ahead", False, read_ahead=True),
    Way("on", True, joined_reads),
    Way("on, read-ahead", True, joined_reads, read_ahead=True),
    Way("on, vectors", True),
)
"""TTreeCache off or on: with reads of up to 256 kB, as ROOT makes of a vector, or with `dc_readv2`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    shared.add_place(parser)
    shared.add_programs(parser)
    shared.add_repetitions(parser)


def run(options: argparse.Namespace) -> None:
    """Measures missing rows, checks that all have read the same, and writes the table."""
    place, programs, settings = shared.place(options), shared.programs(options), _settings(options)
    results = Run(place.run, EXPERIMENT, KEY, settings.parameters(), shared.deadline(options))
    data = catalogue.prepare(place.data, settings.kind, settings.events_in_file, settings.seed, results.progress)
    record_environment(place.run, programs)
    missing = [cell for cell in _cells(settings) if not results.has(**cell)]
    if missing:
        traces = experiment.recorded_jobs(settings, programs, place, data, results)
        with path_named(programs, PATH, {PATH: PATH}) as path, place.work() as work:
            with _Scene(Servers(programs, work, path), data) as scene:
                for done, cell in enumerate(missing, start=1):
                    results.deadline.check()
                    row = scene.measure(str(cell["setup"]), _way(str(cell["way"])), traces)
                    results.add({**row, **cell})
                    what = f"{cell['setup']}, TTreeCache {cell['way']}"
                    results.progress(f"{done}/{len(missing)} {what}: {row['wall_s']:.3f} s")
    _check(results.rows)
    dcap_summary.write(results)


def _settings(options: argparse.Namespace) -> experiment.Settings:
    quick: bool = options.quick
    return experiment.Settings(
        paths=[PATH],
        setups=list(SETUPS),
        branches=BRANCHES,
        events=-1,
        kind="nano",
        events_in_file=QUICK_EVENTS if quick else FILE_EVENTS,
        xcache=options.xcache,
        repetitions=shared.repetitions(options),
        seed=options.seed,
        quick=quick,
    )


def _cells(settings: experiment.Settings) -> Iterator[Row]:
    """One row each. A local file has no read-ahead of dCap."""
    for repetition in range(settings.repetitions):
        for setup in balanced_order(settings.setups, repetition, settings.seed):
            for way in balanced_order([way.name for way in WAYS], repetition, settings.seed):
                if setup != "local" or not _way(way).read_ahead:
                    yield {"path": PATH, "setup": setup, "way": way, "repetition": repetition}


def _way(name: str) -> Way:
    return next(way for way in WAYS if way.name == name)


class _Scene:
    """The servers, and the file at each of them. Use as a context manager."""

    def __init__(self, servers: Servers, data: Input) -> None:
        self.servers = servers
        self.data = data
        self._stack = ExitStack()

    def __enter__(self) -> _Scene:
        directory = self.data.path.parent
        self.origin = self._stack.enter_context(self.servers.origin(directory))
        self.remote = self._stack.enter_context(self.servers.dcap_server(directory))
        need_room(self.servers.warm_directory, self.data.size)
        self.warm = self._stack.enter_context(self.servers.forebay(self.origin, warm=True, dcap=True))
        self.servers.fill(self.warm, self.data.origin_path)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def measure(self, setup: str, way: Way, traces: dict[bool, Trace]) -> Row:
        """Replays a job in a set-up."""
        trace = way.change(traces[way.tree_cache])
        with self._server(setup) as server:
            source = server.dcap_url(self.data.origin_path) if server else str(self.data.path)
            # It counts the bytes that it reads to send them.
            distant = self.remote if setup == "remote" else self.origin
            settle(distant)
            before = distant.usage()
            replayed = replay(trace, source, read_ahead=way.read_ahead, enter=self.servers.path.near.enter)
            settle(distant)
            sent = distant.usage().bytes_since(before)
        return {
            **self.servers.path.facts,
            **self.data.facts(),
            "tree_cache": way.tree_cache,
            "read_ahead": way.read_ahead,
            "events": traces[way.tree_cache].facts.get("events", 0),
            "think_s": thinking_s(trace),
            "wall_s": replayed.wall_s,
            "calls": replayed.calls,
            "bytes": replayed.bytes,
            "checksum": replayed.checksum,
            "distant_bytes": sent,
        }

    @contextmanager
    def _server(self, setup: str) -> Iterator[Server | None]:
        match setup:
            case "local":
                yield None
            case "remote":
                yield self.remote
            case "cache-warm":
                yield self.warm
            case _:
                with self.servers.forebay(self.origin, dcap=True) as server:
                    yield server


def _check(rows: list[Row]) -> None:
    """Fails unless the same way of reading has read the same bytes everywhere."""
    found: dict[str, dict[object, str]] = {}
    for row in rows:
        # Read-ahead is the library's: the job makes the same reads.
        reads = str(row["way"]).removesuffix(", read-ahead")
        found.setdefault(reads, {})[row["checksum"]] = str(row["setup"])
    for reads, answers in found.items():
        if len(answers) > 1:
            raise LabError(
                f"TTreeCache {reads}: different bytes were read in the set-ups {', '.join(answers.values())}"
            )
