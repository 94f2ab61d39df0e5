"""Where servers and clients stand: on this machine's loopback, or at the two ends of an emulated path."""

from __future__ import annotations

from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"


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
    facts: dict[str, object] = field(default_factory=lambda: {"path": "loopback"})
    """What rows tell of it."""


def loopback() -> Path:
    """Everything on this machine, with nothing in between."""
    return Path()
