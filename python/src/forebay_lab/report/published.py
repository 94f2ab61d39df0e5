"""Published figures that reports show next to measured ones. All are from other hardware.

Figures that could not be found are listed in `NOT_FOUND`, and reports say so.
"""

from __future__ import annotations

from dataclasses import dataclass

EVENT_LOOP = "Computing and Software for Big Science (2023), doi:10.1007/s41781-023-00100-1"
EVENT_LOOP_SCRIPTS = "its scripts, github.com/ALU-Schumacher/caching_benchmarks (README)"
SECOND_HAND = "a published set-up, measured in 2021; taken over second-hand, its paper was not at hand"
SET_UP = "a published set-up; taken over second-hand, its paper was not at hand"


@dataclass(frozen=True)
class Figure:
    """One published figure."""

    experiment: str
    what: str
    value: str
    source: str


FIGURES = (
    Figure("inputs", "small file: 50 000 events", "1.3 GB", EVENT_LOOP_SCRIPTS),
    Figure("inputs", "medium file: 200 000 events", "5.2 GB", EVENT_LOOP_SCRIPTS),
    Figure("inputs", "large file: 500 000 events", "13 GB", EVENT_LOOP_SCRIPTS),
    Figure("inputs", "one event", "about 26 kB", "the file sizes above"),
    Figure("sites", "rate from KIT, 2021", "802 Mbit/s", SECOND_HAND),
    Figure("sites", "rate from LRZ, 2021", "656 Mbit/s", SECOND_HAND),
    Figure("sites", "rate from DESY, 2021", "262 Mbit/s", SECOND_HAND),
    Figure("sites", "rate from BNL, 2021", "137 Mbit/s", SECOND_HAND),
    Figure("sites", "rate from TRIUMF, 2021", "110 Mbit/s", SECOND_HAND),
    Figure("sites", "rate from the local storage, 2021", "830 Mbit/s", SECOND_HAND),
    Figure("rtt", "round trip PIC to CIEMAT", "9 ms", SET_UP),
    Figure("rtt", "round trip to FNAL", "150 ms", SET_UP),
    Figure("rtt", "round trip to KISTI", "300 ms", SET_UP),
    Figure("rtt", "round trip FZU to Pilsen, against within FZU", "3.5 ms against 0.2 ms", SET_UP),
    Figure("stress", "jobs at once, CHEP 2016", "50 to 750", SET_UP),
    Figure("patterns", "read-ahead of dCap's client", "128 KiB", SET_UP),
)

CLAIMS = {
    "cold": "no overhead on a cold read",
    "warm": "warm = local",
    "far": "far sites gain at first read",
}
"""Conclusions of the studies, in short; every report judges them by its own rows."""

NOT_FOUND = {
    "loop": f"the overheads of the table of event loops ({EVENT_LOOP}): the paper's text was not at hand in full",
    "sites": "round trips to the sites of that study",
    "rtt": "values of CPU efficiency at these round trips",
    "stress": "rates and traffic of the stress test of CHEP 2016",
    "patterns": "events per second, bytes and CPU efficiency of the published comparison of client-side strategies",
}


def figures_of(experiments: set[str]) -> list[Figure]:
    """The figures that are about some experiments; the input files belong to event loops."""
    wanted = experiments | ({"inputs"} if experiments & {"loop", "sites"} else set())
    return [figure for figure in FIGURES if figure.experiment in wanted]
