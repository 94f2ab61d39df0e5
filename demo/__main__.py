"""Runs the demo: `python -m demo BINARY DIRECTORY [--once]`."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from . import events, reading, table
from .servers import Server, ServerError

FILE_NAME = "events.root"
STEPS = ("cold", "warm", "once more")


def main() -> int:
    """Prepares the file, runs the servers, reads three times, explains, and waits."""
    options = parse_arguments()
    # Ctrl-C and a plain `kill` both end the demo in order, also where a shell has started it in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        run(options.binary, options.directory, once=options.once)
    except KeyboardInterrupt:
        print("\nstopped")
    except (ServerError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("binary", type=Path, help="the forebay binary")
    parser.add_argument("directory", type=Path, help="where to keep the file, the cache and the logs")
    parser.add_argument("--once", action="store_true", help="end after the table instead of staying up")
    return parser.parse_args()


def run(binary: Path, directory: Path, *, once: bool) -> None:
    """The demo itself."""
    files, store = directory / "files", directory / "store"
    file = events.prepare(files / FILE_NAME)
    reading.warm_up(file)
    shutil.rmtree(store, ignore_errors=True)
    with ExitStack() as servers:
        origin = servers.enter_context(Server.origin(binary, files, directory))
        cache = servers.enter_context(Server.cache(binary, origin.url, store, directory))
        print(f"origin {origin.url}   (forebay serve --export-dir)\ncache  {cache.url}   (forebay serve --origin)\n")
        url = f"{cache.url}//{FILE_NAME}"
        print(table.HEADER)
        sums = set()
        for step in STEPS:
            result = reading.read(url, cache.admin_url)
            sums.add(result.total)
            print(table.row(step, result), flush=True)
        if len(sums) != 1:
            raise ServerError(f"the passes disagree: {sorted(sums)}")
        print(table.EXPLANATION)
        if not once:
            print(table.commands(binary, file, url, cache, directory))
            print("\nBoth servers stay up. Press Ctrl-C to stop them.", flush=True)
            signal.pause()


sys.exit(main())
