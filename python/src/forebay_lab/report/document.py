"""The blocks of a report, before it is HTML or PDF, and their creation from the experiments' Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FIGURE = re.compile(r"^([-+]?\d|nan|$)")
"""How a cell with a figure begins; an empty one is a figure that is not there."""


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the document's."""

    level: int
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    published: bool = False
    """Whether the figures were published by others, on other hardware: shown in another colour, with a note."""
    dense: bool = False
    """Whether it has small letters, for pages that must hold much."""

    def is_number(self, column: int) -> bool:
        """Whether a column holds figures, which are set to the right."""
        return all(FIGURE.match(row[column]) for row in self.rows)


@dataclass(frozen=True)
class Picture:
    """A PNG with a caption."""

    file: Path
    caption: str
    share: float = 1.0
    """Its share of the width of the page."""


@dataclass(frozen=True)
class PageBreak:
    """The following blocks begin on a new page."""


Block = Heading | Text | Items | Table | Picture | PageBreak


def from_markdown(text: str, *, deeper: int = 0) -> Iterator[Block]:
    """The headings, paragraphs, lists and tables of a text as the experiments write them."""
    for part in text.strip().split("\n\n"):
        lines = [line for line in part.splitlines() if line.strip()]
        while lines and lines[0].startswith("#"):
            marks, _, title = lines.pop(0).partition(" ")
            yield Heading(len(marks) + deeper, title)
        if not lines:
            continue
        if all(line.startswith("|") for line in lines) and len(lines) >= 2:
            yield _table(lines)
        elif all(line.startswith("- ") for line in lines):
            yield Items(tuple(line[2:] for line in lines))
        else:
            yield Text(" ".join(lines))


def _table(lines: list[str]) -> Table:
    header, _line, *rows = (_cells(line) for line in lines)
    return Table(header, tuple(rows))


def _cells(line: str) -> tuple[str, ...]:
    inner = line.strip().removeprefix("|").removesuffix("|").replace("\\|", "\0")
    return tuple(cell.strip().replace("\0", "|") for cell in inner.split("|"))
