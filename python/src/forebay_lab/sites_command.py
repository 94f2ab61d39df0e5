"""The event loop over emulated paths to sites of published set-ups."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product

from . import options as shared
from . import sites_summary
from .engine import ENGINES
from .errors import LabError
from .measuring import KEY, measure
from .run import Row, Run
from .setups import SETUPS
from .statistics import balanced_order

SITES, SITES_QUICK = ["local", "KIT", "LRZ", "DESY", "BNL", "TRIUMF"], ["KIT"]
DEFAULT_SETUPS = ["local", "direct", "forebay-cold", "forebay-warm", "xcache-cold", "xcache-warm"]
EVENTS, EVENTS_QUICK = [1, 100, 1000, 50_000], [20]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    shared.add_place(parser)
    shared.add_programs(parser)
    shared.add_repetitions(parser)
    parser.add_argument(
        "--sites", type=shared.names, help="presets of forebay-wan (default: local,KIT,LRZ,DESY,BNL,TRIUMF)"
    )
    parser.add_argument("--engines", type=shared.names, default=["pyroot"], help=f"some of {','.join(ENGINES)}")
    parser.add_argument("--setups", type=shared.names, default=DEFAULT_SETUPS, help=f"some of {','.join(SETUPS)}")
    parser.add_argument(
        "--events", type=shared.numbers, help="numbers of events to loop over (default: 1,100,1000,50000)"
    )
    parser.add_argument("--events-in-file", type=shared.positive, help="size of the file (default: the largest number)")
    parser.add_argument(
        "--longest-sites",
        type=shared.names,
        help="sites of the jobs over most events, which take minutes (default: all)",
    )
    parser.add_argument("--longest-setups", type=shared.names, help="set-ups of these jobs (default: all)")


@dataclass(frozen=True)
class Settings:
    """The parameters of the experiment."""

    sites: list[str]
    engines: list[str]
    setups: list[str]
    events: list[int]
    events_in_file: int
    longest_sites: list[str]
    longest_setups: list[str]
    xcache: str
    repetitions: int
    seed: int
    quick: bool

    def cells(self) -> Iterator[Row]:
        """One row each: set-ups side by side, site by site."""
        for repetition in range(self.repetitions):
            for site in balanced_order(self.sites, repetition, self.seed):
                for engine, events in product(self.engines, self.events):
                    is_longest = events == max(self.events)
                    if is_longest and site not in self.longest_sites:
                        continue
                    for setup in balanced_order(self.setups, repetition, self.seed):
                        if is_longest and setup not in self.longest_setups:
                            continue
                        yield {
                            "path": site,
                            "setup": setup,
                            "engine": engine,
                            "events": events,
                            "tree_cache": "default",
                            "repetition": repetition,
                        }


def run(options: argparse.Namespace) -> None:
    """Measures missing rows, checks, and draws."""
    place, programs, settings = shared.place(options), shared.programs(options), _settings(options)
    results = Run(place.run, "sites", KEY, asdict(settings), shared.deadline(options))
    paths = {site: site for site in settings.sites}
    measure(
        results, settings.cells(), place=place, programs=programs, kind="ttree", xcache=settings.xcache, paths=paths
    )
    sites_summary.write(results)


def _settings(options: argparse.Namespace) -> Settings:
    quick: bool = options.quick
    events = options.events or (EVENTS_QUICK if quick else EVENTS)
    in_file = options.events_in_file or max(events)
    if max(events) > in_file:
        raise LabError(f"--events {max(events)}: the file has {in_file} events; --events-in-file makes a larger one")
    sites = options.sites or (SITES_QUICK if quick else SITES)
    setups = shared.known("--setups", options.setups, SETUPS)
    return Settings(
        sites=sites,
        engines=shared.known("--engines", options.engines, ENGINES),
        setups=setups,
        events=events,
        events_in_file=in_file,
        longest_sites=shared.known("--longest-sites", options.longest_sites or sites, sites),
        longest_setups=shared.known("--longest-setups", options.longest_setups or setups, setups),
        xcache=options.xcache,
        repetitions=shared.repetitions(options),
        seed=options.seed,
        quick=quick,
    )
