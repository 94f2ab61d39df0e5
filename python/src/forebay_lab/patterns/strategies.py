"""Read strategies: the trace of a client that reads ahead or splits vector reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from .trace import Kind, Operation, Range, Trace

DCAP_READ_AHEAD = 128 << 10
"""The read-ahead buffer of dCap's client, in bytes."""

JOINED_LENGTH = 256_000
"""ROOT's limit for baskets that it reads together where the protocol has no vector reads (`TFile.ReadaheadSize`)."""


@dataclass(frozen=True)
class Strategy:
    """A read strategy: the job it is derived from, and the client's change to that job's reads."""

    name: str
    tree_cache: bool
    """Whether the job has a TTreeCache; both jobs are recorded."""
    change: Callable[[Trace], Trace]
    text: str


def as_recorded(trace: Trace) -> Trace:
    """The trace itself."""
    return trace


def single_reads(trace: Trace) -> Trace:
    """Each element of a vector read becomes a read of its own, one after the other."""

    def apart(read: Operation) -> Iterator[Operation]:
        took_s = (read.end_s - read.start_s) / max(1, len(read.ranges))
        for place, part in enumerate(read.ranges):
            start_s = read.start_s + place * took_s
            times = replace(read, start_s=start_s, end_s=start_s + took_s)
            yield replace(times, kind=Kind.READ, ranges=(part,), got=part.length)

    return _in_turn(trace, lambda _handle: apart)


def joined_reads(trace: Trace, limit: int = JOINED_LENGTH) -> Trace:
    """Elements of a vector read that lie within `limit` bytes become one read, with the bytes between them.

    So ROOT fills a TTreeCache where the protocol has no vector reads.
    """

    def together(read: Operation) -> Iterator[Operation]:
        groups: list[Range] = []
        for part in read.ranges:
            begin = groups[-1].offset if groups else 0
            if groups and begin <= part.offset and part.end - begin < limit:
                groups[-1] = Range(begin, max(part.end, groups[-1].end) - begin)
            else:
                groups.append(part)
        took_s = (read.end_s - read.start_s) / max(1, len(groups))
        for place, part in enumerate(groups):
            start_s = read.start_s + place * took_s
            times = replace(read, start_s=start_s, end_s=start_s + took_s)
            yield replace(times, kind=Kind.READ, ranges=(part,), got=part.length)

    return _in_turn(trace, lambda _handle: together)


def read_ahead(trace: Trace, size: int = DCAP_READ_AHEAD) -> Trace:
    """The client has one buffer of `size` bytes per file, and requests at least that many bytes.

    A read within the buffer makes no request. Any other one takes its beginning from the buffer if present, and asks
    for the rest, or for `size` bytes if the rest is less; these bytes become the buffer.
    """

    def buffered(_handle: int) -> Callable[[Operation], Iterable[Operation]]:
        held = Range(0, 0)

        def ask(read: Operation) -> Iterator[Operation]:
            nonlocal held
            for part in read.ranges:
                begin = held.end if held.offset <= part.offset < held.end else part.offset
                if part.end <= begin:
                    continue
                held = Range(begin, max(part.end - begin, size))
                yield replace(read, kind=Kind.READ, ranges=(held,), got=held.length)

        return ask

    return _in_turn(trace, buffered)


def read_ahead_of_single_reads(trace: Trace) -> Trace:
    """Vector reads taken apart, then read with a buffer: dCap had no vector reads."""
    return read_ahead(single_reads(trace))


STRATEGIES = (
    Strategy("plain", False, as_recorded, "no TTreeCache, no read-ahead: every basket is a separate request"),
    Strategy("read-ahead", False, read_ahead, "no TTreeCache, fixed read-ahead of 128 KiB as dCap had it"),
    Strategy("cache, single reads", True, single_reads, "TTreeCache, but each basket by a read of its own"),
    Strategy("cache, read-ahead", True, read_ahead_of_single_reads, "the same with a fixed read-ahead of 128 KiB"),
    Strategy("cache, vector reads", True, as_recorded, "TTreeCache with vector reads: ROOT's way over root://"),
)


def _in_turn(trace: Trace, of_handle: Callable[[int], Callable[[Operation], Iterable[Operation]]]) -> Trace:
    """Replaces each read and recomputes the times: sequential calls with the same thinking in between.

    A replacement gets the duration of the read; the replay measures it anyway, only the thinking matters.
    """
    clocks: dict[int, float] = {}
    reached: dict[int, float] = {}
    changes: dict[int, Callable[[Operation], Iterable[Operation]]] = {}
    made: list[Operation] = []
    for operation in trace.operations:
        job = operation.job
        clock = clocks.get(job, 0.0) + max(0.0, operation.start_s - reached.get(job, 0.0))
        reached[job] = max(reached.get(job, 0.0), operation.end_s)
        if operation.is_read:
            if operation.handle not in changes:
                changes[operation.handle] = of_handle(operation.handle)
            calls = list(changes[operation.handle](operation))
        else:
            calls = [operation]
        for call in calls:
            took_s = call.end_s - call.start_s
            made.append(replace(call, start_s=clock, end_s=clock + took_s))
            clock += took_s
        clocks[job] = clock
    return Trace(tuple(sorted(made, key=lambda one: one.start_s)), trace.facts)
