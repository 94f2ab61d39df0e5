"""Traces of local files, from `strace` of one process and its threads."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from .trace import Kind, Operation, Range, Trace, TraceError

CALLS = "open,openat,read,pread64,readv,preadv,preadv2,lseek,close"
FORM = ("-f", "-qq", "-ttt", "-T", "-y", "-s", "0")
"""Includes threads; times before and after each call; descriptors with their paths; no data."""
DEFAULT_FILES = ("*.root",)

LINE = re.compile(r"^(?:(?P<task>\d+) +)?(?P<start>\d+\.\d+) (?P<text>.*)$")
CALL = re.compile(r"^(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>\d+)(?:<(?P<opened>.*)>)? <(?P<took>\d+\.\d+)>$")
RESUMED = re.compile(r"^<\.\.\. (?P<name>\w+) resumed>")
UNFINISHED = " <unfinished ...>"
DESCRIPTOR = re.compile(r"^(?P<number>\d+)<(?P<path>.*?)>(?:, |$)")
VECTOR_LENGTH = re.compile(r"iov_len=(\d+)")


def record(command: Sequence[str], files: Sequence[str] = DEFAULT_FILES) -> Trace:
    """Runs a command to its end under strace and gives the trace of the files whose paths match a pattern.

    # Errors
    `TraceError` when strace is not there, the command fails or has opened no such file.
    """
    strace = shutil.which("strace")
    if strace is None:
        raise TraceError("strace is not installed (Debian: strace)")
    with tempfile.TemporaryDirectory(prefix="forebay-lab-") as folder:
        output = Path(folder) / "strace"
        # Only the calls of the list stop the program; the rest of it runs at its usual speed.
        watch = [strace, *FORM, "-o", str(output), "--seccomp-bpf", "-e", f"trace={CALLS}"]
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        ended = subprocess.run([*watch, "--", *command], env=dict(os.environ), check=False)
        wall_s, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        if ended.returncode != 0:
            raise TraceError(f"{command[0]} ended with {ended.returncode} under strace: nothing is recorded")
        trace = parse(output, files)
    if not trace.operations:
        raise TraceError(f"{command[0]} has read no file that matches {', '.join(files)}: name them with --files")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    facts = {"command": list(command), "wall_s": round(wall_s, 6), "cpu_s": round(cpu_s, 6)}
    return Trace(trace.operations, {**trace.facts, **facts})


def parse(output: Path, files: Sequence[str] = DEFAULT_FILES) -> Trace:
    """Reads what `strace -f -ttt -T -y` has written; reads through `mmap` are not in it."""
    reader = _Descriptors(files)
    operations: list[Operation] = []
    with output.open(errors="replace") as lines:
        for start_s, text in _whole_calls(lines):
            call = CALL.match(text)
            if call:
                operation = reader.take(start_s, call)
                if operation:
                    operations.append(operation)
    read_from = {one.handle for one in operations if one.is_read}
    return Trace.of((one for one in operations if one.handle in read_from), {"source": "strace"})


def _whole_calls(lines: Iterator[str]) -> Iterator[tuple[float, str]]:
    """Joins the two halves of calls that another thread has interrupted."""
    halves: dict[str, tuple[float, str]] = {}
    for line in lines:
        parts = LINE.match(line.rstrip("\n"))
        if not parts:
            continue
        task, start_s, text = parts["task"] or "", float(parts["start"]), parts["text"]
        if text.endswith(UNFINISHED):
            halves[task] = (start_s, text.removesuffix(UNFINISHED))
            continue
        resumed = RESUMED.match(text)
        if resumed:
            begun = halves.pop(task, None)
            if begun is None:
                continue
            start_s, text = begun[0], begun[1] + text[resumed.end() :]
        yield start_s, text


@dataclass
class _OpenFile:
    handle: int
    path: str
    position: int = 0


class _Descriptors:
    """The open files of a process, by descriptor, and where each one stands."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self._open: dict[int, _OpenFile] = {}
        self._opens = 0

    def take(self, start_s: float, call: re.Match[str]) -> Operation | None:
        """The operation of a call, if it is about one of the selected files."""
        name, result, end_s = call["name"], int(call["result"]), start_s + float(call["took"])
        if name in ("open", "openat"):
            return self._opened(call["opened"] or "", result, start_s, end_s)
        descriptor = DESCRIPTOR.match(call["arguments"])
        if not descriptor:
            return None
        file = self._open.get(int(descriptor["number"]))
        if file is None or file.path != descriptor["path"]:
            return None
        arguments = call["arguments"][descriptor.end() :]
        if name == "close":
            del self._open[int(descriptor["number"])]
            return Operation(Kind.CLOSE, file.handle, start_s, end_s)
        if name == "lseek":
            file.position = result
            return None
        part = _range(name, arguments, file.position)
        if name in ("read", "readv"):
            file.position += result
        return Operation(Kind.READ, file.handle, start_s, end_s, ranges=(part,), got=result)

    def _opened(self, path: str, descriptor: int, start_s: float, end_s: float) -> Operation | None:
        self._open.pop(descriptor, None)
        if not any(fnmatch(path, pattern) for pattern in self._files):
            return None
        self._opens += 1
        self._open[descriptor] = _OpenFile(self._opens, path)
        return Operation(Kind.OPEN, self._opens, start_s, end_s, path=path)


def _range(name: str, arguments: str, position: int) -> Range:
    """The range of a reading call; its last arguments are numbers, after the data."""
    numbers = [number.strip() for number in arguments.rsplit(",", 3)]
    match name:
        case "read":
            return Range(position, int(numbers[-1]))
        case "pread64":
            return Range(int(numbers[-1]), int(numbers[-2]))
        case "readv":
            return Range(position, _vector_length(arguments))
        case "preadv":
            return Range(int(numbers[-1]), _vector_length(arguments))
        case _:
            # preadv2 has flags after the offset; an offset of -1 means the current one.
            offset = int(numbers[-2])
            return Range(position if offset < 0 else offset, _vector_length(arguments))


def _vector_length(arguments: str) -> int:
    return sum(int(length) for length in VECTOR_LENGTH.findall(arguments))
