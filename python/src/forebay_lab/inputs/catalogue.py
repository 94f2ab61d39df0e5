"""Which input files there are, and making them when they are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import uproot

from ..process import service_directory
from . import collisions, nano

FORMAT = 1
"""Counts up when the same parameters make another file."""

KINDS = ("ttree", "rntuple", "nano")
TREE = "events"


@dataclass(frozen=True)
class Input:
    """A file of events."""

    kind: str
    events: int
    seed: int
    path: Path
    size: int

    @property
    def origin_path(self) -> str:
        """Its path at an origin that serves its directory."""
        return f"/{self.path.name}"

    def facts(self) -> dict[str, object]:
        """The fields for rows and parameters."""
        return {"kind": self.kind, "events_in_file": self.events, "seed": self.seed, "file_bytes": self.size}


def prepare(directory: Path, kind: str, events: int, seed: int, say: Callable[[str], None]) -> Input:
    """The file with these parameters; made unless an earlier run has left it complete."""
    folder = service_directory(directory / "inputs")
    path = folder / f"{kind}-{events}-seed{seed}-v{FORMAT}.root"
    if not path.is_file():
        growing = path.with_suffix(".growing")
        _write(growing, kind, events, seed, lambda done: say(f"{path.name}: {done} of {events} events"))
        growing.chmod(0o644)
        growing.rename(path)
        facts = {"kind": kind, "events": events, "seed": seed, "bytes": path.stat().st_size, "made_with": _versions()}
        path.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n")
    found = Input(kind, events, seed, path, path.stat().st_size)
    say(f"{path} ({found.size / 1e6:.1f} MB, {found.size / events / 1e3:.1f} kB per event)")
    return found


def _write(path: Path, kind: str, events: int, seed: int, progress: Callable[[int], None]) -> None:
    source: Iterable[Any]
    if kind == "nano":
        source = nano.batches(events, seed, progress)
    else:
        source = ({"particles": batch} for batch in collisions.batches(events, seed, progress))
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        writer = None
        for columns in source:
            if writer is None:
                make = file.mkrntuple if kind == "rntuple" else file.mktree
                writer = make(TREE, {name: _type_of(values) for name, values in columns.items()})
            writer.extend(columns)


def _type_of(values: Any) -> Any:
    """The declaration of a branch: the type of one event's entry."""
    return values.type.content if hasattr(values, "type") else values.dtype


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("pythia8mc", "uproot", "awkward", "numpy")}
