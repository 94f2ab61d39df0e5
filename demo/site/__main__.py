"""Runs the demo of a site: `python -m demo.site BINARY DIRECTORY [--once]`."""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..servers import Server, ServerError
from . import month, past, report
from .month import DAY_S, Access
from .replay import Clients, Replay, replay
from .services import SCRAPED, Prometheus, Search

STREAM = "forebay-accesses"
TOKEN = "demo-site-of-forebay"
# Size of the disk: it is full, and purged, from the middle of the month on.
DISK_BYTES_PER_SCALE = 300e12
# Jobs that read at once when the past is there, and then the time between two of them.
FIRST_JOBS, PAUSE_S = 2, 30.0
SENT_SECONDS = 120.0
SEARCH = Path("target/tools/search")


@dataclass(frozen=True)
class Options:
    """The command line."""

    binary: Path
    directory: Path
    days: int
    scale: float
    search: Path
    once: bool
    picture: Path | None

    @property
    def budget(self) -> int:
        """Bytes of the cache."""
        return int(DISK_BYTES_PER_SCALE * self.scale / month.SHRINK)


def parse_arguments() -> Options:
    """The command line."""
    parser = argparse.ArgumentParser(prog="demo.site", description=__doc__)
    parser.add_argument("binary", type=Path, help="the forebay binary")
    parser.add_argument("directory", type=Path, help="where to keep files, cache, servers and logs; it is cleared")
    parser.add_argument("--days", type=int, default=30, help="days of accesses that are replayed")
    parser.add_argument("--scale", type=float, default=0.04, help="size of the site relative to a cache of 2 PB")
    parser.add_argument("--search", type=Path, default=SEARCH, help="where OpenSearch is installed")
    parser.add_argument("--picture", type=Path, help="write a picture of the status page to this file")
    parser.add_argument("--once", action="store_true", help="end after the checks instead of staying up")
    return Options(**vars(parser.parse_args()))


def main() -> int:
    """Replays the month, starts everything, checks it, and waits."""
    options = parse_arguments()
    # Ctrl-C and a plain `kill` both end the demo in order, also where a shell has started it in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        run(options)
    except KeyboardInterrupt:
        print("\nstopped")
    except (ServerError, OSError) as error:
        print(f"demo-site: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: Options) -> None:
    """The demo itself."""
    began = time.monotonic()
    directory = options.directory
    shutil.rmtree(directory, ignore_errors=True)
    with ExitStack() as servers:
        search = servers.enter_context(Search(options.search, directory))
        accesses = month.generate(options.binary, options.days + 1, options.scale)
        files = month.create_files(accesses, directory / "files")
        of_past = [access for access in accesses if access.at < options.days * DAY_S]
        report.say(f"{len(accesses)} accesses to {files} files generated; replaying {options.days} days ...")
        origin = servers.enter_context(Server.origin(options.binary, directory / "files", directory))
        replayed = replay_past(options, origin, of_past)
        offset = time.time() - replayed.generated[-1]
        report.say(f"replayed {replayed.stretch():.0f} times as fast; writing the past ...")
        lines = write_past(replayed, offset, directory)
        search.wait()
        settings = live_settings(options, origin, search)
        cache = servers.enter_context(Server.configured("cache", options.binary, settings, directory))
        labels = f'instance="{SCRAPED}",job="forebay"'
        prometheus = servers.enter_context(
            Prometheus(cache.admin_url.removeprefix("http://"), past.open_metrics(replayed, offset, labels), directory)
        )
        live = itertools.cycle(access for access in accesses if access.at >= options.days * DAY_S)
        clients = servers.enter_context(Clients(cache.url))
        clients.make([next(live) for _ in range(FIRST_JOBS)])
        wait_for_documents(search, lines + FIRST_JOBS)
        report.table(replayed, offset, cache, prometheus, search, STREAM, lines)
        if options.picture:
            # Imported here: only the picture needs a browser.
            from .picture import take_picture

            take_picture(cache.admin_url, options.picture)
        report.say(f"\nready after {time.monotonic() - began:.0f} s")
        if not options.once:
            commands = report.commands(options.binary, cache, directory, options.budget)
            report.addresses(options.days, cache, prometheus, search, STREAM, TOKEN, commands)
            keep_reading(clients, live)


def replay_past(options: Options, origin: Server, accesses: list[Access]) -> Replay:
    """Reads the past through a cache that ends afterwards."""
    directory = options.directory
    settings = write_settings(options, origin, "replay", f'[records]\npath = "{(directory / "replayed").resolve()}"\n')
    with Server.configured("replay", options.binary, settings, directory) as cache:
        return replay(accesses, options.days, cache.url, cache.admin_url)


def write_past(replayed: Replay, offset: float, directory: Path) -> int:
    """Writes history and records with the times of the month; returns the number of records."""
    (directory / "store" / ".forebay" / "history").write_bytes(past.history(replayed, offset))
    lines = past.records(replayed, offset, directory / "replayed")
    past.write_spool(lines, directory / "spool")
    first = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(offset))
    (directory / "records").mkdir()
    (directory / "records" / f"records-{first}-000001.jsonl").write_text("".join(lines))
    return len(lines)


def live_settings(options: Options, origin: Server, search: Search) -> Path:
    """The configuration of the cache that stays up."""
    directory = options.directory.resolve()
    outputs = f'[records]\npath = "{directory / "records"}"\n'
    outputs += f'[opensearch]\nurls = ["{search.url}"]\nstream = "{STREAM}"\nspool = "{directory / "spool"}"\n'
    outputs += 'spool_size = "1GiB"\ninstall_template = true\n'
    return write_settings(options, origin, "cache", outputs)


def write_settings(options: Options, origin: Server, name: str, outputs: str) -> Path:
    """A configuration file."""
    directory = options.directory.resolve()
    token = directory / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    path = directory / f"{name}.toml"
    # Read-ahead is made for files of ordinary size: of shrunk ones it would fetch everything.
    path.write_text(
        f'[server]\nlisten = ["127.0.0.1:0"]\n'
        f'[store]\npath = "{directory / "store"}"\nblock_size = "16KiB"\n'
        f"[read_ahead]\nenabled = false\n"
        f'[purge]\nbudget = "{options.budget}"\ninterval = "1s"\n'
        f'[[export]]\norigins = ["{origin.url}"]\n'
        f'[admin]\nlisten = "127.0.0.1:0"\ntoken_file = "{token}"\nregions = ["Generated=*"]\n'
        f'[monitoring]\nsite = "GENERATED"\ninstance = "demo-site"\n{outputs}'
    )
    return path


def wait_for_documents(search: Search, count: int) -> None:
    """Waits until OpenSearch has all records."""
    deadline = time.monotonic() + SENT_SECONDS
    while (found := search.documents(STREAM)) < count:
        if time.monotonic() > deadline:
            raise ServerError(f"OpenSearch has {found} of {count} records after {SENT_SECONDS:.0f} s")
        time.sleep(0.5)


def keep_reading(clients: Clients, live: itertools.cycle[Access]) -> None:
    """Makes further accesses until Ctrl-C."""
    stop = threading.Event()
    while not stop.wait(PAUSE_S):
        clients.make([next(live)])


sys.exit(main())
