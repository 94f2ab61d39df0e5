"""The dCap front with clients of Debian: dccp, a program on libdcap, LD_PRELOAD; cold and warm, byte for byte."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.clients import run_client
from harness.content import assert_same
from harness.dcap import Reader, dcap_url
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, program
from harness.waiting import until

from .conftest import FILE, FILES

LARGE = "/data/large.bin"
READABLE = [path for path in FILES if path.startswith("/data")]
PRELOAD = "libpdcap.so.1"


def dccp(url: str, to: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Copies a file."""
    return run_client([program("dccp"), *options, url, to])


@pytest.mark.parametrize(
    "options", [[], ["-A"], ["-a", "-b", "131072", "-B", "65536"]], ids=["plain", "passive", "read-ahead"]
)
def test_dccp_copies_files_cold_and_warm(options: list[str], dcap_cache: Forebay, ground: Ground) -> None:
    target = ground.directory("copies")
    for state in ("cold", "warm"):
        for number, path in enumerate(READABLE):
            copy = target / f"{state}-{number}"
            done = dccp(dcap_url(dcap_cache) + path, copy, *options)
            assert done.returncode == 0, (path, done.stderr)
            assert_same(copy.read_bytes(), FILES[path].all(), f"{path}, {state}")


@pytest.mark.parametrize(
    "env",
    [{}, {"DCACHE_RAHEAD": "1"}, {"DCACHE_RA_BUFFER": "131072"}, {"DC_LOCAL_CACHE_BUFFER": "1"}],
    ids=["default", "DCACHE_RAHEAD", "128KiB", "pages"],
)
def test_a_program_reads_at_random(env: dict[str, str], dcap_cache: Forebay, reader: Callable[..., Reader]) -> None:
    content = FILES[LARGE]
    chance = random.Random(1)
    places = [(chance.randrange(content.size), chance.choice([1, 100, 4096, 70_000, 3 * BLOCK])) for _ in range(60)]
    for state in ("cold", "warm"):
        client = reader(**env)
        assert client.call("open", dcap_url(dcap_cache) + LARGE)[0] > 0
        for offset, length in places:
            result, error, data = client.read("pread", offset, length)
            assert result >= 0, (state, offset, length, error)
            assert_same(data, content.read(offset, length), f"{state}, {length} bytes at {offset}")
        assert client.call("close") == (0, 0)


def test_a_program_seeks_and_reads_in_order(dcap_cache: Forebay, reader: Callable[..., Reader]) -> None:
    content = FILES[FILE]
    client = reader()
    assert client.call("open", dcap_url(dcap_cache) + FILE)[0] > 0
    assert client.call("unbuffered") == (0, 0)
    assert client.call("fsize") == (content.size, 0)
    assert client.read("read", 1000)[2] == content.read(0, 1000)
    assert client.call("seek", 500_000, os.SEEK_SET) == (500_000, 0)
    assert client.read("read", 2000)[2] == content.read(500_000, 2000)
    assert client.call("seek", -1000, os.SEEK_CUR) == (501_000, 0)
    assert client.read("read", 70_000)[2] == content.read(501_000, 70_000)
    assert client.call("seek", -100, os.SEEK_END) == (content.size - 100, 0)
    assert client.read("read", 4096)[2] == content.read(content.size - 100, 100)
    assert client.read("read", 4096) == (0, 0, b"")
    assert client.call("dup")[0] > 0
    assert client.call("close") == (0, 0)


@pytest.mark.parametrize("buffered", [True, False])
def test_a_program_reads_vectors(buffered: bool, dcap_cache: Forebay, reader: Callable[..., Reader]) -> None:
    content = FILES[LARGE]
    chance = random.Random(2)
    parts = [(chance.randrange(content.size - 5000), chance.randrange(1, 5000)) for _ in range(700)]
    # The first one is long, and the same part comes twice.
    parts = [(7, 5 * BLOCK), *parts, (7, 11), (7, 11), (content.size - 1, 1)]
    expected = b"".join(content.read(offset, length) for offset, length in parts)
    for state in ("cold", "warm"):
        client = reader()
        assert client.call("open", dcap_url(dcap_cache) + LARGE)[0] > 0
        if not buffered:
            client.call("unbuffered")
        result, error, data = client.read("vector", *(number for part in parts for number in part))
        assert result == len(expected), error
        assert_same(data, expected, state)
        assert client.call("close") == (0, 0)


def test_a_program_has_many_files_open(dcap_cache: Forebay, reader: Callable[..., Reader]) -> None:
    client = reader()
    for path in READABLE * 40:
        assert client.call("open", dcap_url(dcap_cache) + path)[0] > 0
        assert_same(client.read("read", 1000)[2], FILES[path].read(0, 1000), path)
    assert dcap_cache.metrics().total("forebay_open_handles") == 40 * len(READABLE)
    client.kill()
    until(lambda: dcap_cache.metrics().total("forebay_open_handles") == 0, "the files of the dead client are closed")


def test_stat_and_check(dcap_cache: Forebay, reader: Callable[..., Reader]) -> None:
    url = dcap_url(dcap_cache)
    client = reader()
    assert client.call("size", url + FILE) == (FILES[FILE].size, 0)
    assert client.call("lsize", url + "/data/empty.bin") == (0, 0)
    assert client.call("mode", url + FILE) == (stat.S_IFREG | 0o444, 0)
    assert client.call("mode", url + "/data") == (stat.S_IFDIR | 0o555, 0)
    assert client.call("access", url + FILE) == (0, 0)
    assert client.call("size", url + "/data/none") == (-1, errno.ENOENT)
    # While a cache that has just started reads its index, every file may be on the disk.
    until(lambda: client.call("check", url + FILE)[0] == -1, "the file is known not to be on disk")
    done = dccp(url + FILE, Path("/dev/null"))
    assert done.returncode == 0, done.stderr
    until(lambda: client.call("check", url + FILE)[0] == 0, "the file is on disk")


def test_programs_of_the_system_read_by_preloading(dcap_cache: Forebay) -> None:
    env = {"LD_PRELOAD": PRELOAD}
    url = dcap_url(dcap_cache)
    head = run_client(["/usr/bin/head", "-c", "5000", url + FILE], env)
    assert_same(head.stdout, FILES[FILE].read(0, 5000), "head")
    count = run_client(["/usr/bin/wc", "-c", url + FILE], env)
    assert int(count.stdout.split()[0]) == FILES[FILE].size
