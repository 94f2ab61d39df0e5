"""Several fillers share one store: each fills its parts, and the others take them over when it dies or is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import forebay, wire, xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.process import SERVICE_USER, give_to_service
from harness.raw_client import RawClient
from harness.relay import Relay
from harness.waiting import until

PARTS = 16
"""So many that each of two fillers gets some, whatever their names are."""
LEASE_SECONDS = 10
TAKEOVER_SECONDS = LEASE_SECONDS + 30.0
"""The lease, and some seconds of a busy machine."""
NAMES = 128
"""Enough names to meet all parts."""
OPENS = "forebay_manager_opens_total"


class Site:
    """A store that two fillers share, and the manager that sends clients to them."""

    def __init__(self, ground: Ground, relay: Relay, files: dict[str, Pattern]) -> None:
        self.ground, self.relay, self.files = ground, relay, files
        self.store = give_to_service(ground.directory("divided-store"))
        self.store.chmod(0o755)
        self.started: list[Forebay] = []
        self.fillers = [self.start("filler"), self.start("filler")]
        self.manager = self.start("manager")
        for filler in self.fillers:
            self.wait_until_known(filler)
        until(self.is_divided, "each part has an owner that the other filler knows", within=TAKEOVER_SECONDS)

    def is_divided(self) -> bool:
        """Whether each name is redirected by one of the fillers."""
        for name in (f"/nothing-{n}" for n in range(NAMES)):
            answers = [try_open(filler, name) for filler in self.fillers]
            if answers.count(wire.Status.REDIRECT) != 1:
                return False
        return True

    def configuration(self, role: str, **store: object) -> dict[str, Any]:
        """The configuration of a server of the site."""
        return {
            "server": {"role": role},
            "export": [{"origins": [self.relay.url], "direct": "complete", "fill": "to-end"}],
            # There is no budget with parts, and how full the machine's disk is decides nothing.
            "purge": {"high": "99%", "low": "98%"},
            "store": {"path": str(self.store), "parts": PARTS, "part_lease": f"{LEASE_SECONDS}s", **store},
        }

    def start(self, role: str) -> Forebay:
        """Starts a server of the site."""
        server = forebay.configured(self.ground, self.configuration(role), store=self.store)
        self.started.append(server)
        return server

    def wait_until_known(self, filler: Forebay) -> None:
        """Waits until the manager sends clients to a filler."""
        line = f"the filler answers endpoint=127.0.0.1:{filler.port}"
        until(lambda: line in self.manager.process.output(), "the manager knows the filler", within=60)

    def owners(self) -> dict[int, str]:
        """The instances that own the parts."""
        highest: dict[int, tuple[int, str]] = {}
        for path in (self.store / ".parts" / "owners").iterdir():
            part, epoch = (int(number) for number in path.name.split("."))
            highest[part] = max(highest.get(part, (0, "")), (epoch, path.read_text()))
        return {part: owner for part, (_, owner) in highest.items()}

    def wait_for_one_owner(self) -> None:
        """Waits until one filler owns all parts."""

        def is_so() -> bool:
            owners = self.owners()
            return len(owners) == PARTS and len(set(owners.values())) == 1 and "" not in owners.values()

        until(is_so, "one filler has all parts", within=TAKEOVER_SECONDS)

    def places(self, path: str) -> list[Path]:
        """Where the file lies in the store."""
        return sorted(self.store.glob(f".parts/[0-9]*{path}"))

    def part(self, path: str) -> int:
        """The part of the store that the file lies in."""
        (place,) = self.places(path)
        return int(place.relative_to(self.store / ".parts").parts[0])

    def read_all(self, server: Forebay) -> None:
        """Reads every file through a server, and compares."""
        for path, pattern in self.files.items():
            assert_same(fetch("xrdcp", self.ground, server.file_url(path)), pattern.all(), path)

    def wait_until_complete(self) -> None:
        """Reads the files through the manager until each is complete, once, and open to others."""
        for path, pattern in self.files.items():

            def is_shown(path: str = path, pattern: Pattern = pattern) -> bool:
                assert_same(fetch("xrdcp", self.ground, self.manager.file_url(path)), pattern.all(), path)
                places = self.places(path)
                return len(places) == 1 and places[0].stat().st_mode & 0o044 == 0o044

            until(is_shown, f"{path} is complete", within=60)
            assert_same(self.places(path)[0].read_bytes(), pattern.all(), f"{path} on disk")


@pytest.fixture(scope="module")
def files() -> dict[str, Pattern]:
    """Files that spread over the parts."""
    return {f"/spread/file-{n}.bin": Pattern(6 * BLOCK + n, 100 + n) for n in range(12)}


@pytest.fixture
def site(ground: Ground, files: dict[str, Pattern]) -> Iterator[Site]:
    """A site before a stock origin, on a way that can be stalled."""
    directory = ground.directory("spread")
    for path, pattern in files.items():
        pattern.write(directory / path[1:])
    origin = xrootd.plain(ground, directory)
    with Relay(("127.0.0.1", origin.port)) as relay:
        made = Site(ground, relay, files)
        yield made
        for server in made.started:
            if server.process.is_running():
                server.process.signal(signal.SIGCONT)
            server.stop()
    origin.stop()


def try_open(server: Forebay, path: str) -> int:
    """The status of the answer to an open."""
    with RawClient("127.0.0.1", server.port) as client:
        return client.try_open(path).status


def sent_bytes(server: Forebay) -> int:
    """Bytes that a server has sent to clients."""
    return sum(server.settled_metrics().client_bytes().values())


def begin_to_fill(site: Site, filler: Forebay) -> None:
    """Has a filler fetch files that never arrive, in part: the origin stalls."""
    site.relay.stall_after(3 * BLOCK)
    for path in site.files:
        with RawClient("127.0.0.1", filler.port) as client:
            opened = client.try_open(path)
            # Files of the other one are redirected.
            if opened.status == wire.Status.OK:
                client.read(opened.ok()[:4], 0, 1000).ok()
                break
    until(lambda: site.relay.is_stalled, "the origin stalls in the middle of a file", within=60)


def test_each_file_is_filled_by_the_owner_of_its_part(site: Site, files: dict[str, Pattern]) -> None:
    site.wait_until_complete()
    owners = site.owners()
    assert len(set(owners.values())) == 2
    fillers = {owners[site.part(path)] for path in files}
    assert sum(sent_bytes(filler) > 0 for filler in site.fillers) == len(fillers), "each owner has filled"
    shown = site.manager.metrics().total(OPENS, to="file")
    site.read_all(site.manager)
    assert site.manager.metrics().total(OPENS, to="file") == shown + len(files)
    for filler in site.fillers:
        site.read_all(filler)
    assert all(len(site.places(path)) == 1 for path in files), "no filler keeps a file of another one"


def test_the_parts_of_a_killed_filler_are_filled_by_the_other(site: Site) -> None:
    begin_to_fill(site, site.fillers[0])
    site.fillers[0].process.kill()
    site.relay.flow()
    # The manager has found the origin silent as well.
    path = next(iter(site.files))
    until(lambda: try_open(site.manager, path) == wire.Status.REDIRECT, "the manager uses the origin", within=60)
    site.read_all(site.manager)
    site.wait_for_one_owner()
    site.wait_until_complete()


def test_a_filler_that_was_stopped_beyond_its_lease_changes_nothing(site: Site) -> None:
    stopped = site.fillers[0]
    begin_to_fill(site, stopped)
    stopped.process.signal(signal.SIGSTOP)
    site.relay.flow()
    site.wait_for_one_owner()
    site.wait_until_complete()
    before = {path: site.places(path)[0].read_bytes() for path in site.files}
    stopped.process.signal(signal.SIGCONT)
    until(lambda: len(set(site.owners().values()) - {""}) == 2, "it gets parts again", within=TAKEOVER_SECONDS)
    assert {path: site.places(path)[0].read_bytes() for path in site.files} == before
    site.wait_until_complete()
    site.read_all(stopped)


def test_a_filler_that_ends_in_order_leaves_its_parts_at_once(site: Site) -> None:
    site.fillers[0].stop()
    records = list((site.store / ".parts" / "fillers").glob("[!.]*"))
    assert len(records) == 1, "without its record its parts are free"
    until(lambda: len(set(site.owners().values())) == 1, "the other one has all parts", within=TAKEOVER_SECONDS)
    site.wait_until_complete()


def test_a_divided_store_is_refused_with_another_number_of_parts(site: Site) -> None:
    other = forebay.complete(site.configuration("filler", parts=PARTS + 1), site.store)
    if os.geteuid() == 0:
        # Root is refused on the store of another user before anything else.
        other["server"] = {**other["server"], "user": SERVICE_USER}
    path = forebay.write_configuration(site.ground, other)
    ended = forebay.run(site.ground, "serve", "--config", str(path))
    assert ended.returncode != 0
    assert f"divided into {PARTS} parts" in ended.stderr
