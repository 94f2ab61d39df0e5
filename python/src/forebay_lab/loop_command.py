"""The event loop in all set-ups: time per event, and overhead over a local file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from . import loop_summary
from . import options as shared
from .engine import ENGINES, supports
from .errors import LabError
from .measuring import KEY, LOOPBACK, measure
from .run import Row, Run
from .setups import SETUPS
from .statistics import balanced_order

EVENTS, EVENTS_IN_FILE = [1, 100, 1000, 50_000], 50_000
EVENTS_QUICK, EVENTS_IN_FILE_QUICK = [1, 30], 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    shared.add_place(parser)
    shared.add_programs(parser)
    shared.add_repetitions(parser)
    parser.add_argument("--engines", type=shared.names, default=list(ENGINES), help=f"some of {','.join(ENGINES)}")
    parser.add_argument("--setups", type=shared.names, default=list(SETUPS), help=f"some of {','.join(SETUPS)}")
    parser.add_argument(
        "--events", type=shared.numbers, help="numbers of events to loop over (default: 1,100,1000,50000)"
    )
    parser.add_argument("--events-in-file", type=shared.positive, help="size of the file (default: 50000)")
    parser.add_argument("--kind", choices=("ttree", "rntuple"), default="ttree", help="format of the file")


@dataclass(frozen=True)
class Settings:
    """The parameters of the experiment."""

    engines: list[str]
    setups: list[str]
    events: list[int]
    events_in_file: int
    kind: str
    xcache: str
    repetitions: int
    seed: int
    quick: bool

    def cells(self) -> Iterator[Row]:
        """One row each: set-ups side by side within a repetition, in an order that changes from one to the next."""
        for repetition in range(self.repetitions):
            for engine in self.engines:
                for events in self.events:
                    for setup in balanced_order(self.setups, repetition, self.seed):
                        yield {
                            "path": LOOPBACK,
                            "setup": setup,
                            "engine": engine,
                            "events": events,
                            "tree_cache": "default",
                            "repetition": repetition,
                        }


def run(options: argparse.Namespace) -> None:
    """Measures missing rows, checks, and draws."""
    place, programs, settings = shared.place(options), shared.programs(options), _settings(options)
    results = Run(place.run, "loop", KEY, asdict(settings), shared.deadline(options))
    measure(results, settings.cells(), place=place, programs=programs, kind=settings.kind, xcache=settings.xcache)
    loop_summary.write(results)


def _settings(options: argparse.Namespace) -> Settings:
    quick: bool = options.quick
    events = options.events or (EVENTS_QUICK if quick else EVENTS)
    in_file = options.events_in_file or max(EVENTS_IN_FILE_QUICK if quick else EVENTS_IN_FILE, *events)
    if max(events) > in_file:
        raise LabError(f"--events {max(events)}: the file has {in_file} events; --events-in-file makes a larger one")
    engines = shared.known("--engines", options.engines, ENGINES)
    return Settings(
        engines=[name for name in engines if supports(name, options.kind)],
        setups=shared.known("--setups", options.setups, SETUPS),
        events=events,
        events_in_file=in_file,
        kind=options.kind,
        xcache=options.xcache,
        repetitions=shared.repetitions(options),
        seed=options.seed,
        quick=quick,
    )
