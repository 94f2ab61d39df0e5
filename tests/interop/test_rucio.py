"""Names of Rucio files at several origins share one entry if the contents are the same, and only then."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from harness import forebay, xrootd
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.waiting import until

SIZE = 400_000
GOOD, OTHER = Pattern(SIZE, 11), Pattern(SIZE, 12)
END = "rucio/mc23_13p6TeV/3f/a0/DAOD.1.root"
ORIGINS = {"one": ("/eos/site", GOOD), "two": ("/dpm/rucio/pool", GOOD), "damaged": ("/eos/site", OTHER)}
CONFIGURATION: dict[str, Any] = {"forwarding": {"allow": ["127.0.0.1:*"], "share_rucio_files": True}}


@pytest.fixture(scope="module")
def origins(ground: Ground) -> Iterator[dict[str, xrootd.Origin]]:
    """Servers with the same file below different directories, and one with other bytes of the same size."""
    running = {}
    for name, (base, content) in ORIGINS.items():
        data = ground.directory(name)
        target = data / f"{base[1:]}/{END}"
        target.parent.mkdir(parents=True)
        content.write(target)
        running[name] = xrootd.plain(ground, data)
    yield running
    for origin in running.values():
        origin.stop()


def name_at(origins: dict[str, xrootd.Origin], origin: str) -> str:
    """The name of the file in a request to the cache."""
    return f"/root://{origins[origin].address}/{ORIGINS[origin][0]}/{END}"


def copy(ground: Ground, cache: Forebay, origins: dict[str, xrootd.Origin], origin: str) -> None:
    """Copies the file of an origin through the cache, and checks it."""
    got = fetch("xrdcp", ground, f"{cache.url}/{name_at(origins, origin)}")
    assert_same(got, ORIGINS[origin][1].all(), origin)


def test_one_copy_serves_the_names_of_all_origins(ground: Ground, origins: dict[str, xrootd.Origin]) -> None:
    store = ground.directory("store")
    with forebay.configured(ground, CONFIGURATION, store=store) as cache:
        copy(ground, cache, origins, "one")
        assert cache.settled_metrics().origin_bytes == SIZE
        copy(ground, cache, origins, "two")
        assert cache.settled_metrics().origin_bytes == SIZE
        # The checksums differ, and so do the entries.
        for origin in ("damaged", "one", "damaged", "two"):
            copy(ground, cache, origins, origin)
        assert cache.settled_metrics().origin_bytes == 2 * SIZE
    kept = {path.name.split(",")[0] for path in store.glob("rucio:/mc23_13p6TeV/3f/a0/*.cinfo")}
    assert kept == {"DAOD.1.root"}
    assert len(list(store.glob("rucio:/mc23_13p6TeV/3f/a0/*.cinfo"))) == 2
    with forebay.configured(ground, CONFIGURATION, store=store) as cache:
        for origin in ("two", "damaged", "one"):
            copy(ground, cache, origins, origin)
        assert cache.settled_metrics().origin_bytes == 0


def test_an_unset_option_keeps_origins_apart(ground: Ground, origins: dict[str, xrootd.Origin]) -> None:
    with forebay.configured(ground, {"forwarding": {"allow": ["127.0.0.1:*"]}}) as cache:
        copy(ground, cache, origins, "one")
        copy(ground, cache, origins, "two")
        assert cache.settled_metrics().origin_bytes == 2 * SIZE


def test_the_rest_of_a_file_comes_from_another_origin(ground: Ground, origins: dict[str, xrootd.Origin]) -> None:
    """One origin has stopped after half of the file."""
    data = origins["one"].data
    leaving = xrootd.plain(ground, data)
    block = 5 * forebay.BLOCK
    with forebay.configured(ground, {**CONFIGURATION, "read_ahead": {"fill": "on-demand-blocks"}}) as cache:
        with cache.client() as client:
            handle = client.open(f"/root://{leaving.address}/{ORIGINS['one'][0]}/{END}")
            assert_same(client.read(handle, 0, block).ok(), GOOD.read(0, block), "half")
            client.close_file(handle).ok()
        cache.settled_metrics()
        leaving.stop()

        def is_copied() -> bool:
            with contextlib.suppress(ClientFailed):
                copy(ground, cache, origins, "two")
                return True
            return False

        # A file stays open for a moment after its last close, at the origin at which it was opened.
        until(is_copied, "the file is opened at the other origin")
        assert cache.settled_metrics().origin_bytes == SIZE
