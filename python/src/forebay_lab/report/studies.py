"""The published studies that reports compare with: their figures, sources and claims, from `studies/*.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STUDIES = Path(__file__).parents[1] / "studies"
"""One file per study, in the order of the report."""


@dataclass(frozen=True)
class Published:
    """A published table. `drawn` ones are in the figure of the study's page only."""

    id: str
    title: str
    source: str
    unit: str
    header: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    drawn: bool = False


@dataclass(frozen=True)
class Claim:
    """A conclusion of a study, and the rule that decides whether it holds for rows of a run."""

    text: str
    published: str
    source: str
    what: str
    """The measured quantity, in words."""
    experiment: str = ""
    """Without an experiment the lab cannot measure the claim."""
    measure: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    at_least: float | None = None
    at_most: float | None = None
    or_seconds: float = 0.0
    """A longer wall time within this is accepted as well: the resolution of the published figures."""

    @property
    def rule(self) -> str:
        """The rule in words."""
        if not self.experiment:
            return self.what
        match (self.at_least, self.at_most):
            case (float(low), float(high)):
                limits = f"from {low:g} to {high:g}"
            case (float(low), None):
                limits = f"at least {low:g}"
            case (None, float(high)):
                limits = f"at most {high:g}"
            case _:
                raise ValueError(f"{self.text}: a rule needs `at_least` or `at_most`")
        longer = f", or at most {self.or_seconds:g} s longer" if self.or_seconds else ""
        return f"{self.what}: {limits}{longer}"


@dataclass(frozen=True)
class Point:
    """A published value, or range of values, at a round-trip time or a range of them."""

    label: str
    rtt_ms: tuple[float, float]
    percent: tuple[float, float]


@dataclass(frozen=True)
class Issue:
    """An open issue that a study names, and the setting of Forebay for it."""

    text: str
    here: str


@dataclass(frozen=True)
class Study:
    """A publication with figures of its own hardware."""

    id: str
    title: str
    group: str
    year: int
    reference: str
    hardware: str
    set_up: str
    figure: str
    """The function of `study_figures` that draws its page's figure."""
    measured: str
    """The function of `study_tables` that makes its page's table of measured values."""
    tables: tuple[Published, ...]
    claims: tuple[Claim, ...]
    points: tuple[Point, ...] = ()
    issues: tuple[Issue, ...] = ()

    @property
    def label(self) -> str:
        """The mark of published figures in pictures."""
        return f"published {self.year}, other hardware"

    def table(self, name: str) -> Published:
        """The published table of that id."""
        return next(table for table in self.tables if table.id == name)


def load(directory: Path = STUDIES) -> list[Study]:
    """All studies.

    # Errors
    `TypeError` or `KeyError` when a file has unknown keys, or lacks some.
    """
    return [_study(file.stem, tomllib.loads(file.read_text())) for file in sorted(directory.glob("*.toml"))]


def _study(name: str, raw: dict[str, Any]) -> Study:
    tables = tuple(
        Published(**{**table, "header": tuple(table["header"]), "rows": tuple(tuple(row) for row in table["rows"])})
        for table in raw.pop("table", [])
    )
    claims = tuple(_claim(claim) for claim in raw.pop("claim", []))
    points = tuple(
        Point(point["label"], tuple(point["rtt_ms"]), tuple(point["percent"])) for point in raw.pop("point", [])
    )
    issues = tuple(Issue(**issue) for issue in raw.pop("issue", []))
    return Study(id=name, tables=tables, claims=claims, points=points, issues=issues, **raw)


def _claim(raw: dict[str, Any]) -> Claim:
    return Claim(parameters=raw.pop("with", {}), **raw)
