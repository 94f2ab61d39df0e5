"""Reads a TTree with uproot through fsspec-xrootd and prints its sums as JSON."""

from __future__ import annotations

import json
import sys

import awkward as ak
import uproot


def main(url: str) -> None:
    """Loops over the tree in steps, as an analysis does."""
    entries, values, total_x, total_pt = 0, 0, 0.0, 0.0
    with uproot.open(url) as file:
        for batch in file["Events"].iterate(["x", "pt"], step_size=5000):
            entries += len(batch)
            values += int(ak.count(batch["pt"]))
            total_x += float(ak.sum(batch["x"]))
            total_pt += float(ak.sum(ak.values_astype(batch["pt"], "float64")))
    print(json.dumps({"entries": entries, "values": values, "x": total_x, "pt": total_pt}))


main(*sys.argv[1:])
