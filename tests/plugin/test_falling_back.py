"""Clients with our plug-in go to the origin when a cache is down, refuses, falls silent, or dies while they read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import xrootd
from harness.clients import CLIENT_SECONDS, IMPATIENT, ClientFailed, fetch, run_client
from harness.connections import Listener
from harness.content import MODIFIED, Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.pausing import PausingClient
from harness.plugin import through_caches
from harness.relay import Relay
from harness.waiting import until
from harness.wire import Request

PATH = "/sizes/many-blocks.bin"
LARGE = "/large.bin"
CONTENT = Pattern(24_000_000, 77)


def read_in_halves(url: str, cache: Forebay) -> PausingClient:
    """A client that has opened a file through a cache, and waits when it has read half of it."""
    return PausingClient(sys.executable, "pyxrootd_halves.py", url, env=through_caches([cache.url]))


def has_seen_the_end_of_caches(origin: xrootd.Origin) -> bool:
    """Whether every connection that a cache had to the origin is closed there."""
    log = origin.processes[0].output()
    logins, ends = (re.findall(rf"(forebay\.\d+:\d+)@\S+ {word}", log) for word in ("pvt IPv4 login", "disc "))
    return len(logins) > 0 and sorted(logins) == sorted(ends)


@pytest.fixture
def origin(ground: Ground) -> Iterator[xrootd.Origin]:
    """An origin with one large file that a test may change."""
    directory = ground.directory("changing")
    CONTENT.write(directory / LARGE[1:])
    server = xrootd.plain(ground, directory)
    yield server
    server.stop()


@pytest.mark.parametrize("client", ["xrdcp", "xrdfs-cat", "pyxrootd"])
def test_cache_that_is_down_is_passed_over(
    client: str, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    environment = through_caches([f"root://127.0.0.1:{ground.free_port()}"])
    url = f"{plain_origin.url}/{PATH}"
    assert_same(fetch(client, ground, url, environment), patterns[PATH].all(), "cache down")


def test_another_cache_takes_over_files_of_the_one_that_is_down(
    cache: Forebay, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    environment = through_caches([f"root://127.0.0.1:{ground.free_port()}", cache.url])
    for path, pattern in patterns.items():
        assert_same(fetch("xrdcp", ground, f"{plain_origin.url}/{path}", environment), pattern.all(), path)
    assert cache.settled_metrics().origin_bytes == sum(pattern.size for pattern in patterns.values())


@pytest.mark.parametrize("client", ["xrdcp", "pyxrootd"])
def test_cache_that_refuses_is_passed_over(
    client: str,
    start_cache: Callable[..., Forebay],
    plain_origin: xrootd.Origin,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    cache = start_cache("elsewhere.example:*")
    url = f"{plain_origin.url}/{PATH}"
    assert_same(fetch(client, ground, url, through_caches([cache.url])), patterns[PATH].all(), "refused")
    assert cache.metrics().origin_bytes == 0
    listed = run_client([program("xrdfs"), plain_origin.url, "ls", "/sizes"], through_caches([cache.url]))
    assert PATH.encode() in listed.stdout


def test_silent_cache_is_passed_over(plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]) -> None:
    def say_nothing(client: socket.socket) -> None:
        while client.recv(1000):
            pass

    silent = Listener(say_nothing)
    try:
        environment = through_caches([f"root://127.0.0.1:{silent.port}"], FOREBAY_CONNECT_TIMEOUT="1")
        url = f"{plain_origin.url}/{PATH}"
        assert_same(fetch("xrdcp", ground, url, environment), patterns[PATH].all(), "cache silent")
        assert silent.accepted > 0
    finally:
        silent.close()


def test_missing_file_gives_the_error_of_its_origin(
    cache: Forebay, plain_origin: xrootd.Origin, ground: Ground
) -> None:
    command: list[str | Path] = [
        program("xrdcp"),
        "--nopbar",
        f"{plain_origin.url}//no/such",
        ground.directory("none") / "file",
    ]
    straight, through = run_client(command), run_client(command, through_caches([cache.url]))
    assert (through.returncode, through.stderr) == (straight.returncode, straight.stderr)


def test_cache_killed_during_the_reads_is_replaced_by_the_origin(cache: Forebay, origin: xrootd.Origin) -> None:
    with read_in_halves(f"{origin.url}/{LARGE}", cache) as reader:
        reader.until_half()
        assert sum(cache.metrics().client_bytes().values()) >= CONTENT.size // 2
        cache.process.kill()
        reported = json.loads(reader.finish())
    assert reported["sha256"] == hashlib.sha256(CONTENT.all()).hexdigest(), "begun at the cache, ended at the origin"
    assert reported["url"].startswith(origin.url)


def test_cache_that_stops_answering_during_the_reads_is_replaced_by_the_origin(
    cache: Forebay, origin: xrootd.Origin
) -> None:
    url, environment = f"{origin.url}/{LARGE}", through_caches([cache.url], XRD_STREAMTIMEOUT="3")
    with PausingClient(sys.executable, "pyxrootd_halves.py", url, env=environment) as reader:
        reader.until_half()
        cache.process.signal(signal.SIGSTOP)
        try:
            reported = json.loads(reader.finish())
        finally:
            cache.process.signal(signal.SIGCONT)
    assert reported["sha256"] == hashlib.sha256(CONTENT.all()).hexdigest()
    assert reported["url"].startswith(origin.url)


def test_copy_continues_when_the_cache_is_killed(cache: Forebay, origin: xrootd.Origin, ground: Ground) -> None:
    target = ground.directory("copy") / "file"
    with Relay(("127.0.0.1", origin.port)) as way:
        way.stall_after(12_000_000)
        environment = {**os.environ, **IMPATIENT, **through_caches([cache.url])}
        command: list[str | Path] = [program("xrdcp"), "--nopbar", f"{way.url}/{LARGE}", target]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as copy:
            until(lambda: way.is_stalled, "some bytes are on their way", within=60)
            cache.process.kill()
            way.flow()
            _, errors = copy.communicate(timeout=CLIENT_SECONDS)
            assert copy.returncode == 0, errors
    assert_same(target.read_bytes(), CONTENT.all(), "copied from both")


def test_process_forked_during_the_move_continues_to_read(cache: Forebay, origin: xrootd.Origin) -> None:
    with (
        Relay(("127.0.0.1", origin.port)) as way,
        PausingClient(
            sys.executable, "pyxrootd_forked_during_move.py", f"{way.url}/{LARGE}", env=through_caches([cache.url])
        ) as reader,
    ):
        reader.until_half()
        cache.process.kill()
        way.stall()
        way.forget()
        reader.go_on()
        until(lambda: way.requests(Request.PROTOCOL) > 0, "it is on its way to the origin", within=60)
        reader.go_on("forked")
        way.flow()
        reported = reader.finish().split()
    expected = [CONTENT.read(offset, 100_000) for offset in (100_000, 0)]
    assert reported == [hashlib.sha256(data).hexdigest() for data in expected], "in the child, then in the parent"


@pytest.mark.parametrize("new", [Pattern(CONTENT.size, 78), Pattern(CONTENT.size + 1, 77)], ids=["changed", "grown"])
def test_two_contents_are_never_mixed(new: Pattern, cache: Forebay, origin: xrootd.Origin) -> None:
    with read_in_halves(f"{origin.url}/{LARGE}", cache) as reader:
        reader.until_half()
        cache.process.kill()
        # An open of the path while the cache has the old file open gives the old one: xrootd opens a file once for all.
        until(lambda: has_seen_the_end_of_caches(origin), "the origin has closed the file", within=60)
        changed = new.write(origin.data / "new.bin")
        os.utime(changed, (MODIFIED + 60, MODIFIED + 60))
        changed.rename(origin.data / LARGE[1:])
        with pytest.raises(ClientFailed, match=r"vector_read:|read at"):
            reader.finish()
