"""The figure of each study: measured values, and the published ones as hollow marks with year and "other hardware"."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from ..efficiency import curves
from ..pictures import look, picture
from ..statistics import Value, grouped
from .claim_measures import ENGINE, TREE_CACHE
from .claims import Evidence
from .studies import Study
from .study_tables import SHOWN, relative

PUBLISHED_COLOUR = "#8a6d00"
"""The colour of published figures in pictures, as in tables."""
FIRST_READS = ("forebay-cold", "xcache-cold")


@dataclass(frozen=True)
class Drawn:
    """A picture of a study's page."""

    file: Path
    caption: str


@dataclass(frozen=True)
class Figure:
    """The function that draws a figure, and its words."""

    plot: Callable[[Study, Evidence, Axes], None]
    title: str
    x: str
    y: str
    caption: str


def draw(study: Study, evidence: Evidence, directory: Path) -> Drawn:
    """Draws a study's figure; without rows it has the published values only."""
    figure = FIGURES[study.figure]
    with picture(directory, study.id, title=figure.title, x=figure.x, y=figure.y) as axes:
        figure.plot(study, evidence, axes)
        axes.legend(fontsize=7)
    return Drawn(directory / "pictures" / f"{study.id}.png", f"{figure.caption} Hollow: {study.label}.")


def time_per_event(study: Study, evidence: Evidence, axes: Axes) -> None:
    """Time per event against the number of events."""
    rows = [row for row in evidence.get("loop", ()) if row["engine"] == ENGINE]
    walls = grouped(rows, ("setup", "events"), "wall_s")
    numbers = sorted({int(str(row["events"])) for row in rows})
    for setup in SHOWN:
        points = [(number, walls[setup, number]) for number in numbers if (setup, number) in walls]
        _line(axes, setup, [(number, _scaled(value, 1 / number)) for number, value in points])
    published = study.table("per-event")
    places = [float(title.replace(" ", "")) for title in published.header[1:]]
    for name, *values in published.rows:
        if name in ("local file system", "KIT", "TRIUMF"):
            style = {"local file system": "-", "KIT": "--"}.get(str(name), ":")
            label = f"{name}, {study.label}"
            axes.plot(
                places,
                [float(value) for value in values],
                style,
                color=PUBLISHED_COLOUR,
                mfc="none",
                marker="o",
                label=label,
            )
    axes.set(xscale="log", yscale="log")


def overhead_by_site(study: Study, evidence: Evidence, axes: Axes) -> None:
    """Wall time with a cache over that without one, by site."""
    published = {
        str(name): Value(float(with_) / float(without), _error(with_, error, without, other), 1)
        for name, with_, error, without, other in study.table("large-file").rows
        if name != "local"
    }
    names = list(published)
    _marks(axes, [(place, published[name]) for place, name in enumerate(names)], study.label)
    rows = [row for row in evidence.get("sites", ()) if row["engine"] == ENGINE and row["events"] == 1000]
    walls = grouped(rows, ("path", "setup"), "wall_s")
    for number, setup in enumerate(FIRST_READS, start=1):
        points = [
            (place + 0.15 * number, walls[name, setup].over(walls[name, "direct"]))
            for place, name in enumerate(names)
            if (name, setup) in walls and (name, "direct") in walls
        ]
        _line(axes, setup, points, line="none")
    axes.axhline(1.0, color="#999999", linewidth=0.8)
    axes.set_xticks(range(len(names)), names)


def files_per_job(study: Study, evidence: Evidence, axes: Axes) -> None:
    """Rate of the jobs relative to direct reads, against the number of jobs."""
    rows = evidence.get("stress", ())
    rates = grouped(rows, ("setup", "jobs"), "megabytes_per_s")
    numbers = sorted({int(str(row["jobs"])) for row in rows})
    for setup in SHOWN:
        points = [
            (number, _scaled(rates[setup, number].over(rates["direct", number]), 100))
            for number in numbers
            if (setup, number) in rates and ("direct", number) in rates and setup != "direct"
        ]
        _line(axes, setup, points)
    cold = study.table("files-per-job").rows[1]
    _marks(axes, [(750, Value(float(cold[2]), 0.0, 1))], f"cold, {study.label}")
    axes.axhline(100, color="#999999", linewidth=0.8)
    axes.set_ylim(bottom=0)


