"""The model of a job far from its data: its wall time grows by the round trips that it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .run import Row
from .statistics import Line, Value


@dataclass(frozen=True)
class Curve:
    """CPU efficiency against round-trip time: `cpu_s / (wall_s + round_trips * rtt)`."""

    cpu_s: float
    wall_s: float
    """Wall time at no distance."""
    round_trips: float
    """Round trips that are waited for one after the other, never below 0."""

    @classmethod
    def through(cls, rows: Iterable[Row]) -> Curve:
        """The curve of rows of one set-up at several distances. Rows count by relative errors."""
        points = [(_number(row, "rtt_ms") / 1e3, _number(row, "wall_s"), _number(row, "cpu_s")) for row in rows]
        walls = [(rtt_s, wall_s, 1 / wall_s**2) for rtt_s, wall_s, _ in points]
        line = Line.through(walls)
        if line.slope < 0:
            line = Line.through([(0.0, wall_s, weight) for _, wall_s, weight in walls])
        return cls(Value.of(cpu_s for _, _, cpu_s in points).mean, line.offset, line.slope)

    def wall_at(self, rtt_ms: float) -> float:
        """Wall time in seconds."""
        return self.wall_s + self.round_trips * rtt_ms / 1e3

    def efficiency_at(self, rtt_ms: float) -> float:
        """Processor time over wall time."""
        return self.cpu_s / self.wall_at(rtt_ms)


def curves(rows: Iterable[Row]) -> dict[tuple[str, str], Curve]:
    """The curve of each set-up, with and without TTreeCache."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row["setup"]), str(row["tree_cache"])), []).append(row)
    return {key: Curve.through(group) for key, group in groups.items()}


def _number(row: Row, field: str) -> float:
    return float(str(row[field]))
