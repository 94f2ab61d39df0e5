"""Savings of a mix of sites by a cache, from the fitted curves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .efficiency import Curve
from .errors import LabError


@dataclass(frozen=True)
class Site:
    """One line of a mix."""

    site: str
    rtt_ms: float
    hours: float
    """Hours that jobs hold their slots, as things are: without a cache."""
    share: float
    """The part of these hours in jobs that read over this distance; others stay as they are."""


@dataclass(frozen=True)
class Saving:
    """Hours of slots that a cache saves."""

    hours: float
    of_hours: float

    @property
    def share(self) -> float:
        """The saved part of all hours."""
        return self.hours / self.of_hours if self.of_hours else 0.0


def read_mix(path: Path) -> list[Site]:
    """Reads a JSON list of sites."""
    try:
        sites = [Site(**entry) for entry in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError) as error:
        raise LabError(f"{path}: not a list of sites with site, rtt_ms, hours and share: {error}") from error
    for site in sites:
        if not (0 <= site.share <= 1 and site.hours >= 0 and site.rtt_ms >= 0):
            raise LabError(f"{path}: {site.site}: share must be from 0 to 1, hours and rtt_ms not below 0")
    return sites


def saving(sites: Iterable[Site], direct: Curve, cached: Curve) -> Saving:
    """Hours saved when jobs that read directly read through a cache instead; below 0 when that takes longer."""
    saved = total = 0.0
    for site in sites:
        ratio = cached.wall_at(site.rtt_ms) / direct.wall_at(site.rtt_ms)
        saved += site.hours * site.share * (1 - ratio)
        total += site.hours
    return Saving(saved, total)
