"""Statistics of rows: means, spreads, ratios, straight lines, and balanced orders."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pandas as pd

T = TypeVar("T")


@dataclass(frozen=True)
class Value:
    """A mean with the standard deviation of single measurements."""

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, samples: Iterable[float]) -> Value:
        """Mean and sample standard deviation; of one sample the deviation is not known (NaN)."""
        values = list(samples)
        if not values:
            return cls(math.nan, math.nan, 0)
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(mean, math.nan, 1)
        square = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
        return cls(mean, math.sqrt(square), len(values))

    @property
    def error(self) -> float:
        """Standard deviation of the mean."""
        return self.deviation / math.sqrt(self.count) if self.count else math.nan

    def over(self, other: Value) -> Value:
        """The ratio of two means; its deviation is that of the ratio, from the errors of both means."""
        if not other.mean:
            return Value(math.nan, math.nan, 0)
        ratio = self.mean / other.mean
        error = math.hypot(self.error, ratio * other.error) / abs(other.mean)
        return Value(ratio, error, min(self.count, other.count))

    def less(self, other: Value) -> Value:
        """The difference of two means; its deviation is that of the difference, from the errors of both means."""
        return Value(self.mean - other.mean, math.hypot(self.error, other.error), min(self.count, other.count))

    def __str__(self) -> str:
        spread = "" if math.isnan(self.deviation) else f" ± {self.deviation:.2g}"
        return f"{self.mean:.3g}{spread}"


@dataclass(frozen=True)
class Line:
    """A straight line through points, by least squares."""

    offset: float
    slope: float

    @classmethod
    def through(cls, points: Sequence[tuple[float, float, float]]) -> Line:
        """The line through points of x, y and weight; with one value of x it is level."""
        total = math.fsum(weight for _, _, weight in points)
        if not total:
            return cls(math.nan, math.nan)
        middle_x = math.fsum(x * weight for x, _, weight in points) / total
        middle_y = math.fsum(y * weight for _, y, weight in points) / total
        width = math.fsum(weight * (x - middle_x) ** 2 for x, _, weight in points)
        height = math.fsum(weight * (x - middle_x) * (y - middle_y) for x, y, weight in points)
        slope = height / width if width else 0.0
        return cls(middle_y - slope * middle_x, slope)

    def at(self, x: float) -> float:
        """The line's value."""
        return self.offset + self.slope * x


def grouped(rows: Iterable[Mapping[str, object]], by: Sequence[str], value: str) -> dict[tuple[object, ...], Value]:
    """Mean and deviation of a field of the rows, for each combination of values of other fields."""
    frame = pd.DataFrame(list(rows))
    if frame.empty:
        return {}
    groups = frame.dropna(subset=[value]).groupby(list(by), sort=False)[value]
    return {tuple(key): Value.of(samples.tolist()) for key, samples in groups}


def balanced_order(items: Sequence[T], repetition: int, seed: int) -> list[T]:
    """The order of one repetition: over as many repetitions as there are items each is once at each place.

    Repetition by repetition the order is turned by one, after a shuffle that is the same for all; every second round of
    repetitions goes backwards, so that each item follows each neighbour as often as it goes before it.
    """
    if not items:
        return []
    shuffled = list(items)
    random.Random(seed).shuffle(shuffled)
    rounds, turn = divmod(repetition, len(shuffled))
    order = shuffled[turn:] + shuffled[:turn]
    return order[::-1] if rounds % 2 else order
