"""Reads a file with the Python bindings of XRootD; waits in the middle. Prints the digest and the last URL as JSON."""

from __future__ import annotations

import hashlib
import json
import sys

from XRootD import client
from XRootD.client.flags import OpenFlags

PIECE = 100_000


def must(status: object, what: str) -> None:
    """Ends the program when a call failed."""
    if not status.ok:  # type: ignore[attr-defined]
        sys.exit(f"{what}: {status}")


def main(url: str) -> None:
    """Plain reads from front to back, and vector reads of the second half, which must agree."""
    file = client.File()
    must(file.open(url, OpenFlags.READ)[0], "open")
    status, info = file.stat()
    must(status, "stat")
    data, has_paused = bytearray(), False
    while len(data) < info.size:
        if not has_paused and len(data) * 2 > info.size:
            has_paused = True
            print("half", flush=True)
            sys.stdin.readline()
            chunks = [(offset, 1000) for offset in range(len(data), info.size - 1000, 50_000)]
            status, vector = file.vector_read(chunks)
            must(status, "vector_read")
        status, piece = file.read(len(data), PIECE)
        must(status, f"read at {len(data)}")
        data += piece
    for chunk in vector.chunks:
        if chunk.buffer != data[chunk.offset : chunk.offset + chunk.length]:
            sys.exit(f"vector_read differs at {chunk.offset}")
    last = file.get_property("LastURL")
    must(file.close()[0], "close")
    print(json.dumps({"sha256": hashlib.sha256(data).hexdigest(), "url": last}))


main(*sys.argv[1:])
