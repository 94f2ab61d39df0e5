"""`forebay adopt`: an XCache is taken over from its own configuration, and gets its cache back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.ground import Ground, program
from harness.process import SERVICE_USER, Process, as_root, give_to_service
from harness.raw_client import RawClient
from harness.relay import Relay
from harness.waiting import until

BLOCK = 128 * 1024
INSTANCE = "atlas"
BY_XCACHE = {"/store/whole.root": Pattern(20 * BLOCK + 7, 71), "/store/deep/block.root": Pattern(BLOCK, 72)}
BY_FOREBAY = {"/store/later.root": Pattern(11 * BLOCK + 1, 73), "/store/one-byte.root": Pattern(1, 74)}
PARTIAL = "/store/partly.root"
PARTIAL_CONTENT = Pattern(30 * BLOCK + 99, 75)
CACHED = (3 * BLOCK, 4 * BLOCK)
FILES = {**BY_XCACHE, **BY_FOREBAY, PARTIAL: PARTIAL_CONTENT}

MAIN = """\
# The caches of a site; their common part is in the directory.
set rootdir = {root}
set origin = {origin}
if named {instance}
  set name = names
else if named cms
  set name = elsewhere
fi
if defined ?name && exec xrootd
  all.export /store r/o
  xrd.port {port}
else
  all.export /nothing
fi
all.sitename EXAMPLE-SITE
oss.localroot $(rootdir)/${{name}}
continue {root}/config.d/ *.cfg if named {instance} cms
"""

COMMON = """\
ofs.osslib libXrdPss.so
ofs.ckslib * libXrdPss.so
pss.cachelib libXrdPfc.so
pss.origin $origin
pss.setopt ConnectTimeout 20
pfc.blocksize 128k
pfc.ram 1g
pfc.prefetch 0
pfc.diskusage 0.9998 \\
              0.9999
pfc.flush 100
pfc.trace info
"""

SPACES = """\
oss.space data $rootdir/disk-1
oss.space data $rootdir/disk-2
oss.space meta $rootdir/ssd
pfc.spaces data meta
"""


@dataclass
class Site:
    """An XCache as a site has it: its directories, its configuration, and the port it listens at."""

    ground: Ground
    root: Path
    port: int
    relay: Relay

    @property
    def configuration(self) -> Path:
        """The main file."""
        return self.root / "xcache.cfg"

    @property
    def names(self) -> Path:
        """The tree of names of the cache."""
        return self.root / "names"

    def xcache(self) -> xrootd.Origin:
        """Starts the stock XCache."""
        give_to_service(self.root)
        return xrootd.configured(self.ground, self.configuration, self.port, instance=INSTANCE)

    def adopt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `forebay adopt`."""
        command = ["adopt", "--xrootd-config", str(self.configuration), "--instance", INSTANCE, *arguments]
        return forebay.run(self.ground, *command)

    def forebay(self) -> forebay.Forebay:
        """Adopts, and starts with the result."""
        output = self.root / "forebay.toml"
        reported = self.adopt("--output", str(output), "--user", SERVICE_USER)
        has_spaces = (self.root / "config.d/20-spaces.cfg").exists()
        assert reported.returncode == (4 if has_spaces else 0), reported.stderr
        give_to_service(self.root)
        checked = forebay.run(self.ground, "check-config", str(output))
        assert checked.returncode == 0, checked.stderr
        return forebay.Forebay(self.ground, ["--config", str(output)], store=self.names)


