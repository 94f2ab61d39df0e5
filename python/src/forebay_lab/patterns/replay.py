"""Replays a trace against servers: exactly the recorded reads, with the time the job thought between them."""

from __future__ import annotations

import heapq
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from XRootD import client

from . import recorder
from .schedule import Step, plan
from .trace import Kind, Operation, Trace, TraceError

SOURCES = Path(__file__).resolve().parents[2]
STALLED_SECONDS = 900.0
"""A replay in which no answer comes for so long has failed. XRootD's client gives up on a server sooner."""


@dataclass(frozen=True)
class Target:
    """Where the files of a trace are to be read from."""

    endpoint: str = ""
    """`root://HOST:PORT` in place of the recorded server; a directory for local files; empty for the recorded ones."""
    renames: tuple[tuple[str, str], ...] = ()
    """Path prefixes and their replacements; the first match counts."""

    def url(self, recorded: str) -> str:
        """Where a recorded path or URL is now."""
        parts = urlsplit(recorded)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        path = "/" + path.lstrip("/") if parts.scheme else path
        server = f"{parts.scheme}://{parts.netloc}" if parts.scheme else ""
        for before, after in self.renames:
            if path.startswith(before):
                path = after + path[len(before) :]
                break
        if self.endpoint.startswith("/"):
            return self.endpoint.rstrip("/") + "/" + path.split("?", 1)[0].lstrip("/")
        server = self.endpoint.rstrip("/") or server
        return f"{server}/{path}" if server else path


@dataclass(frozen=True)
class Outcome:
    """Results of a replay."""

    trace: Trace
    """The calls as they went, with their times and the bytes that came."""
    wall_s: float
    cpu_s: float
    """Of the process that replays: the client library's work, not the job's."""
    failures: tuple[str, ...]


def replay(trace: Trace, target: Target, *, think: float = 1.0) -> Outcome:
    """Issues the calls of a trace; those that overlapped when recorded overlap again.

    # Errors
    `TraceError` when no answer comes at all any more.
    """
    _start_client()
    return _Player(plan(trace, think=think), target).play()


def replay_recorded(
    trace: Trace, target: Target, *, think: float = 1.0, enter: Sequence[str] = ()
) -> tuple[Outcome, Trace]:
    """Replays in a separate process with the client's recorder; returns the recorded trace as well.

    `enter` is a command in front of that process, such as one that enters a network name space.

    # Errors
    `TraceError` when the replay or the recorder fails.
    """
    with tempfile.TemporaryDirectory(prefix="forebay-lab-") as folder:
        source, result, seen = (Path(folder) / name for name in ("trace", "result", "record.csv"))
        trace.save(source)
        wanted = {"target": asdict(target), "think": think}
        module = [sys.executable, "-m", "forebay_lab.patterns.replay"]
        command = [*enter, *module, str(source), str(result), json.dumps(wanted)]
        environment = {**os.environ, "PYTHONPATH": str(SOURCES), **recorder.environment(seen)}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise TraceError(f"the replay ended with {ended.returncode}: {ended.stderr[-2000:]}")
        if not seen.exists():
            raise TraceError(f"the client did not load {recorder.PLUGIN}: the reads cannot be verified")
        return _outcome(Trace.load(result)), recorder.parse(seen)


def replay_exactly(trace: Trace, target: Target, *, think: float = 1.0, enter: Sequence[str] = ()) -> Outcome:
    """Replays, and proves by the client's recorder that exactly the reads of the trace were made.

    # Errors
    `TraceError` when a call fails, or anything else was read.
    """
    outcome, seen = replay_recorded(trace, target, think=think, enter=enter)
    if outcome.failures:
        raise TraceError(f"the replay at {target.endpoint or 'the recorded server'} failed: {outcome.failures[0]}")
    wrong = differences(trace, seen)
    if wrong:
        raise TraceError(f"the replay at {target.endpoint or 'the recorded server'} read something else: {wrong[0]}")
    return outcome


