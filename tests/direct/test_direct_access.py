"""Clients that see the cache's file system are sent to complete files, and read them on their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import wire
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.direct import sent_bytes
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.raw_client import RawClient
from harness.waiting import until

PATH = "/sizes/many-blocks.bin"
ABLE_TO_READ_FILES = 0x47
"""Full URLs, redirects during a read, local files."""


def filled(cache: Forebay, ground: Ground, pattern: Pattern) -> int:
    """Reads the file until the cache leaves it to clients; gives the bytes that the cache has sent by then."""
    assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), pattern.all(), "cold")

    def is_left() -> bool:
        assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), pattern.all(), "on the way")
        return cache.metrics().total("forebay_direct_opens_total") > 0

    until(is_left, "the file is on disk and left to clients", within=60)
    return sent_bytes(cache)


@pytest.mark.parametrize("client", ["xrdcp", "xrdfs-cat", "pyxrootd"])
def test_complete_file_is_read_past_the_server(
    client: str, cache: Callable[..., Forebay], ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server = cache()
    sent = filled(server, ground, patterns[PATH])
    assert_same(fetch(client, ground, server.file_url(PATH)), patterns[PATH].all(), client)
    assert sent_bytes(server) == sent, "the server has sent none of it"


def test_uproot_reads_a_complete_tree_past_the_server(
    cache: Callable[..., Forebay], ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server = cache()
    sent = filled(server, ground, patterns[PATH])
    program = (
        "import sys; from fsspec_xrootd import XRootDFileSystem\n"
        "with XRootDFileSystem(sys.argv[1]).open(sys.argv[2]) as file: sys.stdout.buffer.write(file.read())"
    )
    read = run_client([sys.executable, "-c", program, f"127.0.0.1:{server.port}", PATH])
    assert_same(read.stdout, patterns[PATH].all(), "fsspec")
    assert sent_bytes(server) == sent


def test_incomplete_files_are_served_and_private(
    cache: Callable[..., Forebay], store: Path, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server = cache()
    with RawClient("127.0.0.1", server.port) as client:
        handle = client.open(PATH)
        assert_same(client.read(handle, 0, BLOCK).ok(), patterns[PATH].read(0, BLOCK), "a part")
        server.settled_metrics()
        assert (store / PATH[1:]).stat().st_mode & 0o077 == 0
        client.close_file(handle)
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), patterns[PATH].all(), "the rest")


@pytest.mark.parametrize(("direct", "clients"), [("never", ["*"]), ("complete", ["10.*"])])
def test_files_are_served_where_direct_access_is_not_for_the_client(
    direct: str, clients: list[str], cache: Callable[..., Forebay], ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server = cache(direct=direct, clients=clients)
    for _ in range(3):
        assert_same(fetch("xrdcp", ground, server.file_url(PATH)), patterns[PATH].all(), direct)
        server.settled_metrics()
    assert server.metrics().total("forebay_direct_opens_total") == 0


def test_client_sees_the_store_elsewhere(
    cache: Callable[..., Forebay], store: Path, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    elsewhere = ground.directory("elsewhere") / "mounted"
    elsewhere.symlink_to(store)
    server = cache(paths=[f"{store}={elsewhere}"])
    filled(server, ground, patterns[PATH])
    with RawClient("127.0.0.1", server.port, login=False) as client:
        client.greet()
        client.login(ability=ABLE_TO_READ_FILES)
        frame = client.try_open(PATH).frames[-1]
    assert frame.status == wire.Status.REDIRECT
    port, url = int.from_bytes(frame.body[:4], signed=True), frame.body[4:].decode()
    assert (port, url) == (-1, f"file://localhost{elsewhere}{PATH}")
