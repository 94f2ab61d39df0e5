"""The table of a job over dCap, relative to the local file as in the study of a distant store."""

from __future__ import annotations

from collections.abc import Sequence

from .run import Row, Run
from .statistics import grouped
from .tables import markdown

HEADER = ("set-up", "TTreeCache", "wall, s", "events/s, %", "bytes, %", "CPU efficiency, %", "calls")
SETUPS = ("local", "remote", "cache-cold", "cache-warm")
"""`remote` reads at the distant server by dCap; caches are near, with dCap to the job and `root://` to the origin."""
RATE_REFERENCE, BYTES_REFERENCE = ("local", "on"), ("local", "off")
"""100 % of the events per second, and of the bytes."""


def write(run: Run) -> None:
    """Writes `dcap.md`."""
    written = text(run.rows)
    (run.directory / "dcap.md").write_text(written)
    print("\n" + written)


def text(rows: Sequence[Row]) -> str:
    """The table, and how to read it."""
    about = (
        "Events per second are relative to the local file with TTreeCache, bytes to what the job reads without it. "
        "Bytes are those that the distant server read for the job; of the local file, those that the job read. CPU "
        "efficiency: the time in which the job computes, of all its time.\n"
    )
    return "# A job over dCap\n\n" + markdown(HEADER, [list(line) for line in lines(rows)]) + "\n" + about


def lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line for each set-up and way; none before both references were measured."""
    moved = [{**row, "moved": row["bytes" if row["setup"] == "local" else "distant_bytes"]} for row in rows]
    by = ("setup", "way")
    walls, bytes_moved, calls, thinks = (grouped(moved, by, field) for field in ("wall_s", "moved", "calls", "think_s"))
    if RATE_REFERENCE not in walls or BYTES_REFERENCE not in walls:
        return []
    fastest, least = walls[RATE_REFERENCE].mean, bytes_moved[BYTES_REFERENCE].mean
    return [
        (
            str(key[0]),
            str(key[1]),
            str(wall),
            f"{100 * fastest / wall.mean:.0f}",
            f"{100 * bytes_moved[key].mean / least:.0f}",
            f"{100 * thinks[key].mean / wall.mean:.1f}",
            f"{calls[key].mean:.0f}",
        )
        for key, wall in sorted(walls.items(), key=lambda item: (SETUPS.index(str(item[0][0])), str(item[0][1])))
    ]
