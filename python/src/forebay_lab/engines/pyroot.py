"""The event loop in PyROOT: entry by entry, particle by particle."""

from __future__ import annotations

import math

import ROOT

from .job import MASS_BINS, MASS_MAX, OUTGOING, PT_BINS, PT_MAX, TOP, TREE, Job, Result, Stopwatch, digest, main

CACHE_BYTES = 30_000_000


def loop(job: Job) -> Result:
    """Opens, reads, fills, writes, closes."""
    watch = Stopwatch()
    file = ROOT.TFile.Open(job.url)
    if not file or file.IsZombie():
        raise OSError(f"ROOT cannot open {job.url}")
    tree = file.Get(TREE)
    open_s = watch.wall_s()
    if job.tree_cache != "default":
        tree.SetCacheSize(CACHE_BYTES if job.tree_cache == "on" else 0)
        if job.tree_cache == "on":
            tree.AddBranchToCache("*", True)
    pt = ROOT.TH1D("pt", "transverse momentum of particles;GeV", PT_BINS, 0.0, PT_MAX)
    mass = ROOT.TH1D("mass", "mass of the top pair;GeV", MASS_BINS, 0.0, MASS_MAX)
    particles = 0
    for entry in range(job.events):
        if tree.GetEntry(entry) <= 0:
            raise OSError(f"ROOT cannot read entry {entry} of {job.url}")
        particles += fill(tree, pt, mass)
    output = ROOT.TFile(job.output, "RECREATE")
    for histogram in (pt, mass):
        histogram.SetDirectory(output)
        histogram.Write()
    contents = digest([*map(pt.GetBinContent, range(PT_BINS + 2))], [*map(mass.GetBinContent, range(MASS_BINS + 2))])
    output.Close()
    read_bytes = file.GetBytesRead()
    file.Close()
    return Result(watch.wall_s(), watch.cpu_s(), open_s, job.events, particles, read_bytes, contents)


def fill(tree: ROOT.TTree, pt: ROOT.TH1D, mass: ROOT.TH1D) -> int:
    """One event; gives its number of particles."""
    number: int = tree.nparticles
    kinds, status = tree.particles_id, tree.particles_status
    px, py, pz, e = tree.particles_px, tree.particles_py, tree.particles_pz, tree.particles_e
    total_px = total_py = total_pz = total_e = 0.0
    for index in range(number):
        x, y = px[index], py[index]
        pt.Fill(math.sqrt(x * x + y * y))
        if status[index] == OUTGOING and abs(kinds[index]) == TOP:
            total_px += x
            total_py += y
            total_pz += pz[index]
            total_e += e[index]
    square = total_e * total_e - total_px * total_px - total_py * total_py - total_pz * total_pz
    mass.Fill(math.sqrt(max(square, 0.0)))
    return number


if __name__ == "__main__":
    ROOT.gSystem.Load("libNetxNG")
    # ROOT takes a URL of this very machine for the path of a local file, otherwise.
    ROOT.gEnv.SetValue("Path.ForceRemote", 1)
    main(loop)
