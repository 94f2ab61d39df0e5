"""One document on one or several runs, as HTML and as PDF."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from .errors import LabError
from .report import html, pages, pdf, sections
from .report.document import Block, Heading, PageBreak, Text
from .report.measured import experiments
from .report.studies import load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="directories of runs, such as runs/2026-01-31"
    )
    parser.add_argument("--out", type=Path, help="the files' name without ending (default: `report` in the first run)")
    parser.add_argument("--title", default="Forebay: published measurements of caches, made again")


def run(options: argparse.Namespace) -> None:
    """Writes both files."""
    for directory in options.runs:
        if not directory.is_dir():
            raise LabError(f"{directory} is not a directory")
    stem = options.out or options.runs[0] / "report"
    page, paper = stem.with_name(f"{stem.name}.html"), stem.with_name(f"{stem.name}.pdf")
    page.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="forebay-lab-") as drawn:
        blocks = compose(options.title, options.runs, Path(drawn))
        page.write_text(html.render(options.title, blocks))
        pdf.render(options.title, blocks, paper)
    print(page, paper, sep="\n")


def compose(title: str, directories: list[Path], drawn: Path) -> list[Block]:
    """The whole document: verdicts, studies, each experiment, the environment. Pictures are drawn into `drawn`."""
    measured = [one for directory in directories for one in experiments(directory)]
    studies, chosen, machines = load(), pages.sources(measured), pages.machines(directories)
    blocks: list[Block] = [Heading(1, title)]
    blocks.append(
        Text("Every measured figure is computed from the raw rows of: " + ", ".join(str(path) for path in directories))
    )
    blocks += pages.verdicts(studies, chosen, quick=any(one.parameters.get("quick") for one in measured))
    for study in studies:
        blocks += pages.study_page(study, chosen, machines, drawn)
    blocks += [PageBreak(), *sections.not_better(measured)]
    for one in measured:
        blocks += sections.section(one, drawn)
    return [*blocks, *sections.environment(directories)]
