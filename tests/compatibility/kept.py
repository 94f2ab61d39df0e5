"""The content of kept stores, and the writing of the next one: `python -m compatibility.kept VERSION`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import xrootd
from harness.admin import Site
from harness.clients import fetch
from harness.content import Pattern
from harness.forebay import BLOCK
from harness.ground import Ground

STORES = Path(__file__).parent / "stores"
COMPLETE = {"/store/whole.bin": Pattern(BLOCK + 7, 91), "/store/deep/er/byte.bin": Pattern(1, 92)}
PINNED = "/store/whole.bin"
PARTIAL = "/store/partly.bin"
PARTIAL_CONTENT = Pattern(16 * BLOCK + 99, 93)
CACHED = (3 * BLOCK, BLOCK)
"""Offset and length of the cached part of the partial file."""


def write_files(directory: Path) -> Path:
    """The files at the origin, the same at each call."""
    for path, content in {**COMPLETE, PARTIAL: PARTIAL_CONTENT}.items():
        content.write(directory / path[1:])
    return directory


def keep(ground: Ground, archive: Path) -> None:
    """Fills a store through the binary under test and packs it with its extended attributes."""
    origin = xrootd.plain(ground, write_files(ground.directory("data")))
    with Site(ground, {"export": [{"origins": [origin.url]}], "read_ahead": {"enabled": False}}) as site:
        for path, content in COMPLETE.items():
            assert fetch("xrdcp", ground, site.server.file_url(path)) == content.all()
        with site.server.client() as client:
            client.read(client.open(PARTIAL), *CACHED).ok()
        pinned = site.command("pin", PINNED, "--for", "3650d")
        assert pinned.returncode == 0, pinned.stderr
        site.server.settled_metrics()
    options = ["--xattrs", "--xattrs-include=user.*", "--sort=name", "--owner=0", "--group=0", "-cJf", str(archive)]
    subprocess.run(["tar", *options, "-C", str(site.store), "."], check=True)
    origin.stop()


if __name__ == "__main__":
    area = Ground()
    try:
        keep(area, STORES / f"{sys.argv[1]}.tar.xz")
    finally:
        area.remove()
