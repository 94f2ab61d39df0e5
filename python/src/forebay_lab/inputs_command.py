"""Generates the input files, or shows that they are there."""

from __future__ import annotations

import argparse

from . import options as shared
from .inputs import catalogue

DEFAULT_EVENTS = [2_000, 20_000]
FULL_EVENTS = [50_000, 200_000, 500_000]
QUICK_EVENTS = [40]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    shared.add_data(parser)
    parser.add_argument("--kinds", type=shared.names, default=list(catalogue.KINDS), help="some of ttree,rntuple,nano")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--events", type=shared.numbers, default=DEFAULT_EVENTS, help="sizes in events (default: 2000,20000)"
    )
    sizes.add_argument(
        "--full", action="store_const", const=FULL_EVENTS, dest="events", help="50k, 200k and 500k events"
    )
    sizes.add_argument("--quick", action="store_const", const=QUICK_EVENTS, dest="events", help="a few events only")


def run(options: argparse.Namespace) -> None:
    """Generates missing files."""
    for kind in options.kinds:
        for events in options.events:
            catalogue.prepare(
                options.data_dir.resolve(), kind, events, options.seed, lambda text: print(text, flush=True)
            )
