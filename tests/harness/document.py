"""Blocks of documents, which tests run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

BLOCKS = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of a section, and what its first line says of it: a language, and for shells the host."""

    kind: str
    text: str


def sections(document: Path) -> dict[str, list[Block]]:
    """The blocks of each section."""
    parts = re.split(r"^##+ (.*)$", document.read_text(), flags=re.MULTILINE)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {head: [Block(*found) for found in BLOCKS.findall(body)] for head, body in pairs}
