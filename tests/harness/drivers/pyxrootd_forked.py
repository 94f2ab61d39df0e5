"""Opens a file, forks, and reads it in parent and children, with the open and with new handles: prints digests."""

from __future__ import annotations

import hashlib
import multiprocessing
import sys

from XRootD import client
from XRootD.client.flags import OpenFlags


def opened(url: str) -> client.File:
    """A file that is open for reading."""
    file = client.File()
    status, _ = file.open(url, OpenFlags.READ)
    if not status.ok:
        sys.exit(f"open: {status.message}")
    return file


def digest(file: client.File) -> str:
    """The content of a whole file."""
    status, data = file.read()
    return hashlib.sha256(data).hexdigest() if status.ok else str(status.message)


def read_in_child(url: str, inherited: client.File, answers: multiprocessing.Queue[str]) -> None:
    """Reads a file of its own, then the one that the parent has opened."""
    answers.put(digest(opened(url)))
    answers.put(digest(inherited))


def main(url: str, children: str) -> None:
    """Everything is read once before the fork, so that there is a connection to be lost."""
    file = opened(url)
    print(digest(file))
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[str] = context.Queue()
    workers = [context.Process(target=read_in_child, args=(url, file, answers)) for _ in range(int(children))]
    for worker in workers:
        worker.start()
    for _ in range(2 * len(workers)):
        print(answers.get(timeout=60))
    for worker in workers:
        worker.join()
    print(digest(file))


main(*sys.argv[1:])
