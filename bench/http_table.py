"""The table of `http_compare.py`."""

from __future__ import annotations

import statistics

SERVERS = ("forebay", "xcache", "nginx slice", "nginx static")


def summary(measured: list[dict[str, object]]) -> str:
    """Medians of processor time and of the 99th percentile, in microseconds, as a table."""
    heads = [f"{name} {kind}" for kind in ("CPU", "p99") for name in SERVERS]
    lines = ["| row | connections | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for name, connections in dict.fromkeys((str(row["row"]), row["connections"]) for row in measured):
        cells = []
        for kind in ("cpu_us", "p99_us"):
            for server in SERVERS:
                values = [
                    float(str(row[kind]))
                    for row in measured
                    if (row["row"], row["connections"], row["server"]) == (name, connections, server)
                    and row[kind] != ""
                ]
                cells.append(f"{statistics.median(values):.1f}" if values else "-")
        lines.append(f"| {name} | {connections} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
