"""Where servers and clients stand: on this machine's loopback, or at the two ends of an emulated path."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from .errors import LabError
from .process import until

LOOPBACK = "127.0.0.1"
NEAR, FAR = "near", "far"
UP_SECONDS = 60.0
DOWN_SECONDS = 30.0


@dataclass(frozen=True)
class Place:
    """One end of a path: how programs are started there, and the address that others reach it by."""

    address: str = LOOPBACK
    enter: tuple[str, ...] = ()
    """A command in front of another one, which makes that run here."""


@dataclass(frozen=True)
class Path:
    """A client's end, where the caches are too, and an origin's end."""

    near: Place = field(default_factory=Place)
    far: Place = field(default_factory=Place)
    facts: dict[str, object] = field(default_factory=lambda: {"path": "loopback", "rtt_ms": 0.0})
    """The fields for rows."""


def loopback() -> Path:
    """Everything on this machine, with nothing in between."""
    return Path()


@contextmanager
def emulated(wan: FilePath, name: str, description: str) -> Iterator[Path]:
    """A path that is there for a while, made by `forebay-wan` as described (`KIT`, or `FNAL,rtt_ms=20`).

    The client and the caches are on one host and reach each other by its loopback, the origin is on the other.
    """
    with tempfile.TemporaryDirectory(prefix="forebay-lab-wan-") as directory:
        lab_file, log = FilePath(directory) / "lab.json", FilePath(directory) / "log"
        command = [str(wan), "up", "--path", f"{NEAR}:{FAR}={description}", "--json", str(lab_file), "--until-eof"]
        with log.open("wb") as output:
            lab = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True)
        try:
            until(lambda: lab_file.exists() or lab.poll() is not None, f"the path {name} is there", UP_SECONDS)
            if lab.poll() is not None:
                raise LabError(f"the path {name} cannot be made: {log.read_text(errors='replace').strip()}")
            yield _path(name, json.loads(lab_file.read_text()))
        finally:
            _end(lab)


def _path(name: str, lab: dict[str, Any]) -> Path:
    (path,) = lab["paths"]
    addresses = {end["host"]: end["address"] for end in path["ends"]}
    enter = {host: ("nsenter", f"--net={known['netns']}", "--") for host, known in lab["hosts"].items()}
    facts = {field: path[field] for field in ("preset", "rtt_ms", "jitter_ms", "mbit", "loss", "buffer_bytes")}
    return Path(
        near=Place(LOOPBACK, enter[NEAR]),
        far=Place(addresses[FAR], enter[FAR]),
        facts={"path": name, **facts},
    )


def _end(lab: subprocess.Popen[bytes]) -> None:
    """The lab goes with its standard input; it takes all that still runs on its hosts along."""
    if lab.stdin:
        lab.stdin.close()
    try:
        lab.wait(DOWN_SECONDS)
    except subprocess.TimeoutExpired:
        lab.terminate()
        lab.wait(DOWN_SECONDS)
