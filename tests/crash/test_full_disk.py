"""A full or unwritable disk: reads continue with correct data, without storing it, and are counted."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.relay import Relay
from harness.waiting import until

PATH = "/large.bin"
CONTENT = Pattern(24 << 20, 77)
DISK_BYTES = 12 << 20
PIECE = 1 << 20


@pytest.fixture(scope="module")
def origin(ground: Ground) -> xrootd.Origin:
    """An xrootd with a file larger than the cache's disk."""
    directory = ground.directory("large")
    CONTENT.write(directory / PATH[1:])
    return xrootd.plain(ground, directory)


@dataclass
class SmallDisk:
    """A way to give the cache a disk of 12 MiB: a tmpfs in a mount namespace of its own, or a limit on file sizes."""

    store: Path
    wrapper: list[str] = field(default_factory=list)

    @classmethod
    def find(cls, store: Path) -> SmallDisk:
        """Mounting needs root or user namespaces; where neither is allowed the limit stands in for the full disk."""
        own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        script = f'mount -t tmpfs -o size={DISK_BYTES},mode=777 tmpfs "{store}" && exec "$@"'
        wrapper = [str(program("unshare")), *own_user, "--mount", "sh", "-c", script, "sh"]
        works = subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode == 0
        return cls(store, wrapper if works else [])

    def cache(self, ground: Ground, origin_url: str) -> Forebay:
        """Starts a cache on the small disk."""
        before_exec = None if self.wrapper else limit_file_size
        return forebay.cache(ground, origin_url, store=self.store, wrapper=self.wrapper, before_exec=before_exec)

    def enlarge(self, cache: Forebay) -> None:
        """Makes room for the whole file, as an administrator would while the cache runs."""
        pid = cache.process.pid
        if self.wrapper:
            command = [str(program("nsenter")), "--target", str(pid), "--mount"]
            if os.geteuid() != 0:
                command += ["--user", "--preserve-credentials"]
            options = f"remount,size={3 * CONTENT.size}"
            mount = [str(program("mount")), "-i", "-n", "-t", "tmpfs", "-o", options, "tmpfs", str(self.store)]
            subprocess.run([*command, *mount], check=True)
        else:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (3 * CONTENT.size, resource.RLIM_INFINITY))


def limit_file_size() -> None:
    """Files cannot grow beyond the size of the small disk: writing more fails with EFBIG."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, resource.RLIM_INFINITY))


@pytest.fixture
def relay(origin: xrootd.Origin) -> Iterator[Relay]:
    """Counts requests to the origin."""
    with Relay(("127.0.0.1", origin.port)) as way:
        yield way


def read_in_pieces(cache: Forebay) -> None:
    """Reads and checks the whole file."""
    with cache.client() as client:
        handle = client.open(PATH)
        for offset in range(0, CONTENT.size, PIECE):
            assert_same(client.read(handle, offset, PIECE).ok(), CONTENT.read(offset, PIECE), f"at {offset}")


def test_full_disk_serves_without_keeping(ground: Ground, relay: Relay) -> None:
    store = ground.directory("store")
    with SmallDisk.find(store).cache(ground, relay.url) as cache, cache.client() as holder:
        # An open file is not purged: part of it is still there in the second pass.
        holder.open(PATH)
        read_in_pieces(cache)
        first = cache.settled_metrics()
        read_in_pieces(cache)
        second = cache.metrics()
    assert sum(first.client_bytes().values()) == CONTENT.size
    assert sum(second.client_bytes().values()) == 2 * CONTENT.size
    assert second.client_bytes()["bypassed"] > 0
    assert second.client_bytes()["hit"] > 0
    assert second.total("forebay_disk_errors_total") + second.total("forebay_not_kept_total") > 0
    requested = sum(min(read.length, CONTENT.size - read.offset) for read in relay.reads)
    # The reader requests again the bytes that were read ahead of a failed write; nothing else is requested twice.
    lost = second.total("forebay_read_ahead_bytes_total", event="failed")
    wasted = second.total("forebay_read_ahead_bytes_total", event="wasted")
    not_hit = 2 * CONTENT.size - second.client_bytes()["hit"]
    assert requested <= not_hit + lost + wasted, "a failed write must not cause refetching"


def test_cache_keeps_again_when_the_disk_has_room_again(ground: Ground, relay: Relay) -> None:
    disk = SmallDisk.find(ground.directory("store"))
    with disk.cache(ground, relay.url) as cache:
        read_in_pieces(cache)
        disk.enlarge(cache)

        def is_hit_whole() -> bool:
            before = cache.metrics().client_bytes()["hit"]
            read_in_pieces(cache)
            return cache.metrics().client_bytes()["hit"] == before + CONTENT.size

        until(is_hit_whole, "everything is kept", within=60)


def remove_busy(directory: Path) -> None:
    """Removes a directory in which a server creates files meanwhile."""
    aside = directory.with_name(f"{directory.name}-removed")
    directory.rename(aside)

    def is_removed() -> bool:
        shutil.rmtree(aside, ignore_errors=True)
        return not aside.exists()

    until(is_removed, "the directory is removed")


def test_store_that_becomes_unwritable_serves_without_keeping(ground: Ground, relay: Relay) -> None:
    store = ground.directory("store")
    with forebay.cache(ground, relay.url, store=store) as cache:
        remove_busy(store)
        store.touch()
        for _ in range(2):
            read_in_pieces(cache)
        assert sum(cache.metrics().client_bytes().values()) == 2 * CONTENT.size
