"""Figures of a trace: calls, bytes, sequential share, bytes read more than once, sizes of requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .trace import Operation, Range, Trace, sequences


@dataclass(frozen=True)
class Measures:
    """Figures of the reads of a trace. A vector read is one call of several ranges."""

    files: int
    calls: int
    vector_calls: int
    ranges: int
    bytes: int
    """Requested bytes."""
    bytes_got: int
    bytes_once: int
    """Bytes of the files that were requested at least once."""
    bytes_again: int
    """Bytes requested again."""
    sequential_ranges: int
    """Ranges that begin where the one before it ended, on the same handle; the first one when it begins at 0."""
    sequential_bytes: int
    size_min: int
    size_median: float
    size_max: int
    duration_s: float
    waiting_s: float
    """Time in which at least one read was under way."""

    @property
    def sequential_share(self) -> float:
        """Sequential ranges of all ranges."""
        return self.sequential_ranges / self.ranges if self.ranges else 0.0

    @property
    def sequential_byte_share(self) -> float:
        """Bytes of sequential ranges of all bytes."""
        return self.sequential_bytes / self.bytes if self.bytes else 0.0

    def as_json(self) -> dict[str, Any]:
        """All figures, for a file of results."""
        return {
            **asdict(self),
            "sequential_share": self.sequential_share,
            "sequential_byte_share": self.sequential_byte_share,
        }


def measure(trace: Trace) -> Measures:
    """The figures of a trace."""
    reads = trace.reads
    sizes = request_sizes(trace)
    paths = trace.paths
    ranges_of: dict[str, list[Range]] = {}
    for read in reads:
        ranges_of.setdefault(paths.get(read.handle, str(read.handle)), []).extend(read.ranges)
    asked = int(sizes.sum()) if sizes.size else 0
    once = sum(covered(ranges) for ranges in ranges_of.values())
    sequential = [part.length for _, on_handle in sequences(trace) for part in sequential_ranges(on_handle)]
    return Measures(
        files=len(ranges_of),
        calls=len(reads),
        vector_calls=sum(len(read.ranges) > 1 for read in reads),
        ranges=int(sizes.size),
        bytes=asked,
        bytes_got=sum(read.got for read in reads),
        bytes_once=once,
        bytes_again=asked - once,
        sequential_ranges=len(sequential),
        sequential_bytes=sum(sequential),
        size_min=int(sizes.min()) if sizes.size else 0,
        size_median=float(np.median(sizes)) if sizes.size else 0.0,
        size_max=int(sizes.max()) if sizes.size else 0,
        duration_s=trace.duration_s,
        waiting_s=busy_s(reads),
    )


def request_sizes(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The length of each range, in order."""
    return np.array([part.length for read in trace.reads for part in read.ranges], dtype=np.int64)


def covered(ranges: Iterable[Range]) -> int:
    """Bytes that are in at least one of the ranges."""
    total, reached = 0, 0
    for part in sorted(ranges, key=lambda one: one.offset):
        total += max(0, part.end - max(part.offset, reached))
        reached = max(reached, part.end)
    return total


def sequential_ranges(reads: Iterable[Operation]) -> Iterable[Range]:
    """The ranges of one handle's reads that begin at the end of the previous one."""
    position = 0
    for read in reads:
        for part in read.ranges:
            if part.offset == position:
                yield part
            position = part.end


def busy_s(operations: Iterable[Operation]) -> float:
    """Time in which at least one of the operations was under way."""
    total, reached = 0.0, float("-inf")
    for one in sorted(operations, key=lambda operation: operation.start_s):
        total += max(0.0, one.end_s - max(one.start_s, reached))
        reached = max(reached, one.end_s)
    return total
