"""Summary of the sites: wall times by site and set-up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from .loop_summary import engines, overhead
from .pictures import look, picture
from .run import Row, Run
from .setups import SETUPS
from .statistics import Value, grouped
from .tables import markdown


def write(results: Run) -> None:
    """Writes `sites.md` and the pictures."""
    written = text(results.rows)
    (results.directory / "sites.md").write_text(written)
    print("\n" + written)
    draw(results.rows, results.directory)


def text(rows: Sequence[Row]) -> str:
    """All tables."""
    both = product(engines(rows), sorted({int(str(row["events"])) for row in rows}))
    return "# Sites\n\n" + "\n".join(table(rows, engine, events) for engine, events in both)


def table(rows: Sequence[Row], engine: str, events: int) -> str:
    """Wall time by site and set-up, with the overhead over a local file."""
    mine = [row for row in rows if (row["engine"], row["events"]) == (engine, events)]
    setups = [setup for setup in SETUPS if any(row["setup"] == setup for row in mine)]
    lines = []
    for site, facts in sites(mine).items():
        walls = grouped([row for row in mine if row["path"] == site], ("setup", "events"), "wall_s")
        there = [(setup, events) in walls for setup in setups]
        cells = [
            f"{walls[setup, events]} ({overhead(walls, setup, events)})" if known else ""
            for setup, known in zip(setups, there, strict=True)
        ]
        lines.append([site, f"{facts['rtt_ms']:g}", f"{facts['mbit']:g}", *cells])
    about = "Wall time in seconds, mean ± standard deviation (overhead over the local file)."
    head = f"## {engine}, {events} events\n\n{about}\n\n"
    return head + markdown(["site", "round trip, ms", "Mbit/s", *setups], lines)


def sites(rows: Sequence[Row]) -> dict[str, Row]:
    """Sites by round trip, each with one of its rows."""
    found = {str(row["path"]): row for row in rows}
    return dict(sorted(found.items(), key=lambda item: float(str(item[1]["rtt_ms"]))))


def draw(rows: Sequence[Row], directory: Path) -> None:
    """Draws bars for each engine and its largest number of events: one group per site."""
    for engine in engines(rows):
        mine = [row for row in rows if row["engine"] == engine]
        largest = max(int(str(row["events"])) for row in mine)
        _draw_engine([row for row in mine if row["events"] == largest], engine, directory)


def _draw_engine(mine: Sequence[Row], engine: str, directory: Path) -> None:
    setups = [setup for setup in SETUPS if any(row["setup"] == setup for row in mine)]
    names = list(sites(mine))
    walls = grouped(mine, ("path", "setup"), "wall_s")
    width = 0.8 / len(setups)
    with picture(directory, f"sites-{engine}", title=f"Sites, {engine}", x="", y="wall time, s") as axes:
        for number, setup in enumerate(setups):
            values = [walls.get((name, setup), Value.of([])) for name in names]
            places = [place + (number - (len(setups) - 1) / 2) * width for place in range(len(names))]
            errors = [value.deviation if value.count > 1 else 0.0 for value in values]
            hatch = "//" if setup.endswith("-cold") else None
            colour = look(setup).colour
            axes.bar(
                places,
                [value.mean for value in values],
                width,
                yerr=errors,
                label=setup,
                color=colour,
                hatch=hatch,
                alpha=0.8,
            )
        axes.set_xticks(range(len(names)), names)
        axes.legend()
