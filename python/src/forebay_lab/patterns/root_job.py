"""An event loop over some branches of a tree, run by an interpreter that has PyROOT; prints its results as JSON.

It imports nothing of this package: ROOT lives in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import time

import ROOT


def main() -> None:
    """Reads the branches of each event, with a TTreeCache of the given size or without one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--tree", required=True)
    parser.add_argument("--branches", default="", help="patterns of branches, with commas; all of them when empty")
    parser.add_argument("--events", type=int, default=-1)
    parser.add_argument("--cache", type=int, required=True, help="bytes of TTreeCache; 0 for none")
    options = parser.parse_args()
    started, cpu_s = time.monotonic(), time.process_time()
    file = ROOT.TFile.Open(options.url)
    if not file or file.IsZombie():
        raise SystemExit(f"{options.url} cannot be opened")
    tree = file.Get(options.tree)
    if not tree:
        raise SystemExit(f"{options.url} has no tree {options.tree}")
    tree.SetCacheSize(options.cache)
    if options.branches:
        tree.SetBranchStatus("*", 0)
        for pattern in options.branches.split(","):
            tree.SetBranchStatus(pattern, 1)
    events = tree.GetEntries() if options.events < 0 else min(options.events, tree.GetEntries())
    read = 0
    for number in range(events):
        size = tree.GetEntry(number)
        if size < 0:
            raise SystemExit(f"event {number} of {options.url} cannot be read")
        read += size
    file.Close()
    figures = {
        "events": events,
        "event_bytes": read,
        "wall_s": time.monotonic() - started,
        "cpu_s": time.process_time() - cpu_s,
    }
    print(json.dumps(figures))


main()
