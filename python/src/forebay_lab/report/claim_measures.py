"""The quantities that rules of claims are about, from the rows of one experiment.

The deviation of every value here is the standard error of its mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..efficiency import Curve, curves
from ..run import Row
from ..statistics import Value, grouped

ENGINE = "pyroot"
"""The studies' jobs are loops of PyROOT; other engines are in the sections of the experiments."""
TREE_CACHE = "on"


@dataclass(frozen=True)
class Part:
    """One of the values that a claim is about."""

    label: str
    value: Value
    longer_s: Value | None = None
    """Difference of the compared wall times, in seconds."""


def wall_ratio(
    rows: Sequence[Row],
    cache: str,
    *,
    state: str,
    over: str,
    paths: Sequence[str],
    events: int | str,
    events_min: int = 1,
) -> list[Part]:
    """Wall time of a set-up of the cache over that of another set-up."""
    mine = [row for row in rows if row["engine"] == ENGINE]
    walls = grouped(mine, ("path", "setup", "events"), "wall_s")
    found = []
    for path in paths:
        pair = [(path, f"{cache}-{state}"), (path, over)]
        both = sorted(
            number
            for number in {int(str(row["events"])) for row in mine}
            if all((*key, number) in walls for key in pair)
        )
        for number in _selected(both, events, events_min):
            first, second = (walls[*key, number] for key in pair)
            found.append(Part(f"{path}, {number} events", first.over(second), first.less(second)))
    return found


def plateau(rows: Sequence[Row], cache: str, *, setups: Sequence[str], events_min: int) -> list[Part]:
    """Time per event of the largest number of events, over the time of each event beyond the second largest number."""
    found = []
    for setup in (name.format(cache=cache) for name in setups):
        by_repetition = _by_repetition(row for row in rows if row["engine"] == ENGINE and row["setup"] == setup)
        numbers = sorted({int(str(row["events"])) for group in by_repetition.values() for row in group})
        if len(numbers) < 2 or numbers[-1] < events_min:
            continue
        second, first = numbers[-2:]
        samples = []
        for group in by_repetition.values():
            walls = {int(str(row["events"])): float(str(row["wall_s"])) for row in group}
            if first in walls and second in walls:
                samples.append(walls[first] / first / ((walls[first] - walls[second]) / (first - second)))
        found.append(Part(f"{setup}, {first} events", _estimate(samples)))
    return found


def stress_rate(rows: Sequence[Row], cache: str, *, state: str, jobs: int) -> list[Part]:
    """Bytes per second to the jobs, of a cache over direct reads."""
    return _stress(rows, "megabytes_per_s", f"{cache}-{state}", "direct", jobs)


def stress_origin(rows: Sequence[Row], cache: str, *, jobs: int) -> list[Part]:
    """Bytes from the origin, of a warm cache over those of a cold one."""
    return _stress(rows, "origin_bytes", f"{cache}-warm", f"{cache}-cold", jobs)


def efficiency_ratio(rows: Sequence[Row], cache: str, *, state: str) -> list[Part]:
    """CPU efficiency through the cache at each distance, over that of direct reads at the shortest."""
    values = _efficiencies(rows)
    nearest = min((rtt_ms for setup, rtt_ms in values if setup == "direct"), default=math.nan)
    return [
        Part(f"{rtt_ms:g} ms", value.over(values["direct", nearest]))
        for (setup, rtt_ms), value in sorted(values.items())
        if setup == f"{cache}-{state}" and not math.isnan(nearest)
    ]


def efficiency_order(rows: Sequence[Row], cache: str, *, setup: str, rtts_ms: Sequence[float]) -> list[Part]:
    """CPU efficiency of a set-up, of each distance over the one before it."""
    values, name = _efficiencies(rows), setup.format(cache=cache)
    there = [rtt_ms for rtt_ms in rtts_ms if (name, rtt_ms) in values]
    return [
        Part(f"{far:g} over {near:g} ms", values[name, far].over(values[name, near]))
        for near, far in itertools.pairwise(there)
    ]


