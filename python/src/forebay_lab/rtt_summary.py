"""Summary of the round trips: efficiencies, rates, fitted curves, and savings of a mix of sites."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from .efficiency import Curve, curves
from .mix import Site, saving
from .pictures import look, picture
from .run import Row, Run
from .setups import SETUPS
from .statistics import Value, grouped
from .tables import markdown

MIX = "rtt.mix.json"
"""The mix of sites stays with the run, for reports."""
MEASURES = {"efficiency": "CPU time / wall time", "rate": "MB/s"}


def write(results: Run, mix: Sequence[Site]) -> None:
    """Writes `rtt.md` and the pictures."""
    written = text(results.rows, mix)
    (results.directory / "rtt.md").write_text(written)
    print("\n" + written)
    draw(results.rows, results.directory)


def text(raw: Sequence[Row], mix: Sequence[Site]) -> str:
    """All tables."""
    rows = [derived(row) for row in raw]
    fitted = curves(rows)
    parts = ["# CPU efficiency against round-trip time\n"]
    for tree_cache, (measure, unit) in product(_tree_caches(rows), MEASURES.items()):
        parts.append(f"## {unit}, TTreeCache {tree_cache}\n\n" + table(rows, tree_cache, measure))
    parts.append("## Fitted curves\n\nCPU time / (wall time at no distance + round-trip time times round trips).\n")
    parts.append(fit_table(fitted))
    if mix:
        parts.append(
            "## Savings of the mix of sites\n\nHours of slots, and their share, when jobs that read directly go"
        )
        parts.append("through a cache instead: cold, each file read once; warm, each file read before.\n")
        parts.append(mix_table(mix, fitted))
    return "\n".join(parts)


def _tree_caches(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["tree_cache"]) for row in rows))


def derived(row: Row) -> Row:
    """A row with its efficiency and its rate."""
    wall_s = float(str(row["wall_s"]))
    return {
        **row,
        "efficiency": float(str(row["cpu_s"])) / wall_s,
        "rate": float(str(row["read_bytes"])) / wall_s / 1e6,
    }


def table(rows: Sequence[Row], tree_cache: str, measure: str) -> str:
    """A measure by set-up and round trip."""
    mine = [row for row in rows if row["tree_cache"] == tree_cache]
    values = grouped(mine, ("setup", "rtt_ms"), measure)
    distances = sorted({float(str(row["rtt_ms"])) for row in mine})
    setups = [setup for setup in SETUPS if any(row["setup"] == setup for row in mine)]
    lines = [[setup, *(str(values.get((setup, rtt_ms), "")) for rtt_ms in distances)] for setup in setups]
    return markdown(["set-up", *(f"{rtt_ms:g} ms" for rtt_ms in distances)], lines)


def fit_table(fitted: dict[tuple[str, str], Curve]) -> str:
    """The parameters of all curves."""
    lines = [
        [setup, cache, f"{curve.cpu_s:.3f}", f"{curve.wall_s:.3f}", f"{curve.round_trips:.1f}"]
        for (setup, cache), curve in sorted(fitted.items())
    ]
    return markdown(["set-up", "TTreeCache", "CPU, s", "wall at no distance, s", "round trips"], lines)


def mix_table(mix: Sequence[Site], fitted: dict[tuple[str, str], Curve]) -> str:
    """The savings of each cache at each site, and in total."""
    lines = []
    for (setup, cache), curve in sorted(fitted.items()):
        direct = fitted.get(("direct", cache))
        if direct is None or setup == "direct":
            continue
        savings = [saving([site], direct, curve) for site in mix]
        total = saving(mix, direct, curve)
        cells = [f"{one.hours:.0f} ({one.share:.1%})" for one in (*savings, total)]
        lines.append([setup, cache, *cells])
    return markdown(["set-up", "TTreeCache", *(f"{site.site}, {site.rtt_ms:g} ms" for site in mix), "all"], lines)


def draw(raw: Sequence[Row], directory: Path) -> None:
    """Draws each measure with and without TTreeCache."""
    rows = [derived(row) for row in raw]
    fitted = curves(rows)
    for tree_cache, measure in product(_tree_caches(rows), MEASURES):
        _draw_measure(rows, fitted, tree_cache, measure, directory)


def _draw_measure(
    rows: Sequence[Row], fitted: dict[tuple[str, str], Curve], tree_cache: str, measure: str, directory: Path
) -> None:
    """Measured values with their deviations; for efficiencies the fitted curves as well."""
    mine = [row for row in rows if row["tree_cache"] == tree_cache]
    values = grouped(mine, ("setup", "rtt_ms"), measure)
    distances = sorted({float(str(row["rtt_ms"])) for row in mine})
    title = f"Event loop, TTreeCache {tree_cache}"
    name = f"rtt-{measure}-tree-cache-{tree_cache}"
    with picture(directory, name, title=title, x="round-trip time, ms", y=MEASURES[measure]) as axes:
        for setup in SETUPS:
            points = [(rtt_ms, values.get((setup, rtt_ms), Value.of([]))) for rtt_ms in distances]
            points = [(rtt_ms, value) for rtt_ms, value in points if value.count]
            if not points:
                continue
            how = look(setup)
            axes.errorbar(
                [rtt_ms for rtt_ms, _ in points],
                [value.mean for _, value in points],
                yerr=[value.deviation if value.count > 1 else 0.0 for _, value in points],
                color=how.colour,
                fmt="s" if setup.endswith("-cold") else "o",
                linestyle="none" if measure == "efficiency" else how.line,
                label=setup,
            )
            if measure == "efficiency":
                xs = np.geomspace(max(distances[0], 0.1), max(distances[-1], 0.2), 100)
                curve = fitted[setup, tree_cache]
                axes.plot(xs, [curve.efficiency_at(x) for x in xs], color=how.colour, linestyle=how.line)
        axes.set_xscale("log")
        axes.legend()
