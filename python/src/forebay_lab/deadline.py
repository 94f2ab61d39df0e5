"""The end of the time for measuring: a full run is made in parts."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from .errors import OutOfTime


@dataclass(frozen=True)
class Deadline:
    """No row is begun after it. Without one, measuring ends with the last row."""

    at_s: float = math.inf
    """On the clock of `time.monotonic`."""

    @classmethod
    def after(cls, minutes: float | None) -> Deadline:
        """The deadline so many minutes from now, or none."""
        return cls() if minutes is None else cls(time.monotonic() + 60 * minutes)

    @property
    def minutes_left(self) -> float:
        """Minutes until then, never below 0."""
        return max(0.0, (self.at_s - time.monotonic()) / 60)

    def check(self) -> None:
        """Called before each row.

        # Errors
        `OutOfTime` after the deadline.
        """
        if time.monotonic() >= self.at_s:
            raise OutOfTime
