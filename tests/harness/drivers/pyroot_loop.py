"""Fills a histogram in an event loop over a TTree; waits in mid-loop for a signal. Prints the bins as JSON."""

from __future__ import annotations

import json
import sys
import warnings

warnings.filterwarnings("ignore")

import ROOT  # noqa: E402


def main(url: str) -> None:
    """The plainest event loop there is, with a small read cache so that it reads in many pieces."""
    file = ROOT.TFile.Open(url)
    if not file or file.IsZombie():
        sys.exit(f"cannot open {url}")
    tree = file.Get("Events")
    tree.SetCacheSize(100_000)
    histogram = ROOT.TH1D("pt", "pt", 100, 0, 200)
    for number, event in enumerate(tree):
        if number == tree.GetEntries() // 2:
            print("half", flush=True)
            sys.stdin.readline()
        for pt in event.pt:
            histogram.Fill(pt)
    bins = [histogram.GetBinContent(index) for index in range(histogram.GetNbinsX() + 2)]
    file.Close()
    print(json.dumps(bins))


main(*sys.argv[1:])