def differences(wanted: Trace, seen: Trace, *, limit: int = 10) -> list[str]:
    """Where the reads of two traces differ, file by file, in words; empty when they are the same.

    Reads are compared in order; only those that overlapped in the wanted trace may have changed places. A page read and
    a plain one of the same bytes are the same: Python's client has no page reads.
    """
    found = []
    expected, got = _by_file(wanted), _by_file(seen)
    if len(expected) != len(got):
        found.append(f"{len(got)} files were read instead of {len(expected)}")
    for number, (before, after) in enumerate(zip(expected, got, strict=False), start=1):
        if len(before) != len(after):
            found.append(f"file {number}: {len(after)} reads instead of {len(before)}")
        together = _overlapping(before)
        pairs = zip(_asked(before, together), _asked(after, together), strict=False)
        for place, (one, other) in enumerate(pairs, start=1):
            if one != other:
                found.append(f"file {number}, read {place}: {_words(other)} instead of {_words(one)}")
    return found[:limit]


Ranges = tuple[tuple[int, int], ...]


def _by_file(trace: Trace) -> list[list[Operation]]:
    """The reads of each open file, in the order of the opens."""
    reads: dict[int, list[Operation]] = {one.handle: [] for one in trace.operations if one.kind is Kind.OPEN}
    for read in trace.reads:
        reads.setdefault(read.handle, []).append(read)
    return [of_file for of_file in reads.values() if of_file]


def _overlapping(reads: Sequence[Operation]) -> list[slice]:
    """Groups of reads that overlapped, one after the other, by their places."""
    groups: list[slice] = []
    reached = float("-inf")
    for place, read in enumerate(reads):
        begin = groups.pop().start if read.start_s < reached else place
        groups.append(slice(begin, place + 1))
        reached = max(reached, read.end_s)
    return groups


def _asked(reads: Sequence[Operation], together: Sequence[slice]) -> list[Ranges]:
    """The requested ranges; those that may change places are sorted, the ranges after all groups follow."""
    asked = [tuple((part.offset, part.length) for part in read.ranges) for read in reads]
    known = [one for group in together for one in sorted(asked[group])]
    return [*known, *asked[len(known) :]]


def _words(ranges: Ranges) -> str:
    if len(ranges) == 1:
        return "{1} bytes at {0}".format(*ranges[0])
    return f"a vector of {len(ranges)} from {ranges[0][0]}"


def _start_client() -> None:
    """Opens a local file, so that the client library's initialisation is not part of the replay."""
    file = client.File()
    file.open(__file__)
    file.close()


