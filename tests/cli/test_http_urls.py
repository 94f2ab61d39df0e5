"""`forebay get`, `ls`, `stat` and `root-layout` with URLs of HTTP servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import forebay, http_origins
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.ground import Ground
from harness.http_origins import HttpOrigin
from harness.root_files import make_tree

CONTENT = Pattern(10_000_000, 91)
NAME = "a b%20+é.bin"
IN_URL = "a%20b%2520+%C3%A9.bin"


@pytest.fixture(scope="module")
def tree(ground: Ground) -> Path:
    """A directory of files."""
    directory = ground.directory("http-urls")
    CONTENT.write(directory / "d" / NAME)
    make_tree(directory / "d" / "events.root")
    return directory


SERVERS: dict[str, Callable[[Ground, Path], HttpOrigin]] = {
    "nginx": lambda ground, tree: http_origins.nginx(ground, tree, webdav=True),
    "xrootd": http_origins.xrootd,
}


@pytest.mark.parametrize("server", list(SERVERS))
def test_files_of_http_servers_are_copied_and_listed(server: str, ground: Ground, tree: Path) -> None:
    origin = SERVERS[server](ground, tree)
    try:
        commands_work(ground, origin.url)
    finally:
        origin.stop()


def test_files_of_forebay_are_copied_and_listed(ground: Ground, tree: Path) -> None:
    with forebay.export(ground, tree) as server:
        commands_work(ground, f"http://{server.address}")


def commands_work(ground: Ground, url: str) -> None:
    """Each command has the right result."""
    assert_same(fetch("forebay-get", ground, f"{url}/d/{IN_URL}"), CONTENT.all(), url)
    dav = url.replace("http://", "dav://")
    listed = run_client([ground.forebay, "ls", "-l", f"{dav}/d"])
    assert listed.returncode == 0, listed.stderr
    lines = listed.stdout.decode().splitlines()
    assert [line.rsplit(" 2", 1)[0].split()[1] for line in lines if line.endswith(NAME)] == [str(CONTENT.size)]
    assert any(line.endswith(" events.root") for line in lines)
    stat = run_client([ground.forebay, "stat", f"{url}/d/{IN_URL}"])
    assert f"size      {CONTENT.size} (" in stat.stdout.decode()
    layout = run_client([ground.forebay, "root-layout", f"{url}/d/events.root"])
    assert b"Events" in layout.stdout, layout.stderr
    missing = run_client([ground.forebay, "get", f"{url}/d/missing", "-o", "-"])
    assert missing.returncode != 0
    assert b"404" in missing.stderr
