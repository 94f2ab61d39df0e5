"""Taking over an XCache directory, and giving it back: each side serves files cached by the other as hits."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK
from harness.ground import Ground, program
from harness.process import give_to_service
from harness.raw_client import RawClient
from harness.relay import Relay
from harness.waiting import until

WHOLE = [
    "/sizes/many-blocks.bin",
    "/sizes/block.bin",
    "/sizes/block-and-one.bin",
    "/sizes/one-byte.bin",
    "/sizes/empty.bin",
]
PARTIAL = "/partly/cached.bin"
PARTIAL_CONTENT = Pattern(30 * BLOCK + 99, 55)
CACHED = (3 * BLOCK, 4 * BLOCK)


@pytest.fixture(scope="module")
def contents(patterns: dict[str, Pattern]) -> dict[str, Pattern]:
    """Every file of these tests."""
    return {**{path: patterns[path] for path in WHOLE}, PARTIAL: PARTIAL_CONTENT}


@pytest.fixture(scope="module")
def origin(ground: Ground, contents: dict[str, Pattern]) -> xrootd.Origin:
    """An xrootd with these files."""
    directory = ground.directory("takeover")
    for path, content in contents.items():
        content.write(directory / path[1:])
    return xrootd.plain(ground, directory)


@pytest.fixture
def relay(origin: xrootd.Origin) -> Iterator[Relay]:
    """Counts requests to the origin."""
    with Relay(("127.0.0.1", origin.port)) as way:
        yield way


def connect(server: xrootd.Origin | forebay.Forebay) -> RawClient:
    """A raw client of either server."""
    return RawClient("127.0.0.1", server.port)


def fill(ground: Ground, server: xrootd.Origin | forebay.Forebay, contents: dict[str, Pattern]) -> None:
    """Reads some files whole and one in part."""
    for path in WHOLE:
        assert_same(fetch("xrdcp", ground, f"{server.url}/{path}"), contents[path].all(), path)
    with connect(server) as client:
        handle = client.open(PARTIAL)
        assert_same(client.read(handle, *CACHED).ok(), PARTIAL_CONTENT.read(*CACHED), PARTIAL)
        client.close_file(handle).ok()


def check_hits(
    ground: Ground, server: xrootd.Origin | forebay.Forebay, relay: Relay, contents: dict[str, Pattern]
) -> None:
    """Cached blocks are served without the origin; others come from the origin."""
    relay.forget()
    for path in WHOLE:
        assert_same(fetch("xrdcp", ground, f"{server.url}/{path}"), contents[path].all(), path)
    with connect(server) as client:
        handle = client.open(PARTIAL)
        assert_same(client.read(handle, *CACHED).ok(), PARTIAL_CONTENT.read(*CACHED), "cached part")
        assert relay.reads == []
        assert_same(client.read(handle, 0, 1 << 30).ok(), PARTIAL_CONTENT.all(), "all of it")
        assert relay.reads
        assert all(read.offset + read.length <= CACHED[0] or read.offset >= sum(CACHED) for read in relay.reads)


def printed(cinfo: Path) -> str:
    """The output of the stock printer for a state file."""
    result = subprocess.run([program("xrdpfc_print"), cinfo], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def downloaded(path: str, content: Pattern) -> str:
    """How the stock printer shows the number of blocks that `fill` leaves of a file."""
    return f"n_downloaded {CACHED[1] // BLOCK if path == PARTIAL else block_count(content)},"


def block_count(content: Pattern) -> int:
    """An empty file counts as one block."""
    return max(1, (content.size + BLOCK - 1) // BLOCK)


def fill_stock(ground: Ground, store: Path, relay: Relay, contents: dict[str, Pattern]) -> None:
    """Lets a stock XCache fill a store, waits until its state files say so, and stops it."""
    stock = xrootd.xcache(ground, store, relay.url.removeprefix("root://"))
    try:
        fill(ground, stock, contents)
        for path, content in contents.items():
            if content.size > 0:
                cinfo = store / f"{path[1:]}.cinfo"
                until(lambda: downloaded(path, content) in printed(cinfo), f"XCache syncs {path}", within=40)  # noqa: B023
    finally:
        stock.stop()


def test_stock_printer_accepts_our_state_files(ground: Ground, relay: Relay, contents: dict[str, Pattern]) -> None:
    with forebay.cache(ground, relay.url) as cache:
        fill(ground, cache, contents)
    for path, content in contents.items():
        text = printed(cache.data / f"{path[1:]}.cinfo")
        assert "version 4" in text
        assert f"n_blocks {block_count(content)}," in text
        assert downloaded(path, content) in text
        assert "N_acc_total=1" in text


def test_stock_xcache_serves_files_cached_by_forebay(
    ground: Ground, relay: Relay, contents: dict[str, Pattern]
) -> None:
    with forebay.cache(ground, relay.url) as cache:
        fill(ground, cache, contents)
    stock = xrootd.xcache(ground, cache.data, relay.url.removeprefix("root://"))
    try:
        check_hits(ground, stock, relay, contents)
    finally:
        stock.stop()


@pytest.mark.parametrize("block_size", ["64KiB", "1MiB"])
def test_forebay_serves_files_cached_by_a_stock_xcache(
    block_size: str, ground: Ground, relay: Relay, contents: dict[str, Pattern]
) -> None:
    store = ground.directory("store")
    fill_stock(ground, store, relay, contents)
    arguments = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--origin", relay.url]
    arguments += ["--store", str(give_to_service(store)), "--block-size", block_size, "--budget", forebay.BUDGET]
    with forebay.Forebay(ground, arguments, store=store) as cache:
        check_hits(ground, cache, relay, contents)


def test_store_moves_to_another_server_and_back(ground: Ground, relay: Relay, contents: dict[str, Pattern]) -> None:
    with forebay.cache(ground, relay.url) as first:
        fill(ground, first, contents)
    stock = xrootd.xcache(ground, first.data, relay.url.removeprefix("root://"))
    try:
        with connect(stock) as client:
            handle = client.open(PARTIAL)
            assert_same(client.read(handle, 0, 2 * BLOCK).ok(), PARTIAL_CONTENT.read(0, 2 * BLOCK), "more of it")
            client.close_file(handle).ok()
        cinfo = first.data / f"{PARTIAL[1:]}.cinfo"
        until(lambda: f"n_downloaded {CACHED[1] // BLOCK + 2}," in printed(cinfo), "XCache syncs", within=40)
    finally:
        stock.stop()
    relay.forget()
    with forebay.cache(ground, relay.url, store=first.data) as second, connect(second) as client:
        handle = client.open(PARTIAL)
        for offset, length in [(0, 2 * BLOCK), CACHED]:
            assert_same(client.read(handle, offset, length).ok(), PARTIAL_CONTENT.read(offset, length), f"at {offset}")
        assert relay.reads == []


def test_inspect_reads_state_files_of_a_stock_xcache(
    ground: Ground, relay: Relay, contents: dict[str, Pattern]
) -> None:
    store = ground.directory("store")
    fill_stock(ground, store, relay, contents)
    for path in ("/sizes/many-blocks.bin", PARTIAL):
        shown = forebay.run(ground, "inspect", str(store / f"{path[1:]}.cinfo"))
        assert shown.returncode == 0, shown.stderr
        assert str(contents[path].size) in shown.stdout.replace(",", "").replace(" ", "")


@pytest.mark.parametrize("damage", ["bit-flip", "truncated", "future-version", "empty", "data-missing", "data-short"])
def test_damaged_entries_are_refetched_and_never_trusted(
    damage: str, ground: Ground, relay: Relay, contents: dict[str, Pattern]
) -> None:
    path = WHOLE[0]
    with forebay.cache(ground, relay.url) as cache, connect(cache) as client:
        client.read(client.open(path), 0, 1 << 30).ok()
    data, cinfo = cache.data / path[1:], cache.data / f"{path[1:]}.cinfo"
    image = cinfo.read_bytes()
    if damage == "bit-flip":
        cinfo.write_bytes(image[:57] + bytes([image[57] ^ 1]) + image[58:])
    elif damage == "truncated":
        cinfo.write_bytes(image[:40])
    elif damage == "future-version":
        cinfo.write_bytes(b"\x09" + image[1:])
    elif damage == "empty":
        cinfo.write_bytes(b"")
    elif damage == "data-missing":
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[: 5 * BLOCK])
    give_to_service(cache.data)
    with forebay.cache(ground, relay.url, store=cache.data) as again, connect(again) as client:
        assert_same(client.read(client.open(path), 0, 1 << 30).ok(), contents[path].all(), damage)
        assert again.metrics().origin_bytes == contents[path].size