class _Player:
    """Issues steps when they are due. Answers come on threads of the client; calls are made by one thread."""

    def __init__(self, steps: Sequence[Step], target: Target) -> None:
        self._steps = steps
        self._target = target
        self._changed = threading.Condition()
        self._missing = [len(step.after) + (step.behind is not None) for step in steps]
        self._earliest_s = [step.think_s for step in steps]
        self._after_answer: dict[int, list[int]] = {}
        self._after_call: dict[int, list[int]] = {}
        for number, step in enumerate(steps):
            for earlier in step.after:
                self._after_answer.setdefault(earlier, []).append(number)
            if step.behind is not None:
                self._after_call.setdefault(step.behind, []).append(number)
        self._due = [(self._earliest_s[number], number) for number, missing in enumerate(self._missing) if not missing]
        self._files: dict[int, Any] = {}
        self._started: dict[int, float] = {}
        self._done: dict[int, Operation] = {}
        self._failures: list[str] = []
        self._origin = 0.0

    def play(self) -> Outcome:
        cpu_s, self._origin = time.process_time(), time.monotonic()
        heapq.heapify(self._due)
        while (due := self._next()) is not None:
            self._issue(due)
        wall_s = time.monotonic() - self._origin
        trace = Trace(tuple(self._done[number] for number in sorted(self._done)), {"source": "replay"})
        return Outcome(trace, wall_s, time.process_time() - cpu_s, tuple(self._failures))

    def _now(self) -> float:
        return time.monotonic() - self._origin

    def _next(self) -> int | None:
        """Waits for the next due step; None when all are answered, or none can continue after a failure."""
        with self._changed:
            while len(self._done) < len(self._started if self._failures else self._steps):
                pause_s = STALLED_SECONDS
                if self._due and not self._failures:
                    pause_s = self._due[0][0] - self._now()
                    if pause_s <= 0:
                        return heapq.heappop(self._due)[1]
                if not self._changed.wait(pause_s) and pause_s == STALLED_SECONDS:
                    raise TraceError(f"no answer within {STALLED_SECONDS:.0f} s: the replay has stopped")
        return None

    def _issue(self, number: int) -> None:
        operation = self._steps[number].operation
        self._started[number] = self._now()
        status = self._call(number, operation)
        with self._changed:
            self._release(self._after_call.get(number, ()), 0.0)
        if status is not None and not status.ok:
            self._answered(number, status, 0)

    def _release(self, followers: Sequence[int], now: float) -> None:
        """One thing less that these steps wait for; an answer also says when thinking begins."""
        for follower in followers:
            self._earliest_s[follower] = max(self._earliest_s[follower], now + self._steps[follower].think_s)
            self._missing[follower] -= 1
            if self._missing[follower] == 0:
                heapq.heappush(self._due, (self._earliest_s[follower], follower))

    def _call(self, number: int, operation: Operation) -> Any:
        if operation.kind is Kind.OPEN:
            file = self._files[operation.handle] = client.File()
            return file.open(self._target.url(operation.path), callback=self._callback(number))
        open_file = self._files.get(operation.handle)
        if open_file is None:
            raise TraceError(f"call {number} of the trace reads a file that it does not open")
        if operation.kind is Kind.CLOSE:
            return open_file.close(callback=self._callback(number))
        if operation.kind is Kind.VECTOR:
            parts = [(part.offset, part.length) for part in operation.ranges]
            return open_file.vector_read(parts, callback=self._callback(number))
        part = operation.ranges[0]
        return open_file.read(part.offset, part.length, callback=self._callback(number))

    def _callback(self, number: int) -> Callable[[Any, Any, Any], None]:
        kind = self._steps[number].operation.kind

        def answered(status: Any, response: Any, _hosts: Any) -> None:
            got = 0
            if status.ok and response is not None:
                if kind is Kind.VECTOR:
                    got = sum(len(chunk.buffer) for chunk in response.chunks)
                elif kind in (Kind.READ, Kind.PAGES):
                    got = len(response)
            self._answered(number, status, got)

        return answered

    def _answered(self, number: int, status: Any, got: int) -> None:
        operation = self._steps[number].operation
        with self._changed:
            now = self._now()
            if not status.ok:
                self._failures.append(f"{operation.kind} {number}: {status.message.strip()}")
            self._done[number] = replace(operation, start_s=self._started[number], end_s=now, got=got)
            self._release(self._after_answer.get(number, ()), now)
            self._changed.notify()


def _outcome(result: Trace) -> Outcome:
    facts: Mapping[str, Any] = result.facts
    return Outcome(result, float(facts["wall_s"]), float(facts["cpu_s"]), tuple(facts["failures"]))


def _main(source: str, result: str, wanted: str) -> None:
    """The process in which `replay_recorded` replays."""
    options = json.loads(wanted)
    renames = tuple((before, after) for before, after in options["target"]["renames"])
    target = Target(options["target"]["endpoint"], renames)
    outcome = replay(Trace.load(Path(source)), target, think=options["think"])
    facts = {"source": "replay", "wall_s": outcome.wall_s, "cpu_s": outcome.cpu_s, "failures": outcome.failures}
    Trace(outcome.trace.operations, facts).save(Path(result))


if __name__ == "__main__":
    _main(*sys.argv[1:])
