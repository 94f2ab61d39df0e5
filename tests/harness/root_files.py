"""A small ROOT file with a TTree, and the sums that every reader of it must find."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import awkward as ak
import numpy as np
import uproot

BATCHES = 6
ENTRIES_PER_BATCH = 5000


@dataclass(frozen=True)
class Sums:
    """The sums of an event loop over the tree."""

    entries: int
    values: int
    x: float
    pt: float

    @classmethod
    def from_json(cls, text: str) -> Sums:
        """Reads the output of a driver."""
        return cls(**json.loads(text))

    def agrees_with(self, other: Sums) -> bool:
        """Counts equal, sums equal up to the order of summation."""
        close = np.isclose([self.x, self.pt], [other.x, other.pt], rtol=1e-9)
        return (self.entries, self.values) == (other.entries, other.values) and bool(close.all())


def make_tree(path: Path) -> Sums:
    """Writes the file: a jagged branch and a flat one."""
    random = np.random.default_rng(20)
    entries, values, total_x, total_pt = 0, 0, 0.0, 0.0
    with uproot.recreate(path) as file:
        tree = file.mktree("Events", {"x": "float64", "pt": "var * float32"})
        for _ in range(BATCHES):
            counts = random.integers(0, 8, ENTRIES_PER_BATCH)
            pt = random.exponential(20, int(counts.sum())).astype(np.float32)
            x = random.normal(size=ENTRIES_PER_BATCH)
            tree.extend({"x": x, "pt": ak.unflatten(pt, counts)})
            entries += ENTRIES_PER_BATCH
            values += len(pt)
            total_x += float(x.sum())
            total_pt += float(pt.astype(np.float64).sum())
    return Sums(entries, values, total_x, total_pt)
