"""Traces from the recorder, the plug-in of XRootD's client that writes each call of a process into a CSV file."""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .trace import Kind, Operation, Range, Trace, TraceError

PLUGIN = "libXrdClRecorder.so"
"""Found next to the client library: in Debian's xrootd-client-plugins, the wheels of PyXRootD and of ROOT."""

KINDS = {
    "Open": Kind.OPEN,
    "Read": Kind.READ,
    "PgRead": Kind.PAGES,
    "VectorRead": Kind.VECTOR,
    "Close": Kind.CLOSE,
}
COLUMNS = 7
SUCCESS = "[SUCCESS]"


def environment(to: Path) -> dict[str, str]:
    """The environment that makes a client record into a file."""
    return {"XRD_PLUGIN": PLUGIN, "XRD_RECORDERPATH": str(to)}


def record(command: Sequence[str], extra: Mapping[str, str] | None = None) -> Trace:
    """Runs a command to its end and gives the trace of the files that it opens by XRootD's client.

    The command must read in one process: a second one that uses the client would write over the first one's record.

    # Errors
    `TraceError` when the command fails or has opened nothing.
    """
    with tempfile.TemporaryDirectory(prefix="forebay-lab-") as folder:
        csv_file = Path(folder) / "record.csv"
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        ended = subprocess.run(command, env={**os.environ, **(extra or {}), **environment(csv_file)}, check=False)
        wall_s, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        if ended.returncode != 0:
            raise TraceError(f"{command[0]} ended with {ended.returncode}: nothing is recorded of a job that fails")
        if not csv_file.exists():
            raise TraceError(
                f"{command[0]} has recorded nothing: it opened no file by XRootD's client, or that client does not "
                f"find {PLUGIN} (Debian: xrootd-client-plugins)"
            )
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        facts = {"command": list(command), "wall_s": round(wall_s, 6), "cpu_s": round(cpu_s, 6)}
        trace = parse(csv_file)
    return Trace(trace.operations, {**trace.facts, **facts})


def parse(csv_file: Path) -> Trace:
    """Reads a file that the recorder has written; calls that failed and those that write are left out.

    # Errors
    `TraceError` when the file has another form.
    """
    operations: list[Operation] = []
    handles: dict[str, int] = {}
    paths: dict[int, str] = {}
    sizes: dict[str, int] = {}
    with csv_file.open(newline="") as lines:
        rows = sorted(enumerate(csv.reader(lines), start=1), key=lambda row: _started(csv_file, *row))
    for _, (address, name, start, arguments, stop, status, answer) in rows:
        if not status.startswith(SUCCESS):
            continue
        if name == "Open":
            # The address of a file object is used again by the next one. The URL may hold semicolons; flags, mode and
            # timeout follow it.
            handles[address] = len(paths) + 1
            paths[handles[address]] = arguments.rsplit(";", 3)[0]
        handle = handles.get(address)
        if handle is None:
            continue
        if name == "Stat" and answer:
            sizes[paths[handle]] = int(answer.split(";", 1)[0])
        if name in KINDS:
            call = Operation(KINDS[name], handle, float(start), float(stop))
            operations.append(_complete(call, arguments, answer, paths[handle]))
    read_from = {one.handle for one in operations if one.is_read}
    kept = (one for one in operations if one.handle in read_from)
    known = {paths[handle]: sizes[paths[handle]] for handle in sorted(read_from) if paths[handle] in sizes}
    return Trace.of(kept, {"source": "recorder", "file_sizes": known})


def _started(csv_file: Path, number: int, row: list[str]) -> float:
    try:
        if len(row) != COLUMNS:
            raise ValueError(f"{len(row)} columns instead of {COLUMNS}")
        return float(row[2])
    except ValueError as error:
        raise TraceError(f"{csv_file}, line {number}: not a line of XRootD's recorder ({error})") from error


def _complete(call: Operation, arguments: str, answer: str, path: str) -> Operation:
    """Adds the requested and received bytes of a call."""
    if call.kind is Kind.OPEN:
        return replace(call, path=path)
    if call.kind is Kind.CLOSE:
        return call
    # Offsets and lengths in turn, then the timeout.
    numbers = [int(number) for number in arguments.split(";")[:-1]]
    ranges = tuple(Range(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True))
    return replace(call, ranges=ranges, got=int(answer.split(";", 1)[0] or 0))
