"""Verdicts on the claims of the studies, from rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..run import Row
from ..statistics import Value
from .claim_measures import MEASURES, Part
from .studies import Claim

ERRORS = 2.0
"""A verdict needs a distance of so many standard errors from the limits."""
REPETITIONS_MIN = 3
"""With fewer, the error is not known well enough for a verdict."""

HOLDS, FAILS, OPEN, MISSING = "holds", "does not hold", "not decided", "not measured"
VERDICTS = (HOLDS, FAILS, OPEN, MISSING)

Evidence = Mapping[str, Sequence[Row]]
"""Comparable rows by experiment."""


@dataclass(frozen=True)
class Finding:
    """A claim with its measured values and the verdict on them."""

    claim: Claim
    parts: tuple[Part, ...]
    verdict: str

    def __str__(self) -> str:
        """The measured values; of several only the smallest and the largest."""
        if len(self.parts) < 2:
            return "".join(_figure(part.value) for part in self.parts) or ""
        ordered = sorted((part.value for part in self.parts), key=lambda value: value.mean)
        return f"{_figure(ordered[0])} to {_figure(ordered[-1])} ({len(ordered)} cases)"

    def details(self) -> Iterator[str]:
        """Each measured value with its label and its own verdict."""
        for part in self.parts:
            yield f"{part.label}: {_figure(part.value)}, {part_verdict(self.claim, part)}"


def judge(claim: Claim, evidence: Evidence, cache: str) -> Finding:
    """The verdict on a claim for one cache: all parts must hold, and one that does not decides."""
    rows = evidence.get(claim.experiment, ())
    parts = tuple(MEASURES[claim.measure](rows, cache, **claim.parameters)) if rows else ()
    verdicts = {part_verdict(claim, part) for part in parts}
    if not parts:
        return Finding(claim, parts, MISSING)
    if FAILS in verdicts:
        return Finding(claim, parts, FAILS)
    return Finding(claim, parts, OPEN if OPEN in verdicts else HOLDS)


def part_verdict(claim: Claim, part: Part) -> str:
    """Whether a value is within the limits of the claim, beyond its errors."""
    if part.value.count < REPETITIONS_MIN:
        return OPEN
    if claim.or_seconds and part.longer_s and part.longer_s.mean + ERRORS * part.longer_s.deviation <= claim.or_seconds:
        return HOLDS
    least, most = part.value.mean - ERRORS * part.value.deviation, part.value.mean + ERRORS * part.value.deviation
    low = claim.at_least if claim.at_least is not None else float("-inf")
    high = claim.at_most if claim.at_most is not None else float("inf")
    if low <= least and most <= high:
        return HOLDS
    return FAILS if most < low or least > high else OPEN


def _figure(value: Value) -> str:
    few = "" if value.count >= REPETITIONS_MIN else f" ({value.count} repetitions)"
    return f"{value}{few}"
