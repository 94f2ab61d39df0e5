"""Summary of the comparison: a table in Markdown, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..run import Row, Run
from ..tables import markdown
from . import compare_picture, experiment, pictures
from .compare import table
from .measures import measure
from .strategies import STRATEGIES

HEADER = (
    "path",
    "set-up",
    "strategy",
    "calls",
    "wall, s",
    "events/s, %",
    "bytes, %",
    "of the file, %",
    "CPU efficiency, %",
)
RECORDED = ("job", "calls", "vectors", "ranges", "bytes", "more than once", "sequential ranges", "median range, bytes")


def write(run: Run, missing: Sequence[Row]) -> None:
    """Writes `patterns.md` and the pictures; `missing` has the cells without a row."""
    text = (
        "# Ways of reading\n\n"
        + incomplete(missing)
        + recorded_table(run.directory)
        + "\n"
        + comparison_table(run.rows)
    )
    (run.directory / "patterns.md").write_text(text)
    print("\n" + text)
    draw(run.rows, run.directory, run.directory)


def draw(rows: Sequence[Row], recorded: Path, directory: Path) -> None:
    """Draws the recorded jobs, whose traces are in one directory, and the comparison into another."""
    folder = directory / "pictures"
    for cached, trace in experiment.traces(recorded).items():
        pictures.draw(trace, folder, f"patterns-{experiment.TRACES[cached]}")
    compare_picture.draw(table(rows), folder)


def incomplete(missing: Sequence[Row]) -> str:
    """A warning about cells without a row, if any."""
    if not missing:
        return ""
    paths = ", ".join(dict.fromkeys(str(cell["path"]) for cell in missing))
    return f"**Not complete**: {len(missing)} rows were not measured, on these paths: {paths}.\n\n"


def recorded_table(directory: Path) -> str:
    """Figures of the recorded jobs."""
    rows = []
    for cached, trace in experiment.traces(directory).items():
        found = measure(trace)
        counts = (found.calls, found.vector_calls, found.ranges, found.bytes, found.bytes_again)
        share = f"{found.sequential_share:.1%}"
        rows.append([f"{'with' if cached else 'without'} TTreeCache", *counts, share, f"{found.size_median:.0f}"])
    return markdown(RECORDED, rows)


def comparison_table(rows: Sequence[Row]) -> str:
    """The cost of each strategy, set-up by set-up."""
    lines = [
        [line.path, line.setup, line.strategy, f"{line.calls.mean:.0f}", line.wall_s]
        + [f"{part:.1f}" for part in (line.events_percent, line.bytes_percent, line.file_percent, line.cpu_percent)]
        for line in table(rows)
    ]
    ways = "".join(f"- {strategy.name}: {strategy.text}\n" for strategy in STRATEGIES)
    about = (
        "Events per second and bytes are relative to the first line. CPU efficiency: the time in which the job "
        "computes, of all its time.\n\n"
    )
    return markdown(HEADER, lines) + "\n" + about + ways
