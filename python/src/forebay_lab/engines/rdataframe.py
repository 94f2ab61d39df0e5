"""The event loop as an RDataFrame: columns are declared, ROOT loops."""

from __future__ import annotations

import ROOT

from .job import MASS_BINS, MASS_MAX, OUTGOING, PT_BINS, PT_MAX, TOP, TREE, Job, Result, Stopwatch, digest, main

FUNCTIONS = f"""
#include <cmath>
ROOT::RVecD lab_pt(const ROOT::RVecF &px, const ROOT::RVecF &py) {{
    ROOT::RVecD pt(px.size());
    for (std::size_t i = 0; i < px.size(); ++i) {{
        const double x = px[i], y = py[i];
        pt[i] = std::sqrt(x * x + y * y);
    }}
    return pt;
}}
double lab_mass(const ROOT::RVecI &id, const ROOT::RVecI &status, const ROOT::RVecF &px, const ROOT::RVecF &py,
                const ROOT::RVecF &pz, const ROOT::RVecF &e) {{
    double x = 0, y = 0, z = 0, t = 0;
    for (std::size_t i = 0; i < id.size(); ++i) {{
        if (status[i] != {OUTGOING} || std::abs(id[i]) != {TOP}) continue;
        x += px[i]; y += py[i]; z += pz[i]; t += e[i];
    }}
    return std::sqrt(std::max(t * t - x * x - y * y - z * z, 0.0));
}}
"""


def loop(job: Job) -> Result:
    """Opens, reads, fills, writes, closes."""
    watch = Stopwatch()
    before = ROOT.TFile.GetFileBytesRead()
    frame = ROOT.RDataFrame(TREE, job.url)
    open_s = watch.wall_s()
    at = "." if job.kind == "rntuple" else "_"
    names = {name: f"particles{at}{name}" for name in ("id", "status", "px", "py", "pz", "e")}
    columns = ", ".join(f"@{name}" for name in names)
    for name, column in names.items():
        columns = columns.replace(f"@{name}", column, 1)
    defined = (
        frame.Range(job.events)
        .Define("lab_pt_column", f"lab_pt({names['px']}, {names['py']})")
        .Define("lab_mass_column", f"lab_mass({columns})")
    )
    pt = defined.Histo1D(("pt", "transverse momentum of particles;GeV", PT_BINS, 0.0, PT_MAX), "lab_pt_column")
    mass = defined.Histo1D(("mass", "mass of the top pair;GeV", MASS_BINS, 0.0, MASS_MAX), "lab_mass_column")
    output = ROOT.TFile(job.output, "RECREATE")
    for histogram in (pt, mass):
        histogram.Write()
    output.Close()
    wall_s, cpu_s = watch.wall_s(), watch.cpu_s()
    contents = digest([*map(pt.GetBinContent, range(PT_BINS + 2))], [*map(mass.GetBinContent, range(MASS_BINS + 2))])
    particles, events = int(pt.GetEntries()), int(mass.GetEntries())
    read_bytes = ROOT.TFile.GetFileBytesRead() - before
    return Result(wall_s, cpu_s, open_s, events, particles, read_bytes, contents)


if __name__ == "__main__":
    ROOT.gSystem.Load("libNetxNG")
    # ROOT takes a URL of this very machine for the path of a local file, otherwise.
    ROOT.gEnv.SetValue("Path.ForceRemote", 1)
    ROOT.gInterpreter.Declare(FUNCTIONS)
    main(loop)
