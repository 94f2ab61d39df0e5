"""The experiments of a run directory, as reports read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import LabError
from ..run import Row, read_rows


@dataclass(frozen=True)
class Measured:
    """One experiment of a run."""

    name: str
    directory: Path
    rows: list[Row]
    parameters: Mapping[str, Any]


def experiments(directory: Path) -> list[Measured]:
    """The experiments of a run directory.

    # Errors
    `LabError` when it holds no rows.
    """
    found = []
    for file in sorted(directory.glob("*.jsonl")):
        parameters = file.with_suffix(".parameters.json")
        known = json.loads(parameters.read_text()) if parameters.exists() else {}
        rows = list(read_rows(file))
        if rows:
            found.append(Measured(file.stem, directory, rows, known))
    if not found:
        raise LabError(f"{directory} holds no rows of an experiment (*.jsonl): name a directory below runs/")
    return found
