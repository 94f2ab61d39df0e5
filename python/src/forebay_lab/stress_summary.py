"""Summary of the stress test: rates by number of jobs, and traffic on both sides of the caches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from .pictures import look, picture
from .run import Row, Run
from .statistics import grouped
from .tables import markdown

MEASURES = {
    "megabytes_per_s": "read by jobs, MB/s",
    "read_p99_us": "99 of 100 reads take less than, µs",
    "origin_bytes": "from the origin, bytes",
    "server_cpu_s": "CPU time of the server, s",
    "jobs_failed": "jobs that failed",
}


def write(results: Run) -> None:
    """Writes `stress.md` and the pictures."""
    written = text(results.rows)
    (results.directory / "stress.md").write_text(written)
    print("\n" + written)
    draw(results.rows, results.directory)


def text(rows: Sequence[Row]) -> str:
    """All tables."""
    setups, numbers = _measured(rows)
    parts = ["# Stress\n"]
    for measure, unit in MEASURES.items():
        values = grouped(rows, ("setup", "jobs"), measure)
        lines = [[setup, *(str(values.get((setup, number), "")) for number in numbers)] for setup in setups]
        parts.append(f"## {unit}\n\n" + markdown(["set-up", *(f"{number} jobs" for number in numbers)], lines))
    died = [f"{row['setup']} with {row['jobs']} jobs" for row in rows if not row["server_survived"]]
    parts.append(f"Servers that did not survive: {', '.join(died) or 'none'}.\n")
    return "\n".join(parts)


def _measured(rows: Sequence[Row]) -> tuple[list[str], list[int]]:
    """Set-ups and numbers of jobs, in order."""
    return sorted({str(row["setup"]) for row in rows}), sorted({int(str(row["jobs"])) for row in rows})


def draw(rows: Sequence[Row], directory: Path) -> None:
    """Draws the rates, and the traffic of each set-up with each number of jobs."""
    setups, numbers = _measured(rows)
    _draw_rates(rows, setups, numbers, directory)
    for setup, number in itertools.product(setups, numbers):
        _draw_traffic(rows, setup, number, directory)


def _draw_rates(rows: Sequence[Row], setups: Sequence[str], numbers: Sequence[int], directory: Path) -> None:
    """Rate against number of jobs."""
    values = grouped(rows, ("setup", "jobs"), "megabytes_per_s")
    with picture(directory, "stress-rates", title="Stress", x="jobs", y=MEASURES["megabytes_per_s"]) as axes:
        for setup in setups:
            how = look(setup)
            ys = [values[setup, number].mean for number in numbers if (setup, number) in values]
            xs = [number for number in numbers if (setup, number) in values]
            axes.plot(xs, ys, marker="o", color=how.colour, linestyle=how.line, label=setup)
        axes.set_ylim(bottom=0)
        axes.legend()


def _draw_traffic(rows: Sequence[Row], setup: str, jobs: int, directory: Path) -> None:
    """Traffic over time from a server to the jobs, and from the origin, in the first repetition."""
    mine = [row for row in rows if (row["setup"], row["jobs"]) == (setup, jobs)]
    if not mine:
        return
    title = f"Stress, {setup}, {jobs} jobs"
    with picture(directory, f"stress-{setup}-{jobs}", title=title, x="time, s", y="MB/s") as axes:
        for field, label, line in (("out_per_s", "to the jobs", "-"), ("in_per_s", "from the origin", "--")):
            ys = [number / 1e6 for number in cast("list[Any]", mine[0][field])]
            axes.step(range(len(ys)), ys, where="post", linestyle=line, color=look(setup).colour, label=label)
        axes.set_ylim(bottom=0)
        axes.legend()
