"""One pass over the tree with uproot, and its cost according to the cache's metrics."""

from __future__ import annotations

import re
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import awkward as ak
import uproot

from .events import TREE

EVENTS_PER_STEP = 50_000
SAMPLE = re.compile(r"^(forebay_(?:client|origin)_bytes_total)\{([^}]*)\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Counters:
    """Bytes counted by the cache since it started."""

    client: int
    hit: int
    origin: int


@dataclass(frozen=True)
class Pass:
    """Results of one pass over the tree."""

    seconds: float
    total: float
    client_bytes: int
    hit_bytes: int
    origin_bytes: int


def read(url: str, admin_url: str) -> Pass:
    """Reads every branch of every event once."""
    before = counters(admin_url)
    started = time.monotonic()
    total = loop(url)
    seconds = time.monotonic() - started
    after = counters(admin_url)
    return Pass(seconds, total, after.client - before.client, after.hit - before.hit, after.origin - before.origin)


def warm_up(path: Path) -> None:
    """Reads a few local events, so that the first timed pass does not include Python's imports."""
    loop(str(path), events_max=EVENTS_PER_STEP)


def loop(url: str, events_max: int | None = None) -> float:
    """The event loop: adds up the transverse momenta, and touches all other branches."""
    total = 0.0
    with uproot.open(url, object_cache=None, array_cache=None) as file:
        for events in file[TREE].iterate(step_size=EVENTS_PER_STEP, entry_stop=events_max):
            total += float(ak.sum(events["Muon_pt"])) + float(ak.sum(events["Jet_pt"]))
    return round(total)


def counters(admin_url: str) -> Counters:
    """Reads the byte counters from /metrics."""
    with urllib.request.urlopen(f"{admin_url}/metrics", timeout=10) as answer:
        samples = SAMPLE.findall(answer.read().decode())
    client = [(labels, int(float(value))) for name, labels, value in samples if "client" in name]
    origin = [int(float(value)) for name, _, value in samples if "origin" in name]
    hit = sum(value for labels, value in client if 'outcome="hit"' in labels)
    return Counters(sum(value for _, value in client), hit, sum(origin))