def efficiency_by_distance(study: Study, evidence: Evidence, axes: Axes) -> None:
    """CPU efficiency against round-trip time, with the fitted curves."""
    rows = [
        {**row, "efficiency": 100 * float(str(row["cpu_s"])) / float(str(row["wall_s"]))}
        for row in evidence.get("rtt", ())
        if row["tree_cache"] == TREE_CACHE
    ]
    values = grouped(rows, ("setup", "rtt_ms"), "efficiency")
    distances = sorted({float(str(row["rtt_ms"])) for row in rows})
    fitted = curves(rows)
    for setup in SHOWN:
        points = [(rtt_ms, values[setup, rtt_ms]) for rtt_ms in distances if (setup, rtt_ms) in values]
        _line(axes, setup, points, line="none")
        if points:
            curve = fitted[setup, TREE_CACHE]
            ys = [100 * curve.efficiency_at(rtt_ms) for rtt_ms in distances]
            axes.plot(distances, ys, color=look(setup).colour, linestyle=look(setup).line)
    label = study.label
    for point in study.points:
        (near, far), (low, high) = point.rtt_ms, point.percent
        place, height = (near * far) ** 0.5, (low + high) / 2
        spread = ([[place - near], [far - place]], [[height - low], [high - height]])
        axes.errorbar(
            [place], [height], xerr=spread[0], yerr=spread[1], fmt="D", color=PUBLISHED_COLOUR, mfc="none", label=label
        )
        axes.annotate(
            point.label, (place, height), textcoords="offset points", xytext=(4, 6), fontsize=7, color=PUBLISHED_COLOUR
        )
        label = ""
    axes.set_xscale("log")
    axes.set_ylim(0, 110)


def strategies(study: Study, evidence: Evidence, axes: Axes) -> None:
    """Events per second of the read strategies, local and at a distance, in % of local reads with TTreeCache."""
    names = {
        ("on", "off"): "cache, single reads",
        ("on", "-"): "cache, single reads",
        ("on", "128 KiB"): "cache, read-ahead",
    }
    names |= {("off", "off"): "plain", ("off", "-"): "plain", ("off", "128 KiB"): "read-ahead"}
    order = ("plain", "read-ahead", "cache, single reads", "cache, read-ahead", "cache, vector reads")
    for place, colour in (("local", "#b9a14a"), ("remote", PUBLISHED_COLOUR)):
        points = [
            (float(order.index(names[str(row[2]), str(row[3])])), Value(float(row[4]), 0.0, 1))
            for row in study.table("methods").rows
            if row[0] == place
        ]
        _marks(axes, points, f"{place}, {study.label}", colour=colour)
    lines = relative(evidence.get("patterns", ()))
    for number, setup in enumerate(("local", "direct", "forebay-cold", "forebay-warm"), start=1):
        own = [
            (order.index(line.strategy) + 0.1 * number, Value(events, 0.0, 1))
            for line, events, _ in lines
            if line.setup == setup
        ]
        _line(axes, setup, own, line="none")
    axes.set_xticks(range(len(order)), order, fontsize=8)
    axes.set_ylim(bottom=0)


FIGURES: Mapping[str, Figure] = {
    "time_per_event": Figure(
        time_per_event,
        title="Time per event",
        x="events",
        y="s per event",
        caption="Time per event, PyROOT. The published times include the start of ROOT, the measured ones do not.",
    ),
    "overhead_by_site": Figure(
        overhead_by_site,
        title="First read of 1000 events through a cache",
        x="",
        y="wall time with cache / without",
        caption="Wall time with a cache over that without one.",
    ),
    "files_per_job": Figure(
        files_per_job,
        title="Stress: rate of the jobs relative to direct reads",
        x="jobs",
        y="% of direct reads",
        caption="Bytes per second to the jobs; published: files completed per job.",
    ),
    "efficiency_by_distance": Figure(
        efficiency_by_distance,
        title="CPU efficiency against round-trip time",
        x="round-trip time, ms",
        y="CPU efficiency, %",
        caption="CPU time over wall time with TTreeCache, and the fitted curves. The published job reads 2.4 MB/s.",
    ),
    "strategies": Figure(
        strategies,
        title="Read strategies over 3.5 ms",
        x="",
        y="events/s, % of local reads with TTreeCache",
        caption="Events per second relative to local reads with TTreeCache (single reads).",
    ),
}
"""By their names in `studies/*.toml`."""


def _line(axes: Axes, setup: str, points: Sequence[tuple[float, Value]], line: str = "") -> None:
    if not points:
        return
    axes.errorbar(
        [place for place, _ in points],
        [value.mean for _, value in points],
        yerr=[value.deviation if value.count > 1 else 0.0 for _, value in points],
        color=look(setup).colour,
        fmt="s" if setup.endswith("-cold") else "o",
        linestyle=line or look(setup).line,
        label=setup,
    )


def _marks(axes: Axes, points: Iterable[tuple[float, Value]], label: str, colour: str = PUBLISHED_COLOUR) -> None:
    there = list(points)
    axes.errorbar(
        [place for place, _ in there],
        [value.mean for _, value in there],
        yerr=[value.deviation for _, value in there],
        color=colour,
        fmt="D",
        mfc="none",
        label=label,
    )


def _scaled(value: Value, factor: float) -> Value:
    return Value(value.mean * factor, value.deviation * factor, value.count)


def _error(first: str | float, error: str | float, second: str | float, other: str | float) -> float:
    """The uncertainty of a ratio of published values."""
    parts = (float(error) / float(first), float(other) / float(second))
    return float(first) / float(second) * math.hypot(*parts)
