"""Writes ROOT files as ROOT does, for `root_jobs.py`: trees behind the last basket, short baskets in the first cluster.

Run by the Python of `.venv-root`: `root_files.py DIRECTORY [COLUMNS [CLUSTERS]]`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ROOT  # type: ignore[import-not-found]

WRITERS = r"""
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <TFile.h>
#include <TRandom3.h>
#include <TTree.h>

std::string column_name(const char *prefix, int number, int digits) {
    char name[16];
    snprintf(name, sizeof name, "%s%0*d", prefix, digits, number);
    return name;
}

// Columns of `length` random numbers, up to a quarter of them zero: no two baskets are of the same length.
void write_tree(const char *path, const char *prefix, int digits, int columns, int length, int entries, int flush) {
    TFile file(path, "RECREATE", "", 101);
    TTree tree("Events", "");
    tree.SetAutoFlush(flush);
    // Without records of trees in between, the list of keys is behind the last basket.
    tree.SetAutoSave(0);
    std::vector<float> values(columns * length);
    for (int number = 0; number < columns; number++) {
        std::string name = column_name(prefix, number, digits);
        std::string leaf = name + (length > 1 ? "[" + std::to_string(length) + "]" : "") + "/F";
        tree.Branch(name.c_str(), &values[number * length], leaf.c_str());
    }
    TRandom3 random(1);
    std::vector<int> zeros(columns);
    for (int entry = 0; entry < entries; entry++) {
        if (entry % flush == 0)
            for (auto &count : zeros)
                count = random.Integer(flush / 4);
        for (int at = 0; at < columns * length; at++)
            values[at] = entry % flush < zeros[at / length] ? 0 : random.Integer(1 << 24) / 64.0f;
        tree.Fill();
    }
    file.Write();
}

void write_ntuple(const char *path, int fields, int entries, int cluster) {
    auto model = ROOT::RNTupleModel::Create();
    std::vector<std::shared_ptr<float>> values;
    for (int number = 0; number < fields; number++)
        values.push_back(model->MakeField<float>(column_name("x", number, 3)));
    ROOT::RNTupleWriteOptions options;
    options.SetCompression(101);
    auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "Events", path, options);
    TRandom3 random(1);
    for (int entry = 0; entry < entries; entry++) {
        for (auto &value : values)
            *value = random.Integer(1 << 24) / 64.0f;
        writer->Fill();
        if (entry % cluster == cluster - 1)
            writer->CommitCluster();
    }
}
"""

ENTRIES = 4000
FAT_COLUMNS, FAT_VALUES, FAT_ENTRIES, FAT_CLUSTERS = 9, 600, 1300, 7
NTUPLE_ENTRIES, NTUPLE_CLUSTERS = 15_000, 12


def main() -> None:
    """Writes a file of each kind."""
    directory = Path(sys.argv[1])
    columns = int(sys.argv[2]) if len(sys.argv) > 2 else 320
    clusters = int(sys.argv[3]) if len(sys.argv) > 3 else 28
    ROOT.gInterpreter.Declare(WRITERS)
    for kind in ("flat", "fat", "ntuple"):
        (directory / kind).mkdir(exist_ok=True)
    ROOT.write_tree(f"{directory}/flat/0.root", "x", 3, columns, 2, ENTRIES * clusters, ENTRIES)
    ROOT.write_tree(
        f"{directory}/fat/0.root",
        "y",
        1,
        FAT_COLUMNS,
        FAT_VALUES,
        FAT_ENTRIES * FAT_CLUSTERS,
        FAT_ENTRIES,
    )
    ROOT.write_ntuple(
        f"{directory}/ntuple/0.root",
        columns,
        NTUPLE_ENTRIES * NTUPLE_CLUSTERS,
        NTUPLE_ENTRIES,
    )


if __name__ == "__main__":
    main()
