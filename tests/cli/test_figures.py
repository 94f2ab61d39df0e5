"""Figures in the README and the comparison are those of the recorded runs that they link."""

from __future__ import annotations

import re
from pathlib import Path

from harness.ground import REPOSITORY

NUMBER = re.compile(r"(?:\d{1,3}(?:[ ,]\d{3})+|\d+)(?:\.\d+)?")
LINK = re.compile(r"\]\(([^)#]+\.md)")


def numbers(text: str) -> list[str]:
    """The numbers of a text, without separators of thousands."""
    return [re.sub("[ ,]", "", found) for found in NUMBER.findall(text)]


def is_recorded(figure: str, recorded: list[str]) -> bool:
    """Whether a figure is a recorded one, or one rounded to fewer digits."""
    _, _, decimals = figure.partition(".")
    value = float(figure)
    step = 10.0 ** -len(decimals) if decimals or value < 1000 else 10.0
    return any(abs(float(number) - value) <= step / 2 + 1e-9 for number in recorded)


def rows(document: Path, section: str) -> list[list[str]]:
    """The cells of the rows of a section's tables, without heads."""
    text = document.read_text().split(f"{section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines[1:]]


def linked(document: Path, cell: str) -> str:
    """The text of the first document that a cell links."""
    found = LINK.search(cell)
    assert found, f"{cell} links no run"
    return (document.parent / found[1]).read_text()


def test_figures_of_the_comparison_are_in_the_runs_that_it_links() -> None:
    document = REPOSITORY / "docs/comparison.md"
    checked, text = 0, ""
    for section in ("## Where Forebay is measurably better", "## Where it is worse, or better by less than a half"):
        for case, *figures, run in rows(document, section):
            text = text if run == "the same" else linked(document, run)
            recorded = numbers(text)
            for figure in numbers(" ".join(figures)):
                assert figure in recorded, f"{case}: {figure} is not in {run}"
                checked += 1
    assert checked > 30


def test_cases_in_which_forebay_is_not_better_are_listed() -> None:
    """Each row of the section is a disadvantage or an advantage of less than a half."""
    document = REPOSITORY / "docs/comparison.md"
    for case, xcache, forebay, _ in rows(document, "## Where it is worse, or better by less than a half"):
        of_xcache, of_forebay = float(numbers(xcache)[0]), float(numbers(forebay)[0])
        is_rate = "for each second" in case
        ratio = of_forebay / of_xcache if is_rate else of_xcache / of_forebay
        assert ratio < 1.5, case


def test_figures_on_the_first_screen_of_the_readme_are_in_the_runs_that_it_links() -> None:
    document = REPOSITORY / "README.md"
    screen = document.read_text().split("## Quick start", 1)[0]
    table, below = screen.split("\nThe first rows are processor time", 1)
    runs = [(document.parent / link).read_text() for link in LINK.findall(below) if link.startswith("bench/runs/")]
    recorded = [number for run in runs for number in numbers(run)]
    figures = [
        figure
        for line in table.splitlines()
        if line.startswith("| ") and "XCache" not in line
        for cell in line.strip("|").split(" | ")[1:]
        for figure in numbers(cell)
    ]
    assert len(figures) >= 18
    for figure in figures:
        assert is_recorded(figure, recorded), f"{figure} is in no linked run"
