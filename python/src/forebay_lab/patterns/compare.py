"""Compares read strategies by events per second, bytes and CPU efficiency."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..run import Row
from ..setups import SETUPS
from ..statistics import Value
from . import recorder
from .measures import measure
from .replay import Target, replay_exactly
from .schedule import thinking_s
from .strategies import STRATEGIES
from .trace import Trace, TraceError

TREE_CACHE_BYTES = 30_000_000
"""ROOT's own choice is a size that holds one cluster of events; ATLAS and CMS set sizes of this order."""
JOB_SECONDS = 1800.0
JOB = Path(__file__).with_name("root_job.py")


@dataclass(frozen=True)
class RootJob:
    """A job of PyROOT over one tree."""

    python: Path
    url: str
    tree: str
    branches: str = ""
    events: int = -1

    def record(self, *, tree_cache: bool) -> Trace:
        """Runs the job with the recorder; the facts have the job's own output.

        # Errors
        `TraceError` when the job fails.
        """
        cache_bytes = TREE_CACHE_BYTES if tree_cache else 0
        command = [str(self.python), str(JOB), self.url, "--tree", self.tree, "--branches", self.branches]
        command += ["--events", str(self.events), "--cache", str(cache_bytes)]
        with tempfile.TemporaryDirectory(prefix="forebay-lab-") as folder:
            seen = Path(folder) / "record.csv"
            figures = _run(command, seen)
            trace = recorder.parse(seen).only([self.url])
        if not trace.reads:
            raise TraceError(f"the client of {self.python} did not load {recorder.PLUGIN}: nothing was recorded")
        return Trace(trace.operations, {**trace.facts, **figures, "url": self.url, "tree_cache": tree_cache})


Traces = Mapping[bool, Trace]
"""The recorded jobs: without and with TTreeCache."""


def record(job: RootJob, times: int) -> dict[bool, Trace]:
    """Records the job in both forms some times, and keeps of each the one that computed least.

    Both compute the same: a difference is noise of the machine, and would be attributed to a strategy.

    # Errors
    `TraceError` when a job fails, or the two have not read the same events.
    """
    recorded = [{tree_cache: job.record(tree_cache=tree_cache) for tree_cache in (False, True)} for _ in range(times)]
    traces = {cached: min((pair[cached] for pair in recorded), key=thinking_s) for cached in (False, True)}
    read = {(trace.facts["events"], trace.facts["event_bytes"]) for trace in traces.values()}
    if len(read) != 1:
        raise TraceError(f"the jobs with and without TTreeCache have read different events: {sorted(read)}")
    return traces


def changed(traces: Traces) -> dict[str, Trace]:
    """The trace of each strategy, by its name."""
    return {strategy.name: strategy.change(traces[strategy.tree_cache]) for strategy in STRATEGIES}


def figures(trace: Trace, target: Target, *, enter: Sequence[str] = ()) -> dict[str, float]:
    """Replays a strategy's trace; the figures of a row.

    # Errors
    `TraceError` when the replay fails or has made other reads.
    """
    outcome = replay_exactly(trace, target, enter=enter)
    measures = measure(outcome.trace)
    sizes: Mapping[str, int] = trace.facts.get("file_sizes", {})
    return {
        "events": trace.facts.get("events", 0),
        "think_s": thinking_s(trace),
        "wall_s": outcome.wall_s,
        "cpu_s": outcome.cpu_s,
        "calls": measures.calls,
        "vector_calls": measures.vector_calls,
        "bytes": measures.bytes,
        "bytes_got": measures.bytes_got,
        "bytes_again": measures.bytes_again,
        "sequential_share": measures.sequential_share,
        "file_bytes": sum(sizes.values()),
    }


@dataclass(frozen=True)
class Line:
    """The cost of a strategy in a set-up."""

    path: str
    setup: str
    strategy: str
    calls: Value
    wall_s: Value
    events_percent: float
    """Events per second, relative to the reference."""
    bytes_percent: float
    """Bytes transferred, relative to the reference."""
    file_percent: float
    """Bytes transferred, relative to the size of the file."""
    cpu_percent: float
    """Time in which the job computes, of all its time."""


def table(rows: Iterable[Row]) -> list[Line]:
    """The comparison, from raw rows. The reference is the first strategy in the first set-up on the first path."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row["path"]), str(row["setup"]), str(row["strategy"])), []).append(row)
    paths = list(dict.fromkeys(path for path, _, _ in groups))
    strategies = [strategy.name for strategy in STRATEGIES]
    keys = sorted(groups, key=lambda key: (paths.index(key[0]), SETUPS.index(key[1]), strategies.index(key[2])))
    if not keys:
        return []
    reference = groups[keys[0]]
    rate = _mean(reference, "events") / _mean(reference, "wall_s")
    return [_line(key, groups[key], rate, _mean(reference, "bytes_got")) for key in keys]


def _line(key: tuple[str, str, str], rows: Sequence[Row], rate: float, sent: float) -> Line:
    wall_s, got = _mean(rows, "wall_s"), _mean(rows, "bytes_got")
    return Line(
        path=key[0],
        setup=key[1],
        strategy=key[2],
        calls=_value(rows, "calls"),
        wall_s=_value(rows, "wall_s"),
        events_percent=_percent(_mean(rows, "events") / wall_s, rate),
        bytes_percent=_percent(got, sent),
        file_percent=_percent(got, _mean(rows, "file_bytes")),
        cpu_percent=_percent(_mean(rows, "think_s"), wall_s),
    )


def _value(rows: Sequence[Row], field: str) -> Value:
    return Value.of(float(str(row[field])) for row in rows)


def _mean(rows: Sequence[Row], field: str) -> float:
    return _value(rows, field).mean


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else float("nan")


def _run(command: Sequence[str], seen: Path) -> dict[str, Any]:
    environment = {**os.environ, **recorder.environment(seen)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=JOB_SECONDS, check=False)
    if ended.returncode != 0:
        raise TraceError(f"the job ended with {ended.returncode}: {ended.stderr[-2000:]}")
    figures = json.loads(ended.stdout.splitlines()[-1])
    if not isinstance(figures, dict):
        raise TraceError(f"the job printed {ended.stdout[-200:]!r} instead of its figures")
    return figures
