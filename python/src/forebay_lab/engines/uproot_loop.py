"""The event loop with uproot: arrays of many events at a time."""

from __future__ import annotations

import importlib
from typing import Any

import awkward as ak
import numpy as np
import uproot

from .job import MASS_BINS, MASS_MAX, OUTGOING, PT_BINS, PT_MAX, TOP, TREE, Job, Result, Stopwatch, digest, main

EVENTS_PER_STEP = 1000
NAMES = ("id", "status", "px", "py", "pz", "e", "m")


def loop(job: Job) -> Result:
    """Opens, reads, fills, writes, closes."""
    watch = Stopwatch()
    pt, mass = np.zeros(PT_BINS + 2), np.zeros(MASS_BINS + 2)
    events = particles = 0
    with uproot.open(job.url, **handler(job.url), object_cache=None, array_cache=None) as file:
        tree = file[TREE]
        open_s = watch.wall_s()
        for columns in steps(tree, job):
            x, y = flat(columns["px"]), flat(columns["py"])
            pt += counts(np.sqrt(x * x + y * y), PT_BINS, PT_MAX)
            mass += counts(masses(columns), MASS_BINS, MASS_MAX)
            particles += len(x)
            events += len(columns["px"])
        read_bytes = int(tree.file.source.num_requested_bytes)
    if events != job.events:
        raise OSError(f"{job.url} has {events} events instead of {job.events}")
    with uproot.recreate(job.output) as output:
        output["pt"] = (pt[1:-1], np.linspace(0.0, PT_MAX, PT_BINS + 1))
        output["mass"] = (mass[1:-1], np.linspace(0.0, MASS_MAX, MASS_BINS + 1))
    return Result(
        watch.wall_s(), watch.cpu_s(), open_s, events, particles, read_bytes, digest(pt.tolist(), mass.tolist())
    )


def handler(url: str) -> dict[str, Any]:
    """The class that reads bytes for uproot.

    For remote files its own source: fsspec-xrootd 0.5 queries the server's limits before a vector read, which fails
    (after minutes) when a cache has sent the client to a local file.
    """
    return {"handler": uproot.source.xrootd.XRootDSource} if url.startswith("root://") else {}


def steps(tree: Any, job: Job) -> Any:
    """The columns of some events after the other."""
    size = min(job.events, EVENTS_PER_STEP)
    if job.kind == "rntuple":
        for first in range(0, job.events, size):
            records = tree.arrays(entry_start=first, entry_stop=min(first + size, job.events))["particles"]
            yield {name: records[name] for name in NAMES}
        return
    branches = [f"particles_{name}" for name in NAMES]
    for arrays in tree.iterate(branches, entry_stop=job.events, step_size=size):
        yield {name: arrays[f"particles_{name}"] for name in NAMES}


def masses(columns: dict[str, Any]) -> Any:
    """The mass of the top pair of each event; sums in the order of the particles, as the other engines do."""
    tops = (columns["status"] == OUTGOING) & (abs(columns["id"]) == TOP)
    sums = []
    for name in ("px", "py", "pz", "e"):
        both = ak.to_numpy(ak.values_astype(columns[name][tops], np.float64))
        sums.append(both[:, 0] + both[:, 1])
    x, y, z, t = sums
    return np.sqrt(np.maximum(t * t - x * x - y * y - z * z, 0.0))


def flat(column: Any) -> Any:
    """All values in double precision."""
    return ak.to_numpy(ak.flatten(column)).astype(np.float64)


def counts(values: Any, bins: int, end: float) -> Any:
    """Values in each bin from 0 to `end`, with underflow and overflow around them."""
    indices = np.clip(np.floor(values * (bins / end)), -1, bins).astype(np.int64) + 1
    return np.bincount(indices, minlength=bins + 2).astype(np.float64)


if __name__ == "__main__":
    # Loaded by the first URL otherwise, within the measured time.
    importlib.import_module("XRootD.client")
    main(loop)