@pytest.fixture(scope="module")
def origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with the files."""
    directory = ground.directory("adopt-origin")
    for path, content in FILES.items():
        content.write(directory / path[1:])
    return xrootd.plain(ground, directory)


@pytest.fixture
def relay(origin: xrootd.Origin) -> Iterator[Relay]:
    """Counts requests to the origin."""
    with Relay(("127.0.0.1", origin.port)) as way:
        yield way


@pytest.fixture(params=["one directory", "spaces"])
def site(request: pytest.FixtureRequest, ground: Ground, relay: Relay) -> Site:
    """A site with one directory, and one with data on disks and records on an SSD."""
    root = ground.directory("site")
    site = Site(ground, root, ground.free_port(), relay)
    for name in ("names", "elsewhere", "disk-1", "disk-2", "ssd", "config.d"):
        (root / name).mkdir()
    main = MAIN.format(root=root, origin=relay.url.removeprefix("root://"), instance=INSTANCE, port=site.port)
    site.configuration.write_text(main)
    (root / "config.d/10-common.cfg").write_text(COMMON)
    (root / "config.d/10-common.cfg.rpmsave").write_text("pfc.ram 2g\n")
    if request.param == "spaces":
        (root / "config.d/20-spaces.cfg").write_text(SPACES)
    return site


def url(site: Site) -> str:
    """The address of the cache, Forebay or XCache."""
    return f"root://127.0.0.1:{site.port}"


def read_whole(site: Site, files: dict[str, Pattern]) -> None:
    """Reads files from end to end and compares them."""
    for path, content in files.items():
        assert_same(fetch("xrdcp", site.ground, f"{url(site)}/{path}"), content.all(), path)


def read_part(site: Site, part: tuple[int, int] = CACHED) -> None:
    """Reads the part of the file that is cached in part."""
    with RawClient("127.0.0.1", site.port) as client:
        handle = client.open(PARTIAL)
        assert_same(client.read(handle, *part).ok(), PARTIAL_CONTENT.read(*part), PARTIAL)
        client.close_file(handle).ok()


def printed(cinfo: Path) -> str:
    """The output of the stock printer for a record."""
    result = subprocess.run([program("xrdpfc_print"), cinfo], capture_output=True, text=True, check=False)
    return result.stdout


def wait_until_recorded(site: Site, files: dict[str, Pattern]) -> None:
    """Waits until the records say that the blocks are there."""
    blocks = {path: -(-content.size // BLOCK) for path, content in files.items()}
    blocks[PARTIAL] = CACHED[1] // BLOCK
    for path, count in blocks.items():
        cinfo = site.names / f"{path[1:]}.cinfo"
        until(lambda: f"n_downloaded {count}," in printed(cinfo), f"{path} is recorded", within=40)  # noqa: B023


def fill(site: Site) -> None:
    """Lets XCache fill its cache, and stops it."""
    stock = site.xcache()
    try:
        read_whole(site, BY_XCACHE)
        read_part(site)
        wait_until_recorded(site, BY_XCACHE)
    finally:
        stock.stop()


def test_an_xcache_is_taken_over_and_gets_its_cache_back(site: Site) -> None:
    fill(site)
    site.relay.forget()
    with site.forebay() as cache:
        assert cache.port == site.port
        read_whole(site, BY_XCACHE)
        read_part(site)
        assert site.relay.reads == []
        read_whole(site, BY_FOREBAY)
        wait_until_recorded(site, {**BY_XCACHE, **BY_FOREBAY})
    site.relay.forget()
    stock = site.xcache()
    try:
        read_whole(site, {**BY_XCACHE, **BY_FOREBAY})
        read_part(site)
        assert site.relay.reads == []
    finally:
        stock.stop()


def owners(site: Site) -> set[tuple[int, int]]:
    """The owners and modes of all records."""
    found = [path.stat() for path in site.names.rglob("*.cinfo")]
    return {(status.st_uid, status.st_mode & 0o777) for status in found}


def test_a_cache_that_root_has_served_is_given_back(site: Site) -> None:
    fill(site)
    before = owners(site)
    site.relay.forget()
    output = site.root / "forebay.toml"
    assert site.adopt("--output", str(output)).returncode in (0, 4)
    argv = as_root(str(site.ground.forebay), "serve", "--config", str(output))
    cache = Process("as-root", argv, site.root, keep_root=True)
    try:
        cache.wait_for_line(r"^ready root://")
        read_whole(site, BY_XCACHE)
        read_part(site)
        read_whole(site, BY_FOREBAY)
        wait_until_recorded(site, {**BY_XCACHE, **BY_FOREBAY})
    finally:
        cache.stop()
    assert {uid for uid, _ in owners(site)} == {uid for uid, _ in before}
    site.relay.forget()
    stock = xrootd.configured(site.ground, site.configuration, site.port, instance=INSTANCE)
    try:
        read_whole(site, {**BY_XCACHE, **BY_FOREBAY})
        read_part(site)
        assert site.relay.reads == []
    finally:
        stock.stop()


def test_cached_files_are_served_while_the_origin_is_away(site: Site) -> None:
    fill(site)
    site.relay.listener.refuse()
    with site.forebay():
        read_whole(site, BY_XCACHE)
        read_part(site)


def tree(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Everything about a tree that a visit could change."""
    return {
        os.path.join(directory, name): (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
        for directory, folders, names in os.walk(root)
        for name in [*folders, *names]
        for found in [os.lstat(os.path.join(directory, name))]
    }


def test_a_check_of_the_directory_changes_nothing_and_reports_bad_entries(site: Site) -> None:
    fill(site)
    record = site.names / "store/deep/block.root.cinfo"
    (site.names / "store/alone.root").write_bytes(b"data without a record")
    damaged = bytearray(record.read_bytes())
    damaged[60] ^= 1
    record.resolve().write_bytes(damaged)
    give_to_service(site.root)
    before = tree(site.root)
    reported = site.adopt("--dry-run", "--user", SERVICE_USER)
    assert tree(site.root) == before
    assert reported.returncode == 4, reported.stderr
    assert "2 of 3 records in 3 directories are good, 1 of them complete" in reported.stderr
    assert "cinfo_checksum: 1" in reported.stderr
    assert "cinfo_missing: 1" in reported.stderr
    assert "store/alone.root\n" in reported.stderr
    assert "2 of version 4" in reported.stderr
    assert f"2 of {SERVICE_USER}" in reported.stderr
    assert f'listen = ["[::]:{site.port}"]' in reported.stdout
    assert reported.stdout.count("[[export]]") == 1


def test_files_of_another_user_are_reported(site: Site) -> None:
    fill(site)
    reported = site.adopt("--dry-run", "--user", "nobody")
    assert reported.returncode == 4, reported.stderr
    assert "forbidden: " in reported.stderr
