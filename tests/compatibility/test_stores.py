"""Stores of earlier releases are read; what a later one might have written costs a fetch, never a wrong byte."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import xrootd
from harness.admin import Site
from harness.clients import fetch
from harness.forebay import BLOCK
from harness.ground import Ground
from harness.process import give_to_service
from harness.waiting import until

from . import kept

RELEASES = sorted(archive.name.removesuffix(".tar.xz") for archive in kept.STORES.glob("*.tar.xz"))
MARK = "user.forebay.origin"


@pytest.fixture(scope="module")
def origin(ground: Ground) -> xrootd.Origin:
    """The origin from which the kept files are."""
    return xrootd.plain(ground, kept.write_files(ground.directory("data")))


def unpacked(ground: Ground, release: str) -> Path:
    """A store as a release has left it."""
    store = ground.directory("store")
    archive = kept.STORES / f"{release}.tar.xz"
    subprocess.run(["tar", "--xattrs", "--xattrs-include=user.*", "-xJf", str(archive), "-C", str(store)], check=True)
    return give_to_service(store)


def site(ground: Ground, store: Path, origin_url: str) -> Site:
    configuration = {"export": [{"origins": [origin_url]}], "read_ahead": {"enabled": False}}
    return Site(ground, configuration, store=store)


def test_there_is_a_store_of_the_first_release() -> None:
    assert "0.1.0" in RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_a_store_of_a_release_is_served_with_its_index(ground: Ground, release: str) -> None:
    """Complete files and cached blocks come from the store; the index is read, with pins."""
    store = unpacked(ground, release)
    with site(ground, store, f"root://127.0.0.1:{ground.free_port()}") as cache:
        until(lambda: cache.get("/status")["index"]["state"] == "ready", "the index is read")
        for path, content in kept.COMPLETE.items():
            assert fetch("xrdcp", ground, cache.server.file_url(path)) == content.all()
        files = {file["name"]: file for file in cache.get("/files")["files"]}
        assert set(files) == {*kept.COMPLETE, kept.PARTIAL}
        assert [name for name, file in files.items() if file.get("pinned_until")] == [kept.PINNED]
        metrics = cache.server.settled_metrics()
        assert metrics.client_bytes()["hit"] == sum(content.size for content in kept.COMPLETE.values())
        # Checksums of blocks belong to an inode: those of an unpacked file are computed from its content.
        assert metrics.total("forebay_block_checks_total", result="learned") == 3
        assert not (store / ".forebay/index.replaced").exists()


@pytest.mark.parametrize("release", RELEASES)
def test_a_partial_file_of_a_release_is_completed(ground: Ground, origin: xrootd.Origin, release: str) -> None:
    with site(ground, unpacked(ground, release), origin.url) as cache:
        assert fetch("xrdcp", ground, cache.server.file_url(kept.PARTIAL)) == kept.PARTIAL_CONTENT.all()
        served = cache.server.settled_metrics().client_bytes()
        assert served["hit"] == kept.CACHED[1]
        assert served["hit"] + served["missed"] + served["coalesced"] == kept.PARTIAL_CONTENT.size


def test_a_mark_of_a_later_release_is_not_trusted_blindly(ground: Ground, origin: xrootd.Origin) -> None:
    """Without a readable mark of the origin's file, its size decides; the bytes are right."""
    store = unpacked(ground, RELEASES[-1])
    for record in store.rglob("*.cinfo"):
        os.setxattr(record, MARK, b"v9 something else")
    (store / ".forebay/index").unlink()
    with site(ground, store, origin.url) as cache:
        for path, content in {**kept.COMPLETE, kept.PARTIAL: kept.PARTIAL_CONTENT}.items():
            assert fetch("xrdcp", ground, cache.server.file_url(path)) == content.all()


def test_a_record_of_a_later_release_is_dropped_with_its_data(ground: Ground, origin: xrootd.Origin) -> None:
    store = unpacked(ground, RELEASES[-1])
    for record in store.rglob("*.cinfo"):
        record.write_bytes((9).to_bytes(4, "little") + record.read_bytes()[4:])
    with site(ground, store, origin.url) as cache:
        for path, content in {**kept.COMPLETE, kept.PARTIAL: kept.PARTIAL_CONTENT}.items():
            assert fetch("xrdcp", ground, cache.server.file_url(path)) == content.all()
        assert cache.server.settled_metrics().client_bytes()["hit"] < BLOCK


def test_an_index_of_a_later_release_is_moved_aside(ground: Ground) -> None:
    store = unpacked(ground, RELEASES[-1])
    index = store / ".forebay/index"
    index.write_bytes(b"an index of a form that is not known yet" * 1000)
    give_to_service(store)
    with site(ground, store, f"root://127.0.0.1:{ground.free_port()}") as cache:
        until(lambda: (store / ".forebay/index.replaced").exists(), "the index is moved aside")
        for path, content in kept.COMPLETE.items():
            assert fetch("xrdcp", ground, cache.server.file_url(path)) == content.all()
