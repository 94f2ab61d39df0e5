"""docs/quick-start.md, followed as printed on the hosts that it names; prints how long each way takes.

systemd does not run on the machine of the cache: harness/systemctl.py stands in for its `systemctl`.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.content import Pattern, assert_same
from harness.document import Block, sections
from harness.ground import REPOSITORY, Ground, package
from harness.hosts import Hosts
from harness.named_host import NamedHost
from harness.site import Site
from harness.waiting import until
from harness.xrootd import on_host

DOCUMENT = sections(REPOSITORY / "docs/quick-start.md")
PATH = "/store/data/events.root"
CONTENT = Pattern(3_000_000, 31)
# Opens, stats and checks of copies, with the headers of packets.
SENT_WITHOUT_DATA = 200_000


@pytest.fixture
def data(ground: Ground) -> Path:
    """The file of the document, on the origin."""
    directory = ground.directory("quick-start-data")
    CONTENT.write(directory / PATH[1:])
    return directory


@pytest.fixture
def site(ground: Ground, data: Path) -> Iterator[Site]:
    """A machine with the package in root's directory, a client and an origin."""
    with Hosts("client", "cache", "origin") as hosts:
        site = Site(ground, hosts, data)
        site.take(package())
        yield site
        site.close()


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints how long something took."""
    begun = time.monotonic()
    yield
    print(f"quick start, {what}: {time.monotonic() - begun:.1f} s")


def run(site: Site, block: Block) -> str:
    """Runs a block on the host that it names."""
    if block.kind == "sh client":
        return type_and_settle(block, site.client.type, site.type)
    return site.type(block.text)


def type_and_settle(block: Block, type_line: Callable[[str], str], type_at_cache: Callable[[str], str]) -> str:
    """Types the lines of a block; waits after each until what was fetched is on the disk: it is not a hit before."""

    def is_written() -> bool:
        metrics = type_at_cache("curl --silent http://127.0.0.1:9090/metrics")
        return re.search(r"^forebay_budget_used_bytes 0$", metrics, re.MULTILINE) is not None

    printed = []
    for line in block.text.splitlines():
        printed.append(type_line(line))
        until(is_written, "what was fetched is on the disk")
    return "".join(printed)


def client_bytes(metrics: str) -> dict[str, int]:
    """The bytes that clients got, by outcome."""
    sums: dict[str, int] = {}
    for outcome, value in re.findall(r'outcome="([a-z]+)".*\} (\d+)', metrics):
        sums[outcome] = sums.get(outcome, 0) + int(value)
    return sums


def test_every_block_names_its_host_or_installs() -> None:
    plain = [block.text.split()[0] for blocks in DOCUMENT.values() for block in blocks if not block.kind]
    assert plain == ["cargo", "sudo"], "the build, and the RPM, which test_other_packages.py installs"


def test_laptop(ground: Ground, data: Path) -> None:
    _, serve, read = DOCUMENT["Laptop"]
    with Hosts("cache", "origin") as hosts:
        laptop = NamedHost(ground, hosts["cache"], hosts, {"/var/tmp": ground.directory("var-tmp")})
        origin = on_host(ground, hosts["origin"], data)
        with timed("laptop"):
            server = laptop.serve(serve.text)
            metrics = type_and_settle(read, laptop.type, laptop.type)
        assert server.is_running()
        server.signal(signal.SIGINT)
        assert server.wait() == 0
        origin.stop()
    for name in ("first.root", "second.root"):
        assert_same((laptop.directory / name).read_bytes(), CONTENT.all(), name)
    counted = client_bytes(metrics)
    assert counted["missed"] + counted["coalesced"] == CONTENT.size
    assert counted["hit"] == CONTENT.size


def test_site(site: Site) -> None:
    install, _, *others = DOCUMENT["Site"]
    with timed("site"):
        run(site, install)
        *_, counted = (run(site, block) for block in others)
    for name in ("first.root", "second.root", "events.root"):
        assert_same((site.client.directory / name).read_bytes(), CONTENT.all(), name)
    outcomes = client_bytes(counted)
    assert outcomes["missed"] + outcomes["coalesced"] == CONTENT.size
    assert outcomes["hit"] == 2 * CONTENT.size


def test_migration_from_xcache(site: Site) -> None:
    copy = f"xrdcp --force --silent root://cache.example.org/{PATH} copied.root"
    site.set_up_xcache()
    site.client.type(copy)
    site.wait_until_recorded(PATH, CONTENT)
    run(site, DOCUMENT["Site"][0])
    sent = site.origin_sent_bytes
    with timed("migration"):
        for block in DOCUMENT["Migration from XCache"]:
            run(site, block)
    site.client.type(copy)
    assert_same((site.client.directory / "copied.root").read_bytes(), CONTENT.all(), "copied from Forebay")
    assert site.origin_sent_bytes - sent < SENT_WITHOUT_DATA, "a file cached by XCache is a hit"
