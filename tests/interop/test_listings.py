"""Directories as stock tools list them, up to 100 000 entries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.clients import run_client
from harness.forebay import Forebay
from harness.ground import Ground, program

ENTRIES = 100_000
DSTAT = 2


@pytest.fixture(scope="module")
def crowd(ground: Ground) -> Path:
    """A directory of 100 000 empty files."""
    directory = ground.directory("crowd")
    folder = directory / "crowd"
    folder.mkdir()
    for index in range(ENTRIES):
        (folder / f"entry-{index:06}.root").touch()
    folder.chmod(0o755)
    return directory


@pytest.fixture(params=["cache", "export"])
def crowd_server(request: pytest.FixtureRequest, ground: Ground, crowd: Path) -> Forebay:
    """A cache in front of an xrootd, and the product's own export."""
    if request.param == "export":
        server = forebay.export(ground, crowd)
    else:
        origin = xrootd.plain(ground, crowd)
        request.addfinalizer(origin.stop)
        server = forebay.cache(ground, origin.url)
    request.addfinalizer(server.stop)
    return server


def test_directory_of_100_000_entries_lists_whole(crowd_server: Forebay) -> None:
    with crowd_server.client() as client:
        plain = client.dirlist("/crowd")
        detailed = client.dirlist("/crowd", DSTAT)
    expected = {f"entry-{index:06}.root" for index in range(ENTRIES)}
    assert set(plain.ok().rstrip(b"\0").decode().split("\n")) == expected
    lines = detailed.ok().rstrip(b"\0").decode().split("\n")
    assert lines[:2] == [".", "0 0 0 0"]
    assert set(lines[2::2]) == expected
    for answer in (plain, detailed):
        assert len(answer.frames) > 1
        for frame in answer.frames[:-1]:
            assert b"\0" not in frame.body
            assert frame.body.endswith(b"\n")


def test_xrdfs_lists_100_000_entries(crowd_server: Forebay) -> None:
    result = run_client([program("xrdfs"), crowd_server.address, "ls", "/crowd"])
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.split()) == ENTRIES


def test_xrdfs_lists_and_stats_through_every_origin(
    any_origin: xrootd.Origin | Forebay, cache_of: Callable[..., Forebay], listed: set[str]
) -> None:
    cache = cache_of(any_origin.url)
    xrdfs = program("xrdfs")
    for options in ([], ["-l"]):
        result = run_client([xrdfs, cache.address, "ls", *options, "/sizes"])
        assert result.returncode == 0, result.stderr
        assert {line.split("/")[-1] for line in result.stdout.decode().splitlines()} == listed
    stat = run_client([xrdfs, cache.address, "stat", "/sizes/block.bin"])
    assert b"Size:   65536" in stat.stdout
    located = run_client([xrdfs, cache.address, "locate", "/sizes/block.bin"])
    assert f":{cache.port}".encode() in located.stdout


def test_xrdfs_asks_for_checksum_and_space(plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay]) -> None:
    cache = cache_of(plain_origin.url)
    checksum = run_client([program("xrdfs"), cache.address, "query", "checksum", "/sizes/block.bin"])
    assert checksum.stdout.startswith(b"adler32 ")
    space = run_client([program("xrdfs"), cache.address, "query", "space", "/"])
    assert b"oss.free=" in space.stdout
    config = run_client([program("xrdfs"), cache.address, "query", "config", "readv_iov_max"])
    assert config.stdout.strip() == b"1024"


def test_recursive_copy_fetches_a_tree(
    plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay], ground: Ground, data: Path
) -> None:
    target = ground.directory("copy")
    cache = cache_of(plain_origin.url)
    result = run_client([program("xrdcp"), "--recursive", "--force", "--nopbar", cache.file_url("/sizes"), target])
    assert result.returncode == 0, result.stderr
    for source in (data / "sizes").iterdir():
        copy = next(target.rglob(source.name))
        assert copy.read_bytes() == source.read_bytes()


@pytest.fixture(scope="module")
def listed(data: Path) -> set[str]:
    """The names below /sizes."""
    return {path.name for path in (data / "sizes").iterdir()}
