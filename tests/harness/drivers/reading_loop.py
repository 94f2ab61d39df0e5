"""Reads an open file again and again with the Python bindings of XRootD, and compares it: URL COPY STOP PROGRESS.

It ends when the file STOP exists, and writes the number of its reads into PROGRESS after each.
"""

from __future__ import annotations

import sys
from pathlib import Path

from XRootD import client
from XRootD.client.flags import OpenFlags

PIECE = 256 << 10


def main(url: str, copy: str, stop: str, progress: str) -> None:
    """Reads pieces in order until the file STOP exists."""
    expected = Path(copy).read_bytes()
    file = client.File()
    status, _ = file.open(url, OpenFlags.READ)
    if not status.ok:
        sys.exit(f"open: {status}")
    reads, offset = 0, 0
    while not Path(stop).exists():
        status, piece = file.read(offset, PIECE)
        if not status.ok:
            sys.exit(f"read {reads} at {offset}: {status}")
        if piece != expected[offset : offset + PIECE]:
            sys.exit(f"read {reads} at {offset} differs")
        reads += 1
        offset = (offset + PIECE) % len(expected) // PIECE * PIECE
        Path(progress).write_text(str(reads))
    file.close()


main(*sys.argv[1:])
