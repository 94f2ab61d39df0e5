"""The first pages of a report: the verdicts on all claims, and a page for each study."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..run import Row
from . import study_figures, study_tables
from .claims import ERRORS, REPETITIONS_MIN, Evidence, Finding, judge
from .document import Block, Heading, Items, PageBreak, Picture, Table, Text
from .measured import Measured
from .studies import Claim, Study

RULE = (
    f"A claim holds if all its measured values are within the limits of its rule by {ERRORS:.0f} standard errors, and "
    "does not hold if one is outside of them by as much. Between the two, and with fewer than "
    f"{REPETITIONS_MIN} repetitions, it is not decided. Without rows it is not measured. Ratios are of mean values, "
    "± their standard error; of several cases the smallest and the largest are shown."
)
QUICK = "Rows of quick runs do not count here: their times mean nothing."
STUDY_PICTURE_SHARE = 0.6
"""Width of the figure of a study; with it a study is on one page."""


@dataclass(frozen=True)
class Source:
    """A run whose rows of an experiment are compared with the studies."""

    run: str
    rows: Sequence[Row]


Sources = Mapping[str, Sequence[Source]]
"""By experiment. Figures and tables are of the first one, a claim is judged by the first one that has measured it."""


def sources(all_measured: Sequence[Measured]) -> dict[str, list[Source]]:
    """For each experiment the runs with comparable rows: not quick, TTrees, XCache without prefetching."""
    found: dict[str, list[Source]] = {}
    for measured in all_measured:
        parameters = measured.parameters
        if parameters.get("quick") or parameters.get("kind") == "rntuple" or parameters.get("xcache", "lab") != "lab":
            continue
        found.setdefault(measured.name, []).append(Source(measured.directory.name, measured.rows))
    return found


def verdicts(studies: Sequence[Study], chosen: Sources, *, quick: bool) -> Iterator[Block]:
    """The page with the verdict on each claim. `quick`: some of the runs are."""
    rows = []
    for study in studies:
        for claim in study.claims:
            finding = _judged(claim, chosen, "forebay")
            rows.append((_short(study), claim.text, claim.published, str(finding), finding.verdict))
    yield Heading(2, "Verdicts")
    yield Text(RULE)
    if quick:
        yield Text(QUICK)
    yield Table(("study", "claim", "published", "measured here", "holds?"), tuple(rows), dense=True)


def study_page(study: Study, chosen: Sources, machines: Sequence[str], drawn: Path) -> Iterator[Block]:
    """The page of a study: its figure, its claims with their rules, its figures and the measured ones."""
    evidence = _evidence(chosen)
    yield PageBreak()
    yield Heading(2, f"{study.title} ({study.year})")
    yield Text(f"{study.group}; {study.reference}. Published hardware, {study.year}: {study.hardware}. {study.set_up}.")
    yield Text(f"Here: {'; '.join(machines) or 'machine not recorded'}. {_runs(study, chosen)}")
    picture = study_figures.draw(study, evidence, drawn)
    yield Picture(picture.file, picture.caption, STUDY_PICTURE_SHARE)
    yield _claims(study, chosen)
    yield from study_tables.measured(study, evidence)
    for table in study.tables:
        if not table.drawn:
            yield Text(f"{table.title} ({study.year}; {table.source})")
            cells = tuple(tuple(_cell(cell) for cell in row) for row in table.rows)
            yield Table(table.header, cells, published=True, dense=True)
    if study.issues:
        yield Text("Open issues that the study names, and the settings of Forebay for them:")
        yield Items(tuple(f"{issue.text}: {issue.here}" for issue in study.issues))


def machines(directories: Sequence[Path]) -> list[str]:
    """Year, processor and kernel of each session, each once."""
    found = []
    for directory in directories:
        file = directory / "environment.json"
        sessions: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
        for session in sessions:
            words = [str(session.get("at", ""))[:4], str(session.get("processor", ""))]
            words += [f"{session['processors']} processors"] if "processors" in session else []
            words += [f"Linux {session['kernel']}"] if "kernel" in session else []
            found.append(", ".join(filter(None, words)))
    return list(dict.fromkeys(found))


def _evidence(chosen: Sources) -> Evidence:
    return {name: of_experiment[0].rows for name, of_experiment in chosen.items()}


def _judged(claim: Claim, chosen: Sources, cache: str) -> Finding:
    findings = [judge(claim, {claim.experiment: source.rows}, cache) for source in chosen.get(claim.experiment, ())]
    return next((finding for finding in findings if finding.parts), judge(claim, {}, cache))


def _short(study: Study) -> str:
    return f"{study.id[0].upper()}, {study.year}"


def _runs(study: Study, chosen: Sources) -> str:
    wanted = dict.fromkeys(claim.experiment for claim in study.claims if claim.experiment)
    runs = {name: " and ".join(source.run for source in of_experiment) for name, of_experiment in chosen.items()}
    parts = [f"{name} from run {runs[name]}" if name in runs else f"{name} not measured" for name in wanted]
    return f"Rows: {', '.join(parts)}."


def _claims(study: Study, chosen: Sources) -> Table:
    rows = []
    for claim in study.claims:
        finding, other = (_judged(claim, chosen, cache) for cache in ("forebay", "xcache"))
        rows.append((claim.rule, _detailed(finding), _other(finding, other), finding.verdict))
    return Table(("rule", "Forebay", "XCache", "holds?"), tuple(rows), dense=True)


def _detailed(finding: Finding) -> str:
    return "; ".join(finding.details()) if len(finding.parts) > 1 else str(finding)


def _other(finding: Finding, other: Finding) -> str:
    """The values of the other cache; none for a claim on reads without a cache."""
    return "" if other.parts == finding.parts else str(other)


def _cell(cell: str | float) -> str:
    return cell if isinstance(cell, str) else f"{cell:g}"
