"""Clients run unchanged, with two environment variables: served while the cache fills, then files, then the origin."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.clients import DRIVERS, run_client
from harness.content import Pattern
from harness.ground import Ground, program, root_python
from harness.plugin import client_plugin
from harness.root_files import Sums, make_tree
from harness.waiting import until

from .conftest import Site

OPENING_BYTES_MAX = 60_000
"""Maximum bytes of logins, opens and closes, with all headers: far below the size of any file here."""
SERVED_BYTES_MIN = 20_000
"""Minimum bytes of a first read that the filler serves: more than logins, opens and closes of one job."""
OWN_OPEN = "file://localhost"
"""In the log of XRootD's client, an open of the file itself."""

Job = Callable[[Site, str], None]


def reads_tree(reader: str) -> Job:
    """A job that loops over the tree and must find the sums that it was made with."""

    def run(site: Site, log: str) -> None:
        python: str | Path = root_python() if reader == "pyroot" else sys.executable
        printed = run_on_client(site, [python, DRIVERS / f"{reader}_sum.py", f"{site.origin_url}//events.root"], log)
        assert Sums.from_json(printed.decode().strip().splitlines()[-1]).agrees_with(site.sums)

    return run


def copies(client: str) -> Job:
    """A job that copies the large file, and must get its bytes."""

    def run(site: Site, log: str) -> None:
        url, to = f"{site.origin_url}//large.bin", site.ground.directory("copy") / "file"
        commands: dict[str, list[str | Path]] = {
            "xrdcp": [program("xrdcp"), "--nopbar", url, to],
            "pyxrootd": [sys.executable, DRIVERS / "pyxrootd_copy.py", url, to],
        }
        run_on_client(site, commands[client], log)
        assert to.read_bytes() == site.large.all()

    return run


def run_on_client(site: Site, argv: list[str | Path], log: str) -> bytes:
    """Runs a job on the client's host; the log of XRootD's client goes into a file of the site."""
    environment = {
        "XRD_PLUGIN": str(client_plugin()),
        "FOREBAY": site.manager_url,
        "XRD_LOGLEVEL": "Debug",
        "XRD_LOGFILE": str(site.logs / log),
    }
    done = run_client(list(site.client.command(*argv, user=None)), environment)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def data(ground: Ground) -> Path:
    """The files of the origin: this module needs its own."""
    return ground.directory("origin-data")


@pytest.fixture(scope="module")
def large(data: Path) -> Pattern:
    """A file to be copied."""
    pattern = Pattern(6_000_000, 17)
    pattern.write(data / "large.bin")
    return pattern


@pytest.fixture(scope="module")
def sums(data: Path) -> Sums:
    """A tree to be read, and its sums."""
    return make_tree(data / "events.root")


@pytest.mark.parametrize(
    ("job", "is_small"),
    [(copies("xrdcp"), False), (copies("pyxrootd"), False), (reads_tree("pyroot"), True), (reads_tree("uproot"), True)],
    ids=["xrdcp", "pyxrootd", "pyroot", "uproot"],
)
def test_first_read_is_served_the_second_is_a_file_the_third_comes_from_the_origin(
    job: Job, is_small: bool, site: Site, data: Path, large: Pattern, sums: Sums
) -> None:
    site.large, site.sums = large, sums
    site.start_origin(data)
    filler, manager = site.start("filler"), site.start("manager")
    manager.wait_for_line("the filler answers")

    before = site.sent_bytes()
    job(site, "first")
    first = before.until_now()
    # A small file may be complete before its reader has asked for much.
    was_complete = is_small and OWN_OPEN in site.log("first")
    assert first["filler"] > SERVED_BYTES_MIN or was_complete, "the first read is served while the cache fills"
    assert first["origin"] > OPENING_BYTES_MAX

    def is_left_to_files() -> bool:
        before = site.sent_bytes()
        job(site, "second")
        sent = before.until_now()
        return max(sent["filler"], sent["manager"], sent["origin"]) < OPENING_BYTES_MAX

    until(is_left_to_files, "the file is complete, and clients open it by themselves", within=60)
    assert OWN_OPEN in site.log("second")

    manager.kill()
    filler.kill()
    before = site.sent_bytes()
    job(site, "third")
    third = before.until_now()
    assert third["origin"] > OPENING_BYTES_MAX, "without a cache, clients read from the origin"
    assert third["filler"] < OPENING_BYTES_MAX
