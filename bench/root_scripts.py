"""Analysis jobs on a ROOT file, as Python programs: `PROGRAM URL COLUMNS`."""

from __future__ import annotations

# Each prints the seconds that its loop took.
PROLOGUE = """import sys, time
url, n = sys.argv[1], int(sys.argv[2])
names = [f'x{37 * i * i % 320:03}' for i in range(1, n + 1)]
"""
# fsspec-xrootd passes on offsets of NumPy, which the client refuses.
UPROOT = """import uproot
from XRootD.client import File
read = File.read
File.read = lambda self, offset=0, size=0, *rest, **named: read(self, int(offset), int(size), *rest, **named)
begin = time.monotonic()
"""
PYROOT = "import ROOT\nROOT.gErrorIgnoreLevel = 3000\nbegin = time.monotonic()\n"
REPORT = "print(time.monotonic() - begin)\n"
LOOP = """
f = ROOT.TFile.Open(url)
t = f.Get('Events')
t.SetCacheSize({cache})
t.SetBranchStatus('*', 0)
for name in names:
    t.SetBranchStatus(name, 1)
for i in range(t.GetEntries()):
    t.GetEntry(i)
"""
# Three columns, or all, of few long ones.
FAT = """
f = ROOT.TFile.Open(url)
t = f.Get('Events')
t.SetCacheSize(30_000_000)
t.SetBranchStatus('*', 0)
for name in [f'y{number}' for number in range(n)]:
    t.SetBranchStatus(name, 1)
for i in range(t.GetEntries()):
    t.GetEntry(i)
"""
# Three columns for each entry, and twenty more for one of 2000.
RARE = """
f = ROOT.TFile.Open(url)
t = f.Get('Events')
always = [t.GetBranch(name) for name in names]
rare = [t.GetBranch(f'x{n:03}') for n in range(5, 305, 15)]
for i in range(t.GetEntries()):
    for branch in always:
        branch.GetEntry(i)
    if i % 2000 == 0:
        for branch in rare:
            branch.GetEntry(i)
"""
SUMS = """
d = ROOT.RDataFrame('Events', url)
sums = [d.Sum(name) for name in names]
sums[0].GetValue()
"""
JOBS = {
    "B": (10, PROLOGUE + PYROOT + LOOP.format(cache=0) + REPORT),
    "C": (
        5,
        PROLOGUE + UPROOT + "for a in uproot.iterate(url + ':Events', names, library='np'): pass\n" + REPORT,
    ),
    "D": (
        5,
        PROLOGUE
        + UPROOT
        + "for a in uproot.iterate(url + ':Events', names, step_size=8_000, library='np'): pass\n"
        + REPORT,
    ),
    "E": (
        10,
        PROLOGUE + PYROOT + SUMS + REPORT,
    ),
    "E2": (
        10,
        PROLOGUE + PYROOT + "ROOT.EnableImplicitMT(2)\n" + SUMS + REPORT,
    ),
    # Opens a tree, for a session with the origin.
    "W": (
        1,
        PROLOGUE + PYROOT + "f = ROOT.TFile.Open(url)\nf.Get('Events').GetEntry(0)\n" + REPORT,
    ),
    "A": (3, PROLOGUE + PYROOT + RARE + REPORT),
    "F": (8, PROLOGUE + PYROOT + SUMS + REPORT),
    "H": (3, PROLOGUE + PYROOT + FAT + REPORT),
    "I": (9, PROLOGUE + PYROOT + FAT + REPORT),
    "G": (10, PROLOGUE + PYROOT + LOOP.format(cache=30_000_000) + REPORT),
}
# The files of each job; the others read `flat`.
DATASETS = {"F": "ntuple", "H": "fat", "I": "fat"}
