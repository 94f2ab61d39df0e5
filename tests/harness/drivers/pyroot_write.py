"""Writes a ROOT file with trees of several kinds: flat, with objects, a TNtuple, and an RNTuple."""

from __future__ import annotations

import sys
import warnings

warnings.filterwarnings("ignore")

import ROOT  # noqa: E402

ENTRIES = 5000
FILL = """
#include <vector>
void fill_trees(TDirectory *top, TDirectory *dir) {
  TRandom3 random(7);
  double x; int n; float pt[8]; std::vector<float> v; TH1F h; TNamed named;
  top->cd();
  TTree events("Events", "flat");
  events.SetAutoFlush(700);
  events.Branch("x", &x); events.Branch("n", &n); events.Branch("pt", pt, "pt[n]/F"); events.Branch("v", &v);
  dir->cd();
  TTree objects("Objects", "split");
  objects.SetAutoFlush(900);
  auto *line = new TLine();
  objects.Branch("line", &line, 32000, 99);
  TNtuple numbers("Numbers", "TNtuple", "a:b:c");
  for (int i = 0; i < ENTRIES; ++i) {
    x = random.Gaus(); n = random.Integer(8); v.clear();
    for (int k = 0; k < n; ++k) { pt[k] = random.Exp(20); v.push_back(pt[k]); }
    line->SetX1(x); line->SetY2(n);
    events.Fill(); objects.Fill(); numbers.Fill(x, n, i);
    if (i == ENTRIES / 2) { top->cd(); events.AutoSave(); events.SetAutoFlush(300); dir->cd(); }
  }
  top->cd(); events.Write();
  dir->cd(); objects.Write(); numbers.Write();
}
void fill_ntuple(TFile &file) {
  auto model = ROOT::RNTupleModel::Create();
  auto x = model->MakeField<double>("x");
  auto v = model->MakeField<std::vector<float>>("v");
  auto w = model->MakeField<std::vector<float>>("w");
  ROOT::RNTupleWriteOptions options;
  options.SetCompression(file.GetCompressionSettings());
  auto writer = ROOT::RNTupleWriter::Append(std::move(model), "Ntuple", file, options);
  TRandom3 random(8);
  for (int i = 0; i < ENTRIES; ++i) {
    *x = random.Gaus(); v->assign(i % 5, *x); w->assign(i % 5, -*x);
    writer->Fill();
    if (i % 1500 == 1499) writer->CommitCluster();
  }
}
"""


def main(path: str, compression: str) -> None:
    """Writes the file."""
    ROOT.gInterpreter.Declare(FILL.replace("ENTRIES", str(ENTRIES)))
    file = ROOT.TFile(path, "RECREATE", "", int(compression))
    ROOT.fill_trees(file, file.mkdir("dir"))
    ROOT.fill_ntuple(file)
    file.Close()


main(*sys.argv[1:])