def saving(rows: Sequence[Row], cache: str, *, state: str, regions: Sequence[Mapping[str, Any]]) -> list[Part]:
    """The share of wall time saved when jobs read through the cache instead of directly, for a mix of regions."""
    samples = []
    for group in _by_repetition(rows).values():
        fitted = curves(group)
        direct, cached = fitted.get(("direct", TREE_CACHE)), fitted.get((f"{cache}-{state}", TREE_CACHE))
        if direct and cached:
            samples.append(_saved(direct, cached, regions))
    return [Part("all regions", _estimate(samples))] if samples else []


def strategy_ratio(
    rows: Sequence[Row],
    cache: str,
    *,
    field: str,
    of: tuple[str, str],
    over: tuple[str, str],
    path: str = "FZU-Pilsen",
) -> list[Part]:
    """A figure of a read strategy in a set-up, over that of another one; each is a pair of set-up and strategy."""
    mine = [
        {**row, "events_per_s": float(str(row["events"])) / float(str(row["wall_s"]))}
        for row in rows
        if row["path"] == path
    ]
    values = grouped(mine, ("setup", "strategy"), field)
    keys = [(setup.format(cache=cache), strategy) for setup, strategy in (of, over)]
    if not all(key in values for key in keys):
        return []
    first, second = (values[key] for key in keys)
    return [Part(path, first.over(second))]


MEASURES: Mapping[str, Callable[..., list[Part]]] = {
    "wall-ratio": wall_ratio,
    "plateau": plateau,
    "stress-rate": stress_rate,
    "stress-origin": stress_origin,
    "efficiency-ratio": efficiency_ratio,
    "efficiency-order": efficiency_order,
    "saving": saving,
    "strategy-ratio": strategy_ratio,
}
"""By their names in `studies/*.toml`; rows, the cache and the claim's parameters go in."""


def _selected(numbers: Sequence[int], events: int | str, events_min: int) -> list[int]:
    enough = [number for number in numbers if number >= events_min]
    match events:
        case "each":
            return enough
        case "largest":
            return enough[-1:]
        case _:
            return [number for number in enough if number == events]


def _stress(rows: Sequence[Row], field: str, setup: str, over: str, jobs: int) -> list[Part]:
    values = grouped(rows, ("setup", "jobs"), field)
    if (setup, jobs) not in values or (over, jobs) not in values:
        return []
    failed = sum(int(str(row["jobs_failed"])) for row in rows if (row["setup"], row["jobs"]) == (setup, jobs))
    note = f", {failed} jobs failed" if failed else ""
    return [Part(f"{jobs} jobs{note}", values[setup, jobs].over(values[over, jobs]))]


def _efficiencies(rows: Sequence[Row]) -> dict[tuple[str, float], Value]:
    with_tree_cache = [
        {**row, "efficiency": float(str(row["cpu_s"])) / float(str(row["wall_s"]))}
        for row in rows
        if row["tree_cache"] == TREE_CACHE
    ]
    values = grouped(with_tree_cache, ("setup", "rtt_ms"), "efficiency")
    return {(str(setup), float(str(rtt_ms))): value for (setup, rtt_ms), value in values.items()}


def _saved(direct: Curve, cached: Curve, regions: Sequence[Mapping[str, Any]]) -> float:
    total = math.fsum(region["share"] for region in regions)
    saved = math.fsum(
        region["share"] * (1 - cached.wall_at(region["rtt_ms"]) / direct.wall_at(region["rtt_ms"]))
        for region in regions
    )
    return saved / total


def _by_repetition(rows: Iterable[Row]) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(int(str(row["repetition"])), []).append(row)
    return groups


def _estimate(samples: Iterable[float]) -> Value:
    value = Value.of(samples)
    return Value(value.mean, value.error, value.count)
