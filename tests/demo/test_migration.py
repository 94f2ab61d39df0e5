"""docs/migration.md, followed as printed: a stock XCache under load is replaced, and replaces Forebay again.

systemd does not run on the machine of the cache: harness/systemctl.py stands in for its `systemctl`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.content import Pattern
from harness.document import sections
from harness.ground import REPOSITORY, Ground, package
from harness.hosts import Hosts
from harness.process import Process
from harness.site import XCACHE_BLOCK, Site
from harness.waiting import until

DOCUMENT = sections(REPOSITORY / "docs/migration.md")
BY_XCACHE = {f"/store/run{number}/events.root": Pattern(50 * XCACHE_BLOCK + number, 90 + number) for number in range(4)}
BY_FOREBAY = {"/store/later.root": Pattern(30 * XCACHE_BLOCK + 5, 99)}
DRIVERS = REPOSITORY / "tests/harness/drivers"
READS_AFTER_A_CHANGE = 40
# Opens, stats and checks of copies, with the headers of packets; the cached files have 26 MB.
SENT_WITHOUT_DATA = 200_000
# Clients try a refused connection again after five seconds, for a minute.
PATIENT = {"XRD_CONNECTIONWINDOW": "5", "XRD_CONNECTIONRETRY": "12"}
# A client of XRootD 5.5.3 whose connection is reset during its login can fail with "Invalid operation": it handles a
# second event of a connection that it has closed. Only this error is tried again.
COPY_AGAIN = """
while [ ! -e "$3" ]; do
    until xrdcp --silent --force "$1" "$4.copy" 2>"$4.error"; do
        cat "$4.error"
        grep --quiet "FATAL. Invalid operation" "$4.error"
        echo failed >>"$4.failed"
        [ "$(wc --lines <"$4.failed")" -le 4 ]
    done
    cmp "$2" "$4.copy"
    echo copied >>"$4"
done
"""


class Reader:
    """A client that reads one file of the cache all the time, and ends at the first wrong byte or error."""

    def __init__(self, site: Site, ground: Ground, data: Path, path: str, *, is_copying: bool) -> None:
        directory = ground.directory("reader")
        self._stop, self._progress = directory / "stop", directory / "progress"
        self._is_copying = is_copying
        url = f"root://cache.example.org/{path}"
        arguments = [url, str(data / path[1:]), str(self._stop), str(self._progress)]
        command = [sys.executable, str(DRIVERS / "reading_loop.py"), *arguments]
        if is_copying:
            command = ["bash", "-eu", "-c", COPY_AGAIN, "copy", *arguments]
        settings = [f"{name}={value}" for name, value in PATIENT.items()]
        self._process = Process("reader", site.client.command("env", *settings, *command), directory, keep_root=True)

    @property
    def reads(self) -> int:
        """How many reads, or copies, were right so far."""
        assert self._process.is_running(), self._process.tail()
        text = self._progress.read_text() if self._progress.exists() else ""
        return text.count("copied") if self._is_copying else int(text or 0)

    def wait_for_more(self) -> None:
        """Waits until it has read for a while from now on."""
        goal = self.reads + (2 if self._is_copying else READS_AFTER_A_CHANGE)
        until(lambda: self.reads >= goal, "the client reads on", within=120)

    def end(self) -> int:
        """Its exit status after an orderly end."""
        self._stop.touch()
        return self._process.wait(within=120)


@pytest.fixture
def data(ground: Ground) -> Path:
    """The files of the origin."""
    directory = ground.directory("migration-data")
    for path, content in {**BY_XCACHE, **BY_FOREBAY}.items():
        content.write(directory / path[1:])
    return directory


@pytest.fixture
def site(ground: Ground, data: Path) -> Iterator[Site]:
    """A site with a stock XCache."""
    with Hosts("client", "cache", "origin") as hosts:
        site = Site(ground, hosts, data)
        site.take(package())
        site.set_up_xcache()
        yield site
        site.close()


def follow(site: Site, section: str) -> str:
    """Runs the blocks of a section, and prints how long they took."""
    begun = time.monotonic()
    printed = "".join(site.type(block.text) for block in DOCUMENT[section])
    print(f"{section}: {time.monotonic() - begun:.1f} s")
    return printed


def read_whole(site: Site, files: dict[str, Pattern]) -> None:
    """Copies files with xrdcp, and compares them."""
    for path, content in files.items():
        command = site.client.command("xrdcp", "--silent", f"root://cache.example.org/{path}", "-")
        copied = subprocess.run(command, capture_output=True, check=False, timeout=120)
        assert copied.returncode == 0, copied.stderr.decode()
        assert copied.stdout == content.all(), path


def test_every_block_names_its_host() -> None:
    assert {block.kind for blocks in DOCUMENT.values() for block in blocks} == {"sh cache"}


def test_clients_lose_nothing_when_an_xcache_is_replaced_and_replaces_forebay(
    site: Site, ground: Ground, data: Path
) -> None:
    read_whole(site, BY_XCACHE)
    for path, content in BY_XCACHE.items():
        site.wait_until_recorded(path, content)
    readers = [
        Reader(site, ground, data, path, is_copying=number == 0) for number, path in enumerate(list(BY_XCACHE)[:3])
    ]

    def all_read_on() -> None:
        for reader in readers:
            reader.wait_for_more()

    all_read_on()
    sent = site.origin_sent_bytes
    report = follow(site, "Hour 1: install and read the report")
    assert "4 of 4 records" in report
    follow(site, "Hour 2: write the configuration")
    all_read_on()
    begun = time.monotonic()
    follow(site, "Hour 3: switch")
    all_read_on()
    print(f"clients read again {time.monotonic() - begun:.1f} s after the beginning of the switch")
    read_whole(site, BY_XCACHE)
    assert site.origin_sent_bytes - sent < SENT_WITHOUT_DATA, "files cached by XCache are hits"
    read_whole(site, BY_FOREBAY)
    watched = follow(site, "Hour 4: watch")
    assert 'outcome="hit"' in watched
    for path in [*BY_XCACHE, *BY_FOREBAY]:
        assert path in watched
    follow(site, "Next day: keep it")
    sent = site.origin_sent_bytes
    follow(site, "Way back")
    all_read_on()
    read_whole(site, {**BY_XCACHE, **BY_FOREBAY})
    assert site.origin_sent_bytes - sent < SENT_WITHOUT_DATA, "files cached by either are hits"
    assert [reader.end() for reader in readers] == [0, 0, 0]
