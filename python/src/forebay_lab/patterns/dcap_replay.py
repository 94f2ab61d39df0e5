"""Replays the reads of one job over libdcap or in a local file: one call after the other, as the job made them.

The job's own time in between is spent computing, not asleep.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .strategies import DCAP_READ_AHEAD
from .trace import Kind, Range, Trace, TraceError

SOURCES = Path(__file__).resolve().parents[2]
REPLAY_SECONDS = 1800.0
DCAP = "dcap://"
LIBRARY = "libdcap.so.1"


@dataclass(frozen=True)
class Replayed:
    """How a replay went."""

    wall_s: float
    calls: int
    bytes: int
    checksum: int
    """CRC-32 of all bytes in the order of the reads."""


def replay(trace: Trace, source: str, *, read_ahead: bool = False, enter: Sequence[str] = ()) -> Replayed:
    """Replays in a separate process; the source is a `dcap://` URL or a path.

    `enter` is a command in front of that process, such as one that enters a network name space.

    # Errors
    `TraceError` when a read fails or is short.
    """
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    if read_ahead:
        environment |= {"DCACHE_RAHEAD": "1", "DCACHE_RA_BUFFER": str(DCAP_READ_AHEAD)}
    with tempfile.TemporaryDirectory(prefix="forebay-lab-") as folder:
        kept = Path(folder) / "trace"
        trace.save(kept)
        module = [sys.executable, "-m", "forebay_lab.patterns.dcap_replay"]
        command = [*enter, *module, str(kept), source, "buffered" if read_ahead else "plain"]
        try:
            ended = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=REPLAY_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise TraceError(f"the replay of {source} has not ended within {REPLAY_SECONDS:.0f} s") from error
    if ended.returncode != 0:
        raise TraceError(f"the replay of {source} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return Replayed(**json.loads(ended.stdout.splitlines()[-1]))


class _File(Protocol):
    """An open file."""

    def read(self, part: Range) -> bytes: ...

    def read_vector(self, parts: Sequence[Range]) -> bytes: ...


class _LocalFile:
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self, part: Range) -> bytes:
        return os.pread(self._descriptor, part.length, part.offset)

    def read_vector(self, parts: Sequence[Range]) -> bytes:
        return b"".join(self.read(part) for part in parts)


class _Part(ctypes.Structure):
    """`iovec2` of dcap.h."""

    _fields_ = (("offset", ctypes.c_int64), ("len", ctypes.c_int), ("buf", ctypes.c_void_p))


class _DcapFile:
    """A file of a dCap server. Calls are those that ROOT makes: a seek and a read, or a vector."""

    def __init__(self, url: str, *, buffered: bool) -> None:
        self._library: Any = _library()
        self._descriptor = self._library.dc_open(url.encode(), os.O_RDONLY)
        if self._descriptor < 0:
            raise self._failure(f"open of {url}")
        if not buffered:
            self._library.dc_noBuffering(self._descriptor)

    def read(self, part: Range) -> bytes:
        buffer = ctypes.create_string_buffer(part.length)
        if self._library.dc_lseek64(self._descriptor, part.offset, os.SEEK_SET) != part.offset:
            raise self._failure(f"seek to {part.offset}")
        got = self._library.dc_read(self._descriptor, buffer, part.length)
        if got < 0:
            raise self._failure(f"read of {part.length} bytes at {part.offset}")
        return buffer.raw[:got]

    def read_vector(self, parts: Sequence[Range]) -> bytes:
        buffer = ctypes.create_string_buffer(sum(part.length for part in parts))
        vector = (_Part * len(parts))()
        place = ctypes.addressof(buffer)
        for entry, part in zip(vector, parts, strict=True):
            entry.offset, entry.len, entry.buf = part.offset, part.length, place
            place += part.length
        if self._library.dc_readv2(self._descriptor, vector, len(parts)) < 0:
            raise self._failure(f"read of a vector of {len(parts)}")
        return buffer.raw

    def _failure(self, what: str) -> TraceError:
        return TraceError(f"{what} failed: {os.strerror(ctypes.get_errno())}")


def _library() -> Any:
    try:
        library: Any = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise TraceError(f"{LIBRARY} is needed to speak dCap (Debian: dcap): {error}") from error
    library.dc_lseek64.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int)
    library.dc_lseek64.restype = ctypes.c_int64
    library.dc_read.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
    library.dc_read.restype = ctypes.c_ssize_t
    return library


def _play(trace: Trace, open_file: Callable[[], _File]) -> Replayed:
    """Opens the file, and makes the reads. The checksum is a part of what the job computes."""
    reached_s, calls, total, checksum = 0.0, 0, 0, 0
    started = time.monotonic()
    file = open_file()
    due = time.monotonic()
    for operation in trace.operations:
        due += max(0.0, operation.start_s - reached_s)
        reached_s = max(reached_s, operation.end_s)
        while time.monotonic() < due:
            pass
        if operation.is_read:
            is_vector = operation.kind is Kind.VECTOR
            data = file.read_vector(operation.ranges) if is_vector else file.read(operation.ranges[0])
            due = time.monotonic()
            if len(data) != operation.got:
                raise TraceError(f"{len(data)} bytes instead of {operation.got} at {operation.ranges[0].offset}")
            calls, total, checksum = calls + 1, total + len(data), zlib.crc32(data, checksum)
        else:
            due = time.monotonic()
    while time.monotonic() < due:
        pass
    return Replayed(time.monotonic() - started, calls, total, checksum)


def _main(kept: str, source: str, way: str) -> None:
    """The process in which `replay` replays."""
    trace = Trace.load(Path(kept))

    def open_file() -> _File:
        return _DcapFile(source, buffered=way == "buffered") if source.startswith(DCAP) else _LocalFile(source)

    print(json.dumps(vars(_play(trace, open_file))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
