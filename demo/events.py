"""The demo's data: a ROOT file of at least 200 MB with a TTree of jagged branches, as collision events have them."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import uproot

FILE_BYTES_MIN = 200_000_000
EVENTS_PER_BATCH = 100_000
COLLECTIONS = {"Muon": 2.0, "Jet": 6.0}
TREE = "Events"
SEED = 1


def prepare(path: Path) -> Path:
    """Makes the file unless an earlier run has left it complete."""
    if path.is_file() and path.stat().st_size >= FILE_BYTES_MIN:
        print(f"using {path} ({path.stat().st_size / 1e6:.0f} MB)")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"generating {path} …", end="", flush=True)
    growing = path.with_suffix(".growing")
    write(growing)
    growing.rename(path)
    print(f" {path.stat().st_size / 1e6:.0f} MB")
    return path


def write(path: Path) -> None:
    """Writes batches of events until the file is large enough."""
    random = np.random.default_rng(SEED)
    branches = {"run": "uint32", "event": "uint64"}
    branches |= {f"{name}_{field}": "var * float32" for name in COLLECTIONS for field in ("pt", "eta", "phi", "mass")}
    with uproot.recreate(path, compression=uproot.LZ4(1)) as file:
        tree = file.mktree(TREE, branches)
        first = 0
        while path.stat().st_size < FILE_BYTES_MIN:
            tree.extend(batch(random, first))
            first += EVENTS_PER_BATCH


def batch(random: np.random.Generator, first: int) -> dict[str, object]:
    """Some events: each has a varying number of muons and jets."""
    numbers = np.arange(first, first + EVENTS_PER_BATCH, dtype=np.uint64)
    columns: dict[str, object] = {"run": np.full(EVENTS_PER_BATCH, 1, np.uint32), "event": numbers}
    for name, mean in COLLECTIONS.items():
        counts = random.poisson(mean, EVENTS_PER_BATCH)
        total = int(counts.sum())
        fields = {
            "pt": random.exponential(30.0, total),
            "eta": random.normal(0.0, 1.5, total),
            "phi": random.uniform(-np.pi, np.pi, total),
            "mass": random.exponential(5.0, total),
        }
        for field, values in fields.items():
            columns[f"{name}_{field}"] = ak.unflatten(values.astype(np.float32), counts)
    return columns
