"""Event loops in which Forebay is slower than XCache, from raw rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..run import Row
from ..statistics import Value
from .claims import ERRORS, REPETITIONS_MIN


@dataclass(frozen=True)
class Case:
    """Measurements that may be compared: the same engine, number of events, path, input and settings of XCache."""

    engine: str
    events: int
    path: str
    kind: str
    xcache: str
    walls: dict[str, Value]
    """By set-up."""

    def __str__(self) -> str:
        others = [self.kind if self.kind != "ttree" else "", f"XCache {self.xcache}" if self.xcache != "lab" else ""]
        return ", ".join([self.engine, f"{self.events} events", self.path, *filter(None, others)])


def cases(rows: Sequence[Row]) -> list[Case]:
    """The cases of event loops, for the largest number of events of each engine and path."""
    samples: dict[tuple[str, str, str, str], dict[int, dict[str, list[float]]]] = {}
    for row in rows:
        key = (str(row["engine"]), str(row["path"]), str(row.get("kind", "ttree")), str(row.get("xcache", "lab")))
        by_events = samples.setdefault(key, {})
        by_setup = by_events.setdefault(int(str(row["events"])), {})
        by_setup.setdefault(str(row["setup"]), []).append(float(str(row["wall_s"])))
    found = []
    for (engine, path, kind, xcache), by_events in samples.items():
        events = max(by_events)
        walls = {setup: Value.of(walls) for setup, walls in by_events[events].items()}
        found.append(Case(engine, events, path, kind, xcache, walls))
    return found


def worse(rows: Sequence[Row]) -> Iterator[str]:
    """The places where Forebay took longer than XCache, beyond the errors; in words."""
    for case in cases(rows):
        for state in ("cold", "warm", "file"):
            ratio = _ratio(case, f"forebay-{state}", f"xcache-{state}")
            if ratio is not None and ratio.mean - 1 > ERRORS * ratio.deviation and ratio.count >= REPETITIONS_MIN:
                yield _reason(case, f"forebay-{state}", f"xcache-{state}", ratio)


def _ratio(case: Case, setup: str, reference: str) -> Value | None:
    """Wall time of a set-up over that of another; None where one was not measured."""
    if setup not in case.walls or reference not in case.walls:
        return None
    return case.walls[setup].over(case.walls[reference])


def _reason(case: Case, setup: str, reference: str, ratio: Value) -> str:
    percent = f"{100 * (ratio.mean - 1):+.1f} ± {100 * ratio.deviation:.1f} %"
    walls = f"{case.walls[setup].mean:.4g} s against {case.walls[reference].mean:.4g} s"
    return f"{setup} against {reference}: {percent} in wall time ({walls}; {case})"
