"""Reads a TTree with ROOT's TFile::Open and an event loop, and prints its sums as JSON."""

from __future__ import annotations

import json
import sys
import warnings

warnings.filterwarnings("ignore")

import ROOT  # noqa: E402


def main(url: str) -> None:
    """The plainest event loop there is."""
    file = ROOT.TFile.Open(url)
    if not file or file.IsZombie():
        sys.exit(f"cannot open {url}")
    entries, values, total_x, total_pt = 0, 0, 0.0, 0.0
    for event in file.Get("Events"):
        entries += 1
        values += len(event.pt)
        total_x += event.x
        total_pt += sum(event.pt)
    file.Close()
    print(json.dumps({"entries": entries, "values": values, "x": total_x, "pt": total_pt}))


main(*sys.argv[1:])
