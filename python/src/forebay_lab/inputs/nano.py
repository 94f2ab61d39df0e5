"""A flat file with many branches, laid out as a NanoAOD is: scalars, collections with counters, trigger bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import awkward as ak
import numpy as np

EVENTS_PER_BATCH = 2000
COLLECTIONS = {
    "Electron": (0.8, 40),
    "Muon": (1.1, 45),
    "Tau": (0.7, 30),
    "Photon": (1.0, 25),
    "Jet": (7.0, 45),
    "FatJet": (0.6, 40),
}
"""Mean number of objects in an event, and properties of each."""

KINEMATICS = ("pt", "eta", "phi", "mass")
SCALARS = 120
TRIGGERS = 400


def batches(events: int, seed: int, progress: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    """Columns by name, batch by batch."""
    source = np.random.default_rng(seed)
    done = 0
    while done < events:
        wanted = min(EVENTS_PER_BATCH, events - done)
        yield _batch(source, done, wanted)
        done += wanted
        progress(done)


def _batch(source: np.random.Generator, first: int, events: int) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "run": np.full(events, 1, np.uint32),
        "event": np.arange(first, first + events, dtype=np.uint64),
    }
    for name, (mean, properties) in COLLECTIONS.items():
        counts = source.poisson(mean, events)
        columns[name] = ak.zip(
            {field: ak.unflatten(_property(source, field, int(counts.sum())), counts) for field in _fields(properties)}
        )
    for number in range(SCALARS):
        columns[f"Scalar_{number}"] = source.normal(size=events).astype(np.float32)
    for number in range(TRIGGERS):
        columns[f"HLT_{number}"] = source.random(events) < 1 / (2 + number)
    return columns


def _fields(properties: int) -> list[str]:
    return [*KINEMATICS, *(f"property{number}" for number in range(properties - len(KINEMATICS)))]


def _property(source: np.random.Generator, field: str, total: int) -> Any:
    if field == "pt":
        values = source.exponential(30.0, total)
    elif field == "phi":
        values = source.uniform(-np.pi, np.pi, total)
    else:
        values = source.normal(0.0, 1.5, total)
    # Such files keep about ten bits of a number, which lets them be compressed.
    return np.round(values * 256).astype(np.float32) / 256
