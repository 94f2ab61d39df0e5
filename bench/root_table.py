"""The table of the rows of `root_jobs.py` and their goals."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

# Seconds of waiting at 10, 50 and 150 ms: on a file after the first one of its dataset, and on the first one. `None`:
# the wait of the job with `forebay-off`.
GOALS: dict[str, tuple[tuple[float, float, float] | None, tuple[float, float, float] | None]] = {
    "A": ((0.3, 0.9, 2.5), (0.6, 1.2, 3.0)),
    "B": ((0.15, 0.5, 1.5), (0.3, 1.0, 2.9)),
    "C": ((0.10, 0.35, 1.0), (0.15, 0.8, 2.8)),
    "D": ((0.07, 0.35, 1.4), None),
    "E": ((0.05, 0.25, 0.75), None),
    "F": ((0.05, 0.3, 0.9), (0.2, 0.85, 2.7)),
    "G": ((0.14, 0.55, 1.7), (0.2, 0.65, 1.9)),
    "H": ((0.5, 0.9, 2.1), (0.5, 1.0, 2.4)),
    "I": (None, None),
}
GOAL_RTTS = (10, 50, 150)
OFF = "forebay-off"
COLUMNS = (
    "round trip, job",
    "way",
    "file",
    "waits, s",
    "of direct",
    "goal, s",
    "round trips",
    "MB from the origin",
    "MB read",
    "MB in vain",
    "origin requests",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * (len(COLUMNS) - 2)}"

Rows = list[dict[str, object]]


def table(rows: Rows) -> str:
    """Medians over the runs, one line for each round trip, job, way and file."""
    groups: dict[tuple[int, str, str, int], Rows] = defaultdict(list)
    for row in rows:
        groups[int(str(row["rtt_ms"])), str(row["job"]), str(row["way"]), int(str(row["file"]))].append(row)
    waits = {key: value(group, "wait_s") for key, group in groups.items()}
    # Ways in the order in which they were measured.
    ways = list(dict.fromkeys(str(row["way"]) for row in rows))
    keys = sorted(groups, key=lambda key: (key[0], key[1], ways.index(key[2]), key[3]))
    return "\n".join([HEADER, *(line(key, groups[key], waits) for key in keys)])


def line(key: tuple[int, str, str, int], group: Rows, waits: dict[tuple[int, str, str, int], float]) -> str:
    """One line of the table."""
    rtt, job, way, file = key
    direct = waits.get((rtt, job, "direct", 1))
    share = f"{waits[key] / direct:.0%}" if direct else ""
    goal = goal_of(key, waits.get((rtt, job, OFF, 1))) if way.startswith("forebay-learn") else ""
    # Bytes that the job did not ask for; of those some serve other jobs.
    in_vain = max(0.0, value(group, "origin_mb") - value(group, "read_mb"))
    cells = [
        f"{rtt} ms, {job}",
        way,
        str(file),
        f"{waits[key]:.2f}",
        share,
        goal,
        f"{value(group, 'round_trips'):.0f}",
        f"{value(group, 'origin_mb'):.1f}",
        f"{value(group, 'read_mb'):.1f}",
        f"{in_vain:.1f}",
        f"{value(group, 'origin_requests'):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def goal_of(key: tuple[int, str, str, int], off: float | None) -> str:
    """The goal of a row, if there is one."""
    rtt, job, _, file = key
    later, first = GOALS.get(job, (None, None))
    goals = first if file == 1 else later
    if rtt not in GOAL_RTTS or job not in GOALS:
        return ""
    if goals is None:
        return "" if off is None else f"{off:.2f} (off)"
    return str(goals[GOAL_RTTS.index(rtt)])


def value(group: Rows, name: str) -> float:
    """The median of a number."""
    return median(float(str(row[name])) for row in group)
