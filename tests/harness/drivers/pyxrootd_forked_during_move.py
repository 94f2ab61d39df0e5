"""Begins a read of a file whose cache is gone, forks on a signal, and reads in both: prints one digest for each."""

from __future__ import annotations

import hashlib
import os
import queue
import sys

from XRootD import client
from XRootD.client.flags import OpenFlags

SIZE = 100_000
SECONDS = 100


def digest(status: object, data: bytes) -> str:
    """The result of a read."""
    return hashlib.sha256(data).hexdigest() if status.ok else str(status)  # type: ignore[attr-defined]


def main(url: str) -> None:
    """Prints `half` when the file is open, and `forked` when there is a child."""
    file = client.File()
    status, _ = file.open(url, OpenFlags.READ)
    if not status.ok:
        sys.exit(f"open: {status}")
    print("half", flush=True)
    sys.stdin.readline()
    answers: queue.Queue[str] = queue.Queue()
    file.read(0, SIZE, callback=lambda status, data, _: answers.put(digest(status, data)))
    sys.stdin.readline()
    child = os.fork()
    if child == 0:
        print(digest(*file.read(SIZE, SIZE)), flush=True)
        os._exit(0)
    print("forked", flush=True)
    os.waitpid(child, 0)
    print(answers.get(timeout=SECONDS), flush=True)


main(*sys.argv[1:])
