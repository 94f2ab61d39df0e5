"""Collects the pages of the documentation site: `pages.py DIRECTORY`, from the root of the repository.

Pages keep their places, so that links between them work here as in the repository. Files that they link are copied as
well, and links to directories become links to the list of the pages there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

PAGES = [
    "*.md",
    "docs/*.md",
    "docs/decisions/*.md",
    "bench/*.md",
    "bench/runs/*/*.md",
    "tests/README.md",
    "python/README.md",
]
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
INDEX = "README.md"
LISTS = {"docs/decisions": "Decisions", "bench/runs": "Recorded runs"}


def main(target: Path) -> None:
    """Fills a directory with all pages."""
    shutil.rmtree(target, ignore_errors=True)
    pages = [page for pattern in PAGES for page in sorted(Path().glob(pattern))]
    for page in pages:
        write(target / page, with_links(page, target))
    for directory, heading in LISTS.items():
        listed = [page for page in pages if page.is_relative_to(directory)]
        lines = [f"- [{title(page)}]({page.relative_to(directory)})" for page in listed]
        write(target / directory / INDEX, f"# {heading}\n\n" + "\n".join(lines) + "\n")


def with_links(page: Path, target: Path) -> str:
    """The text of a page with links for the site, outside of blocks of code."""
    text = page.read_text()

    def replaced(link: re.Match[str]) -> str:
        return copied(link[1], page, target)

    parts = [LINK.sub(replaced, part) for part in FENCE.split(text)]
    return "".join(piece for pair in zip(parts, [*FENCE.findall(text), ""], strict=True) for piece in pair)


def copied(link: str, page: Path, target: Path) -> str:
    """Copies the file of a link if it is not a page; returns the link for the site."""
    name, mark, heading = link.partition("#")
    if not name or ":" in name:
        return link
    path = Path(os.path.normpath(page.parent / name))
    if path.is_dir():
        return f"{name.rstrip('/')}/{INDEX}"
    if path.suffix != ".md" and path.is_file():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / path)
    return name + mark + heading


def title(page: Path) -> str:
    """The text of the first heading, after the name of the run if it belongs to one."""
    heading = page.read_text().splitlines()[0].removeprefix("# ")
    return f"{page.parent.name}: {heading}" if page.is_relative_to("bench/runs") else heading


def write(path: Path, text: str) -> None:
    """Writes a file, and creates its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


main(Path(sys.argv[1]))
