"""Verdicts on the studies' claims, and cases where Forebay is not better. Computed from raw rows alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..run import Row
from ..setups import CACHES
from ..statistics import Value
from .document import Judgement
from .published import CLAIMS

TOLERANCE = 0.05
"""A difference in wall time up to this counts as none."""
ERRORS = 2.0
"""A verdict needs a difference of so many standard errors from the limit."""
REPETITIONS_MIN = 3
"""With fewer, the error is not known well enough for a verdict."""
FAR_MBIT = 200.0
"""Sites that deliver less than this are far: BNL and TRIUMF of the published ones."""


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


def judgements(rows: Sequence[Row]) -> list[Judgement]:
    """One for each claim, case and cache with rows."""
    found: list[Judgement] = []
    for case in cases(rows):
        for cache in CACHES:
            found += _judge(case, f"{cache}-cold", "direct", CLAIMS["cold"], both_sides=False)
            for state in ("warm", "file"):
                found += _judge(case, f"{cache}-{state}", "local", CLAIMS["warm"], both_sides=True)
    return found


def far_judgements(rows: Sequence[Row]) -> list[Judgement]:
    """Whether the first read of far sites' files is faster through a cache than without one."""
    found = []
    for case in cases([row for row in rows if _is_far(row)]):
        for cache in CACHES:
            ratio = _ratio(case, f"{cache}-cold", "direct")
            if ratio is not None:
                verdict = _verdict(ratio.mean - 1, ratio.deviation, 0.0, ratio.count)
                found.append(Judgement(CLAIMS["far"], verdict, _reason(case, f"{cache}-cold", "direct", ratio)))
    return found


def worse(rows: Sequence[Row]) -> Iterator[str]:
    """The places where Forebay took longer than XCache, beyond the errors; in words."""
    for case in cases(rows):
        for state in ("cold", "warm", "file"):
            ratio = _ratio(case, f"forebay-{state}", f"xcache-{state}")
            if ratio is not None and ratio.mean - 1 > ERRORS * ratio.deviation and ratio.count >= REPETITIONS_MIN:
                yield _reason(case, f"forebay-{state}", f"xcache-{state}", ratio)


def _is_far(row: Row) -> bool:
    rate = row.get("mbit")
    return isinstance(rate, int | float) and 0 < rate < FAR_MBIT


def _judge(case: Case, setup: str, reference: str, claim: str, *, both_sides: bool) -> list[Judgement]:
    ratio = _ratio(case, setup, reference)
    if ratio is None:
        return []
    difference = ratio.mean - 1
    if both_sides:
        difference = abs(difference)
    verdict = _verdict(difference, ratio.deviation, TOLERANCE, ratio.count)
    return [Judgement(claim, verdict, _reason(case, setup, reference, ratio))]


def _ratio(case: Case, setup: str, reference: str) -> Value | None:
    """Wall time of a set-up over that of another; None where one was not measured."""
    if setup not in case.walls or reference not in case.walls:
        return None
    return case.walls[setup].over(case.walls[reference])


def _verdict(difference: float, error: float, limit: float, count: int) -> str:
    if count < REPETITIONS_MIN:
        return "not decided"
    if difference + ERRORS * error <= limit:
        return "holds"
    if difference - ERRORS * error > limit:
        return "does not hold"
    return "not decided"


def _reason(case: Case, setup: str, reference: str, ratio: Value) -> str:
    percent = f"{100 * (ratio.mean - 1):+.1f} ± {100 * ratio.deviation:.1f} %"
    walls = f"{case.walls[setup].mean:.4g} s against {case.walls[reference].mean:.4g} s"
    few = "" if ratio.count >= REPETITIONS_MIN else f"; {ratio.count} repetitions are too few for a verdict"
    return f"{setup} against {reference}: {percent} in wall time ({walls}; {case}){few}"
