"""CPU efficiency of the event loop against the round-trip time to the origin."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from . import options as shared
from . import rtt_summary
from .measuring import KEY, measure
from .mix import read_mix
from .run import Row, Run
from .setups import SETUPS
from .statistics import balanced_order

ROUND_TRIPS_MS, ROUND_TRIPS_MS_QUICK = [0.2, 3.5, 9.0, 20.0, 50.0, 100.0, 150.0, 300.0], [0.2, 20.0]
DEFAULT_SETUPS = ["direct", "xcache-cold", "forebay-cold", "xcache-warm", "forebay-warm"]
TREE_CACHES = ("on", "off")
EVENTS, EVENTS_QUICK = 500, 20
PRESET = "FNAL"
"""The path whose round trip is varied: 1 Gbit/s, a buffer of its capacity."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    shared.add_place(parser)
    shared.add_programs(parser)
    shared.add_repetitions(parser)
    parser.add_argument(
        "--rtts", type=shared.milliseconds, help="round trips in ms (default: 0.2,3.5,9,20,50,100,150,300)"
    )
    parser.add_argument("--setups", type=shared.names, default=DEFAULT_SETUPS, help=f"some of {','.join(SETUPS)}")
    parser.add_argument(
        "--tree-cache", type=shared.names, default=list(TREE_CACHES), help="TTreeCache: on,off or one of them"
    )
    parser.add_argument("--events", type=shared.positive, help=f"events to loop over (default: {EVENTS})")
    parser.add_argument("--mix", type=Path, help="JSON list of sites to compute savings for (see python/README.md)")


@dataclass(frozen=True)
class Settings:
    """The parameters of the experiment."""

    rtts_ms: list[float]
    setups: list[str]
    tree_caches: list[str]
    events: int
    events_in_file: int
    xcache: str
    repetitions: int
    seed: int
    quick: bool

    def cells(self) -> Iterator[Row]:
        """One row each: set-ups with and without TTreeCache side by side, round trip by round trip."""
        both = list(product(self.setups, self.tree_caches))
        for rtt_ms in self.rtts_ms:
            for repetition in range(self.repetitions):
                for setup, tree_cache in balanced_order(both, repetition, self.seed):
                    yield {
                        "path": f"{rtt_ms:g} ms",
                        "setup": setup,
                        "engine": "pyroot",
                        "events": self.events,
                        "tree_cache": tree_cache,
                        "repetition": repetition,
                    }


def run(options: argparse.Namespace) -> None:
    """Measures missing rows, checks, fits, and draws."""
    mix = read_mix(options.mix) if options.mix else []
    place, programs, settings = shared.place(options), shared.programs(options), _settings(options)
    results = Run(place.run, "rtt", KEY, asdict(settings), shared.deadline(options))
    paths = {f"{rtt_ms:g} ms": f"{PRESET},rtt_ms={rtt_ms:g}" for rtt_ms in settings.rtts_ms}
    measure(
        results, settings.cells(), place=place, programs=programs, kind="ttree", xcache=settings.xcache, paths=paths
    )
    if options.mix:
        (results.directory / rtt_summary.MIX).write_text(options.mix.read_text())
    rtt_summary.write(results, mix)


def _settings(options: argparse.Namespace) -> Settings:
    quick: bool = options.quick
    events = options.events or (EVENTS_QUICK if quick else EVENTS)
    return Settings(
        rtts_ms=options.rtts or (ROUND_TRIPS_MS_QUICK if quick else ROUND_TRIPS_MS),
        setups=shared.known("--setups", options.setups, SETUPS),
        tree_caches=shared.known("--tree-cache", options.tree_cache, TREE_CACHES),
        events=events,
        events_in_file=events,
        xcache=options.xcache,
        repetitions=shared.repetitions(options),
        seed=options.seed,
        quick=quick,
    )
