"""The measured figures that a study's page shows next to the published ones, in tables of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..dcap_summary import HEADER as DCAP_HEADER
from ..dcap_summary import lines as dcap_lines
from ..patterns.compare import Line
from ..patterns.compare import table as strategy_lines
from ..run import Row
from ..setups import SETUPS
from ..sites_summary import sites
from ..statistics import Value, grouped
from .claim_measures import ENGINE, TREE_CACHE
from .claims import Evidence
from .document import Block, Table, Text
from .studies import Study

SHOWN = ("local", "direct", "forebay-cold", "forebay-warm", "xcache-cold", "xcache-warm")
PUBLISHED_HOURS = 2.5
"""Duration of the published stress test; measured rates are scaled to it."""
STRATEGY_PATH = "FZU-Pilsen"
STRATEGY_SETUPS = ("local", "direct", "forebay-cold", "forebay-warm")
STRATEGY_REFERENCES = ("cache, single reads", "plain")
"""Local reads with these are 100 % of the events per second, and of the bytes, as in the study."""


def measured(study: Study, evidence: Evidence) -> Iterator[Block]:
    """The table of a study's page; none without rows."""
    yield from TABLES[study.measured](evidence)


def wall_times(evidence: Evidence) -> Iterator[Block]:
    """Wall time by site and number of events, of the set-up that the study calls "caching active"."""
    rows = [row for name in ("loop", "sites") for row in evidence.get(name, ()) if row["engine"] == ENGINE]
    walls = grouped(rows, ("path", "setup", "events"), "wall_s")
    numbers = sorted({int(str(row["events"])) for row in rows})
    lines = []
    for path in sites(rows) if rows else ():
        for setup in ("local", "direct", "forebay-warm"):
            values = [walls.get((path, setup, number)) for number in numbers]
            if any(values) and (setup != "local" or path == "loopback"):
                lines.append((path, setup, *(_value(value) for value in values)))
    yield from _titled(
        "Measured here: wall time in s by number of events", ("path", "set-up", *map(str, numbers)), lines
    )


def first_reads(evidence: Evidence) -> Iterator[Block]:
    """Wall time of 1000 events by site, with and without a cache."""
    rows = [
        row
        for name in ("loop", "sites")
        for row in evidence.get(name, ())
        if row["engine"] == ENGINE and row["events"] == 1000
    ]
    walls = grouped(rows, ("path", "setup"), "wall_s")
    lines = [(path, *(_value(walls.get((path, setup))) for setup in SHOWN)) for path in (sites(rows) if rows else ())]
    yield from _titled("Measured here: wall time of 1000 events, s", ("path", *SHOWN), lines)


def stress_rates(evidence: Evidence) -> Iterator[Block]:
    """Files completed per job in the published time, and the rates to jobs and from the origin."""
    rows = evidence.get("stress", ())
    complete = [
        {**row, "files_per_job": float(str(row["visits"])) * PUBLISHED_HOURS * 3600 / float(str(row["wall_s"]))}
        for row in rows
        if row["jobs_failed"] == 0
    ]
    files = grouped(complete, ("setup", "jobs"), "files_per_job")
    rates, taken = (grouped(rows, ("setup", "jobs"), field) for field in ("megabytes_per_s", "origin_bytes"))
    lines = [
        (
            f"{jobs}",
            setup,
            _value(files.get((setup, jobs))),
            _value(rates[setup, jobs]),
            f"{taken[setup, jobs].mean / 1e9:.2f}",
            f"{_sum(rows, setup, jobs, 'jobs_failed')}",
        )
        for jobs in sorted({int(str(row["jobs"])) for row in rows})[-1:]
        for setup in SHOWN
        if (setup, jobs) in rates
    ]
    header = (
        "jobs",
        "set-up",
        f"files per job in {PUBLISHED_HOURS} h",
        "MB/s to jobs",
        "GB from origin",
        "jobs failed",
    )
    yield from _titled("Measured here", header, lines)


def efficiencies(evidence: Evidence) -> Iterator[Block]:
    """CPU efficiency by round trip."""
    rows = [
        {**row, "efficiency": 100 * float(str(row["cpu_s"])) / float(str(row["wall_s"]))}
        for row in evidence.get("rtt", ())
        if row["tree_cache"] == TREE_CACHE
    ]
    values = grouped(rows, ("setup", "rtt_ms"), "efficiency")
    distances = sorted({float(str(row["rtt_ms"])) for row in rows})
    lines = [
        (setup, *(_value(values.get((setup, rtt_ms))) for rtt_ms in distances))
        for setup in SETUPS
        if any(row["setup"] == setup for row in rows)
    ]
    header = ("set-up", *(f"{rtt_ms:g} ms" for rtt_ms in distances))
    yield from _titled("Measured here: CPU efficiency with TTreeCache, %", header, lines)


def strategies(evidence: Evidence) -> Iterator[Block]:
    """Read strategies over the path of the study, relative to the study's references."""
    lines = [
        (line.setup, line.strategy, f"{events:.0f}", f"{sent:.0f}", f"{line.cpu_percent:.1f}", f"{line.calls.mean:.0f}")
        for line, events, sent in relative(evidence.get("patterns", ()))
    ]
    header = ("set-up", "strategy", "events/s, %", "bytes, %", "CPU efficiency, %", "calls")
    yield from _titled("Measured here, over the path FZU-Pilsen", header, lines)
    over_dcap = dcap_lines(evidence.get("dcap", ()))
    yield from _titled("Measured here over dCap, on the same path", DCAP_HEADER, over_dcap)


def relative(rows: Sequence[Row]) -> list[tuple[Line, float, float]]:
    """Lines over the study's path, with events per second and bytes in % of the study's references."""
    lines = {
        (line.setup, line.strategy): line
        for line in strategy_lines([row for row in rows if row["path"] == STRATEGY_PATH])
    }
    keys = [("local", strategy) for strategy in STRATEGY_REFERENCES]
    if not all(key in lines for key in keys):
        return []
    rate, sent = lines[keys[0]].events_percent, lines[keys[1]].bytes_percent
    return [
        (line, 100 * line.events_percent / rate, 100 * line.bytes_percent / sent)
        for line in lines.values()
        if line.setup in STRATEGY_SETUPS
    ]


TABLES: Mapping[str, Callable[[Evidence], Iterator[Block]]] = {
    "wall_times": wall_times,
    "first_reads": first_reads,
    "stress_rates": stress_rates,
    "efficiencies": efficiencies,
    "strategies": strategies,
}


def _titled(title: str, header: Sequence[str], lines: Sequence[tuple[str, ...]]) -> Iterator[Block]:
    if lines:
        yield Text(title)
        yield Table(tuple(header), tuple(lines), dense=True)


def _value(value: Value | None) -> str:
    return str(value) if value is not None and value.count else ""


def _sum(rows: Sequence[Row], setup: str, jobs: int, field: str) -> int:
    return sum(int(str(row[field])) for row in rows if (row["setup"], row["jobs"]) == (setup, jobs))
