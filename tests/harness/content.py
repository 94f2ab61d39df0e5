"""File contents that are a function of the offset, so that any byte can be checked without the file at hand."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WORD = 8
PIECE = 8 << 20
MODIFIED = 1_700_000_000


@dataclass(frozen=True)
class Pattern:
    """`size` bytes whose value depends on `seed` and offset alone; no two 8-byte words of a file repeat by chance."""

    size: int
    seed: int = 0

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of the range, cut at the end of the file."""
        end = min(offset + length, self.size)
        if offset >= end:
            return b""
        first = offset // WORD
        words = np.arange(first, (end + WORD - 1) // WORD, dtype=np.uint64)
        return _mix(words, self.seed).tobytes()[offset - first * WORD : end - first * WORD]

    def all(self) -> bytes:
        """The whole file."""
        return self.read(0, self.size)

    def write(self, path: Path) -> Path:
        """Creates the file, and its parent directories."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            for offset in range(0, self.size, PIECE):
                out.write(self.read(offset, PIECE))
        # Old enough not to be taken for a file that is still growing.
        os.utime(path, (MODIFIED, MODIFIED))
        return path

    def write_sparse(self, path: Path, islands: list[tuple[int, int]]) -> Path:
        """Creates a sparse file that holds the pattern only in `islands` of (offset, length); elsewhere it is zeros."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            out.truncate(self.size)
            for offset, length in islands:
                out.seek(offset)
                out.write(self.read(offset, length))
        return path


def first_difference(got: bytes, expected: bytes) -> str | None:
    """Says where two byte strings differ, or None when they are equal; never prints the bytes themselves."""
    if got == expected:
        return None
    shorter = min(len(got), len(expected))
    differing = np.flatnonzero(np.frombuffer(got[:shorter], np.uint8) != np.frombuffer(expected[:shorter], np.uint8))
    if differing.size:
        return f"{differing.size} of {shorter} bytes differ, the first at offset {differing[0]}"
    return f"{len(got)} bytes instead of {len(expected)}"


def assert_same(got: bytes, expected: bytes, what: str) -> None:
    """Fails with the place of the first difference."""
    difference = first_difference(got, expected)
    assert difference is None, f"{what}: {difference}"


def _mix(words: np.ndarray, seed: int) -> np.ndarray:
    """The splitmix64 finaliser: neighbouring words become unrelated ones."""
    with np.errstate(over="ignore"):
        mixed = (words + np.uint64(seed + 1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
