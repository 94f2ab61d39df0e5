"""Records of accesses, as servers write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .waiting import until


def written(directory: Path) -> list[dict[str, Any]]:
    """Every record in the files of a directory, in the order in which they were written."""
    texts = (path.read_text() for path in sorted(directory.glob("records-*.jsonl")))
    # The last line of the newest file may be on its way.
    return [json.loads(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]


def closes(directory: Path, count: int) -> list[dict[str, Any]]:
    """The closes, once there are so many."""

    def found() -> list[dict[str, Any]] | None:
        records = [record for record in written(directory) if record["event"] == "close"]
        return records if len(records) >= count else None

    return until(found, f"{count} closes are recorded")
