"""Waiting for a condition, always with a bound. The only place of the suite that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


class TimedOut(AssertionError):
    """A condition did not become true within its bound."""


def until(condition: Callable[[], T | Literal[False] | None], what: str, *, within: float = 60.0) -> T:
    """Polls `condition` until it returns something true and returns that; fails after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise TimedOut(f"not within {within} s: {what}")
        time.sleep(POLL_SECONDS)
