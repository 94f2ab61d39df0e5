"""Traces from the stream that a Forebay server writes of its clients' reads (`[trace]`, docs/trace.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .trace import Kind, Operation, Range, Trace, TraceError

ALL_FILES = ("*",)
FILES = "trace-*.jsonl"
KINDS = {"read": Kind.READ, "readv": Kind.VECTOR, "pgread": Kind.PAGES}


def parse(source: Path, files: Sequence[str] = ALL_FILES) -> Trace:
    """Reads one file of the stream, or a directory of them; only opens of paths that match a pattern count.

    Each process of a client is a job. A server reports the available bytes, not those requested beyond the end of a
    file, and so does the trace; reads after the end are omitted.

    # Errors
    `TraceError` when a line is not one of the stream.
    """
    operations: list[Operation] = []
    opens = _Opens(files)
    for where, event in _events(source):
        try:
            operation = opens.take(event)
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"{where}: not a line of a trace ({error!r})") from error
        if operation:
            operations.append(operation)
    read_from = {one.handle for one in operations if one.is_read}
    kept = [one for one in operations if one.handle in read_from]
    sizes = {one.path: opens.sizes[one.path] for one in kept if one.kind is Kind.OPEN}
    return Trace.of(kept, {"source": "stream", "file_sizes": sizes})


def _events(source: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line with where it is; one that is being written still is left alone."""
    for file in sorted(source.glob(FILES)) if source.is_dir() else [source]:
        lines = file.read_text().split("\n")[:-1]
        for number, line in enumerate(lines, start=1):
            try:
                event = json.loads(line)
            except ValueError as error:
                raise TraceError(f"{file}, line {number}: {error}") from error
            yield f"{file}, line {number}", event


class _Opens:
    """The opens seen so far; a restarted server counts from 1 again."""

    def __init__(self, files: Sequence[str]) -> None:
        self.sizes: dict[str, int] = {}
        self._files = files
        self._handles: dict[int, tuple[int, int]] = {}
        self._jobs: dict[tuple[str, int, str], int] = {}
        self._count = 0

    def take(self, event: dict[str, Any]) -> Operation | None:
        """The operation of a line, if it is about one of the selected files."""
        number, start_s = int(event["f"]), int(event["t"]) / 1e6
        if event["e"] == "open":
            return self._opened(number, start_s, event)
        if number not in self._handles:
            return None
        handle, job = self._handles[number]
        if event["e"] == "close":
            del self._handles[number]
            return Operation(Kind.CLOSE, handle, start_s, start_s, job)
        parts = event["v"] if event["e"] == "readv" else [(event["o"], event["n"])]
        ranges = tuple(Range(int(offset), int(length)) for offset, length in parts)
        got = sum(part.length for part in ranges)
        if not got:
            return None
        end_s = start_s + int(event["us"]) / 1e6
        return Operation(KINDS[event["e"]], handle, start_s, end_s, job, ranges=ranges, got=got)

    def _opened(self, number: int, at_s: float, event: dict[str, Any]) -> Operation | None:
        self._handles.pop(number, None)
        path = str(event["path"])
        if not any(fnmatch(path, pattern) for pattern in self._files):
            return None
        self._count += 1
        process = (str(event["peer"]).rpartition(":")[0], int(event["pid"]), str(event["app"]))
        job = self._jobs.setdefault(process, len(self._jobs))
        self._handles[number] = (self._count, job)
        self.sizes[path] = int(event["size"])
        return Operation(Kind.OPEN, self._count, at_s, at_s, job, path=path)
