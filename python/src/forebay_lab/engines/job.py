"""Input and output of an event loop. Needs Python only: ROOT's interpreter has no packages."""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

TREE = "events"
PREFIX = "lab-result "
TOP, OUTGOING = 6, -22
"""A top quark, and the status of particles from the hard process."""

PT_BINS, PT_MAX = 128, 128.0
MASS_BINS, MASS_MAX = 128, 2048.0
"""Widths of bins are powers of two, so that all engines put a value at an edge into the same bin."""


@dataclass(frozen=True)
class Job:
    """One event loop."""

    url: str
    events: int
    output: str
    kind: str = "ttree"
    tree_cache: str = "default"
    """TTreeCache: `default`, `on` (30 MB, all branches) or `off`. Only PyROOT obeys."""
    warm_up: str = ""
    """A local file whose first event is read beforehand, so that loading and compiling are not measured."""


@dataclass(frozen=True)
class Result:
    """Results of a job. The times are from before the open to after the close of the written histograms."""

    wall_s: float
    cpu_s: float
    open_s: float
    events: int
    particles: int
    read_bytes: int
    histograms: str


class Stopwatch:
    """Wall time, and processor time of all threads of this process."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def wall_s(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._wall

    def cpu_s(self) -> float:
        """Since the start."""
        return time.process_time() - self._cpu


def digest(*histograms: Sequence[float]) -> str:
    """A name for the contents of histograms, underflow and overflow included."""
    whole = hashlib.sha256()
    for contents in histograms:
        whole.update(struct.pack(f"<I{len(contents)}d", len(contents), *contents))
    return whole.hexdigest()[:16]


def main(loop: Callable[[Job], Result]) -> None:
    """Runs the job given on the command line, and prints the result as the last line."""
    job = Job(**json.loads(sys.argv[1]))
    if job.warm_up:
        loop(replace(job, url=job.warm_up, events=1))
    result = loop(job)
    print(PREFIX + json.dumps(asdict(result)), flush=True)
