"""Summary of the event loop: the table of overheads, and time per event against the number of events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from .pictures import look, picture
from .run import Row, Run
from .setups import SETUPS
from .statistics import Line, Value, grouped
from .tables import markdown


def write(results: Run) -> None:
    """Writes `loop.md` and the pictures."""
    written = text(results.rows)
    (results.directory / "loop.md").write_text(written)
    print("\n" + written)
    draw(results.rows, results.directory)


def text(rows: Sequence[Row]) -> str:
    """All tables."""
    return "# Event loop\n\n" + "\n".join(overhead_table(rows, engine) for engine in engines(rows))


def engines(rows: Sequence[Row]) -> list[str]:
    """Engines in the order in which they were first measured."""
    return list(dict.fromkeys(str(row["engine"]) for row in rows))


def overhead_table(rows: Sequence[Row], engine: str) -> str:
    """Wall time by set-up and number of events, and the overhead over a local file for the largest number."""
    mine = [row for row in rows if row["engine"] == engine]
    walls = grouped(mine, ("setup", "events"), "wall_s")
    numbers = sorted({int(str(row["events"])) for row in mine})
    setups = [setup for setup in SETUPS if (setup, numbers[-1]) in walls]
    costs = {field: grouped(mine, ("setup", "events"), field) for field in ("cpu_s", "server_cpu_s", "origin_bytes")}
    header = ["set-up", *(f"{number} events, s" for number in numbers), "ms per event", "overhead", "client CPU, s"]
    table = []
    for setup in setups:
        last = (setup, numbers[-1])
        cells = [setup, *(str(walls.get((setup, number), "")) for number in numbers)]
        slope = f"{per_event(mine, setup).slope * 1e3:.3f}" if len(numbers) > 1 else ""
        cells += [slope, overhead(walls, setup, numbers[-1])]
        cells += [str(costs["cpu_s"][last]), str(costs["server_cpu_s"][last])]
        table.append([*cells, f"{costs['origin_bytes'][last].mean / 1e6:.2f}"])
    head = f"## {engine}\n\nMean ± standard deviation. Overhead: wall time over that of the local file, less one.\n\n"
    return head + markdown([*header, "server CPU, s", "from origin, MB"], table)


def overhead(walls: dict[tuple[object, ...], Value], setup: str, events: int) -> str:
    """How much longer a set-up takes than a local file."""
    local = walls.get(("local", events))
    if local is None:
        return ""
    ratio = walls[setup, events].over(local)
    spread = "" if math.isnan(ratio.deviation) else f" ± {ratio.deviation * 100:.1f}"
    return f"{(ratio.mean - 1) * 100:+.1f}{spread} %"


def per_event(rows: Sequence[Row], setup: str) -> Line:
    """Wall time as a line in the number of events: an open, and a time for each event."""
    mine = [row for row in rows if row["setup"] == setup]
    return Line.through([(float(str(row["events"])), float(str(row["wall_s"])), 1.0) for row in mine])


def draw(rows: Sequence[Row], directory: Path) -> None:
    """Draws time per event against the number of events, and wall times as bars, for each engine."""
    for engine in engines(rows):
        _draw_engine([row for row in rows if row["engine"] == engine], engine, directory)


def _draw_engine(mine: Sequence[Row], engine: str, directory: Path) -> None:
    walls = grouped(mine, ("setup", "events"), "wall_s")
    numbers = sorted({int(str(row["events"])) for row in mine})
    setups = [setup for setup in SETUPS if (setup, numbers[-1]) in walls]
    title = f"Event loop, {engine}"
    with picture(directory, f"loop-{engine}-per-event", title=title, x="events", y="ms per event") as axes:
        for setup in setups:
            values = [(number, walls[setup, number]) for number in numbers if (setup, number) in walls]
            axes.errorbar(
                [number for number, _ in values],
                [value.mean / number * 1e3 for number, value in values],
                yerr=[0.0 if value.count < 2 else value.deviation / number * 1e3 for number, value in values],
                label=setup,
                color=look(setup).colour,
                linestyle=look(setup).line,
            )
        axes.set(xscale="log", yscale="log")
        axes.legend()
    title = f"Event loop of {numbers[-1]} events, {engine}"
    with picture(directory, f"loop-{engine}-setups", title=title, x="", y="wall time, s") as axes:
        last = [walls[setup, numbers[-1]] for setup in setups]
        errors = [0.0 if value.count < 2 else value.deviation for value in last]
        colours = [look(setup).colour for setup in setups]
        axes.bar(setups, [value.mean for value in last], yerr=errors, color=colours, alpha=0.8)
        axes.tick_params(axis="x", rotation=30)
