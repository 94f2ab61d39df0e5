"""The trace of a job: each open, read and close with its times, and how it is kept in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..errors import LabError

FORMAT = "forebay-lab-trace"
VERSION = 1


class TraceError(LabError):
    """A trace that cannot be made, read or used."""


class Kind(StrEnum):
    """The kind of an operation."""

    OPEN = "open"
    READ = "read"
    VECTOR = "vector"
    PAGES = "pages"
    CLOSE = "close"


READS = frozenset({Kind.READ, Kind.VECTOR, Kind.PAGES})


@dataclass(frozen=True, slots=True)
class Range:
    """A requested range of a file."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a job. Times are seconds since the trace begins; `end_s` is when the answer was there."""

    kind: Kind
    handle: int
    """Which open file; a number used once in a trace."""
    start_s: float
    end_s: float
    job: int = 0
    """Operations of one job wait for each other, those of different jobs never do."""
    path: str = ""
    """Opens only: the path or URL."""
    ranges: tuple[Range, ...] = ()
    """Reads only: one range, or the elements of a vector read."""
    got: int = 0
    """Reads only: received bytes; fewer than requested at the end of a file."""

    @property
    def asked(self) -> int:
        """Requested bytes."""
        return sum(part.length for part in self.ranges)

    @property
    def is_read(self) -> bool:
        """Whether this requests bytes."""
        return self.kind in READS


@dataclass(frozen=True)
class Trace:
    """Operations in the order in which they were issued, and facts about the job."""

    operations: tuple[Operation, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Such as `source`, `command`, `wall_s`, `cpu_s`, `events`; nothing of it is needed to replay."""

    @classmethod
    def of(cls, operations: Iterable[Operation], facts: Mapping[str, Any]) -> Trace:
        """A trace of operations with any times: ordered, and beginning at zero."""
        ordered = sorted(operations, key=lambda operation: operation.start_s)
        origin = ordered[0].start_s if ordered else 0.0
        shifted = (replace(one, start_s=one.start_s - origin, end_s=one.end_s - origin) for one in ordered)
        return cls(tuple(shifted), facts)

    @property
    def reads(self) -> list[Operation]:
        """The operations that ask for bytes."""
        return [operation for operation in self.operations if operation.is_read]

    @property
    def paths(self) -> dict[int, str]:
        """The path of each handle."""
        return {one.handle: one.path for one in self.operations if one.kind is Kind.OPEN}

    @property
    def duration_s(self) -> float:
        """From the first call to the last answer."""
        return max((operation.end_s for operation in self.operations), default=0.0)

    def only(self, paths: Iterable[str]) -> Trace:
        """The part of the trace that is about some files."""
        wanted = set(paths)
        handles = {handle for handle, path in self.paths.items() if path in wanted}
        return Trace.of((one for one in self.operations if one.handle in handles), self.facts)

    def save(self, file: Path) -> Path:
        """Writes the trace as JSON lines: a line of facts, then one for each operation."""
        head = {"format": FORMAT, "version": VERSION, **self.facts}
        lines = [json.dumps(head), *(json.dumps(_as_json(one)) for one in self.operations)]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")
        return file

    @classmethod
    def load(cls, file: Path) -> Trace:
        """Reads what `save` has written.

        # Errors
        `TraceError` when the file is not such a trace.
        """
        lines = file.read_text().splitlines()
        try:
            head = json.loads(lines[0]) if lines else {}
            if not isinstance(head, dict) or head.get("format") != FORMAT or head.get("version") != VERSION:
                raise TraceError(f"{file} is not a trace of version {VERSION}: `forebay-lab trace record` makes one")
            facts = {key: value for key, value in head.items() if key not in ("format", "version")}
            return cls(tuple(_from_json(line) for line in lines[1:] if line), facts)
        except (ValueError, KeyError, TypeError) as error:
            raise TraceError(f"{file} is damaged: {error}") from error


def sequences(trace: Trace) -> Iterator[tuple[int, list[Operation]]]:
    """The reads of each handle, in order."""
    by_handle: dict[int, list[Operation]] = {}
    for operation in trace.reads:
        by_handle.setdefault(operation.handle, []).append(operation)
    yield from by_handle.items()


def _as_json(one: Operation) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "op": one.kind.value,
        "handle": one.handle,
        "start": round(one.start_s, 6),
        "end": round(one.end_s, 6),
    }
    if one.job:
        entry["job"] = one.job
    if one.kind is Kind.OPEN:
        entry["path"] = one.path
    if one.is_read:
        entry["ranges"] = [[part.offset, part.length] for part in one.ranges]
        entry["got"] = one.got
    return entry


def _from_json(line: str) -> Operation:
    entry = json.loads(line)
    return Operation(
        kind=Kind(entry["op"]),
        handle=int(entry["handle"]),
        start_s=float(entry["start"]),
        end_s=float(entry["end"]),
        job=int(entry.get("job", 0)),
        path=str(entry.get("path", "")),
        ranges=tuple(Range(int(offset), int(length)) for offset, length in entry.get("ranges", [])),
        got=int(entry.get("got", 0)),
    )
