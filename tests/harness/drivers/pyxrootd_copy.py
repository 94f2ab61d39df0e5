"""Reads a whole file with the Python bindings of XRootD, in several ways that must agree: copy URL to a local file."""

from __future__ import annotations

import sys

from XRootD import client
from XRootD.client.flags import OpenFlags

PIECE = 300_000
VECTOR_PIECE = 4096
VECTOR_LENGTH = 64


def must(status: object, what: str) -> None:
    """Ends the program when a call failed."""
    if not status.ok:  # type: ignore[attr-defined]
        sys.exit(f"{what}: {status}")


def main(url: str, destination: str) -> None:
    """Sequential reads into the file, then vector reads of a sample of it, compared."""
    file = client.File()
    status, _ = file.open(url, OpenFlags.READ)
    must(status, "open")
    status, info = file.stat()
    must(status, "stat")
    data = bytearray()
    while True:
        status, piece = file.read(len(data), PIECE)
        must(status, f"read at {len(data)}")
        data += piece
        if len(piece) < PIECE:
            break
    if info.size != len(data):
        sys.exit(f"stat says {info.size} bytes, {len(data)} were read")
    step = max(len(data) // VECTOR_LENGTH, VECTOR_PIECE)
    chunks = [(offset, VECTOR_PIECE) for offset in range(0, len(data) - VECTOR_PIECE + 1, step)]
    if chunks:
        status, answer = file.vector_read(chunks)
        must(status, "vector_read")
        for chunk in answer.chunks:
            if chunk.buffer != data[chunk.offset : chunk.offset + chunk.length]:
                sys.exit(f"vector_read differs at {chunk.offset}")
    must(file.close()[0], "close")
    with open(destination, "wb") as out:
        out.write(data)


main(*sys.argv[1:])
