"""SIGTERM ends cleanly and keeps what was read; SIGHUP reloads without dropping a reader."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import faults, forebay, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.raw_client import read_params
from harness.scripted import Exchange, ScriptedOrigin
from harness.waiting import until
from harness.wire import Error, Request

PATH = "/sizes/many-blocks.bin"


def test_sigterm_ends_with_status_zero_and_a_complete_state(
    plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay], patterns: dict[str, Pattern]
) -> None:
    cache = cache_of(plain_origin.url)
    with cache.client() as client:
        client.read(client.open(PATH), 0, 1 << 30).ok()
        assert cache.stop() == 0
    again = cache_of(plain_origin.url, store=cache.data)
    with again.client() as client:
        assert_same(client.read(client.open(PATH), 0, 1 << 30).ok(), patterns[PATH].all(), "after restart")
    assert again.metrics().origin_bytes == 0
    assert again.metrics().client_bytes()["hit"] == patterns[PATH].size


def test_sigterm_lets_a_read_in_flight_finish(ground: Ground) -> None:
    content = Pattern(500_000, 3)
    with ScriptedOrigin({"/f.bin": content}) as origin, forebay.cache(ground, origin.url) as cache:
        with cache.client() as client:
            handle = client.open("/f.bin")
            origin.on(Request.PGREAD, faults.delay(1.5))
            origin.on(Request.READ, faults.delay(1.5))
            reading = client.send(Request.READ, read_params(handle, 0, content.size), bytes(8))
            until(lambda: origin.data_ranges(), "the origin is asked")
            cache.process.signal(signal.SIGTERM)
            assert_same(client.answer(reading).ok(), content.all(), "in flight")
        assert cache.process.wait() == 0


def test_sigterm_does_not_wait_for_ever(ground: Ground) -> None:
    with ScriptedOrigin({"/f.bin": Pattern(100_000, 3)}) as origin:
        export = {"path": "/", "origins": [origin.url]}
        limits = {"shutdown_time_max": "1s"}
        with forebay.configured(ground, {"export": [export], "server": limits}) as cache, cache.client() as client:
            handle = client.open("/f.bin")
            origin.on(Request.PGREAD, faults.stay_silent)
            origin.on(Request.READ, faults.stay_silent)
            client.send(Request.READ, read_params(handle, 0, 1000), bytes(8))
            until(lambda: origin.data_ranges(), "the origin is asked")
            cache.process.signal(signal.SIGTERM)
            assert cache.process.wait(within=30) == 0


def test_sigterm_stops_accepting_at_once(ground: Ground) -> None:
    content = Pattern(100_000, 3)
    with ScriptedOrigin({"/f.bin": content}) as origin, forebay.cache(ground, origin.url) as cache:
        with cache.client() as client:
            handle = client.open("/f.bin")
            held: list[Exchange] = []
            origin.on(Request.PGREAD, held.append)
            origin.on(Request.READ, held.append)
            reading = client.send(Request.READ, read_params(handle, 0, 1000), bytes(8))
            until(lambda: held, "the origin is asked")
            cache.process.signal(signal.SIGTERM)
            until(lambda: not connects(cache), "new connections are refused")
            assert cache.process.is_running(), "the read is under way"
            for exchange in held:
                exchange.as_usual()
            assert_same(client.answer(reading).ok(), content.read(0, 1000), "the read")


def connects(cache: Forebay) -> bool:
    """Whether a new client can log in."""
    try:
        cache.client().close()
    except (OSError, AssertionError):
        return False
    return True


def test_sighup_changes_exports_and_keeps_open_files(ground: Ground, plain_origin: xrootd.Origin) -> None:
    content = Pattern(300_000, 8)
    with ScriptedOrigin({"/new/f.bin": content}) as other:
        first = {"export": [{"path": "/sizes", "origins": [plain_origin.url]}]}
        store = ground.directory("store")
        with forebay.configured(ground, first, store=store) as cache, cache.client() as client:
            handle = client.open(PATH)
            assert client.try_open("/new/f.bin").error == Error.NOT_AUTHORIZED
            both = {"export": [*first["export"], {"path": "/new", "origins": [other.url]}]}
            replacement = forebay.write_configuration(ground, forebay.complete(both, store))
            configuration = Path(cache.process.argv[-1])
            configuration.write_text(replacement.read_text())
            cache.process.signal(signal.SIGHUP)
            opened = until(lambda: (got := client.try_open("/new/f.bin")).error is None and got, "the new export")
            assert_same(client.read(opened.ok()[:4], 0, 1 << 20).ok(), content.all(), "new export")
            assert len(client.read(handle, 0, 1000).ok()) == 1000


def test_sighup_with_a_broken_file_keeps_the_old_configuration(ground: Ground, plain_origin: xrootd.Origin) -> None:
    configuration = {"export": [{"path": "/", "origins": [plain_origin.url]}]}
    with forebay.configured(ground, configuration) as cache, cache.client() as client:
        Path(cache.process.argv[-1]).write_text("[server\nlisten =")
        before = len(cache.process.output())
        cache.process.signal(signal.SIGHUP)
        until(lambda: "forebay.toml" in cache.process.output()[before:], "the error is logged with the file's name")
        assert client.stat(PATH).ok()
        assert cache.process.is_running()


def test_service_manager_is_notified(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"forebay-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(20)
        with forebay.configured(ground, {"export": [{"path": "/", "origins": ["root://127.0.0.1:1"]}]}) as cache:
            # Before it is ready, it hands over the socket of its clients.
            assert manager.recv(500).startswith(b"FDSTORE=1\n")
            assert manager.recv(500).startswith(b"READY=1\n")
            cache.process.signal(signal.SIGHUP)
            assert manager.recv(500).startswith(b"RELOADING=1\n")
            assert manager.recv(500).startswith(b"READY=1\n")
            assert cache.stop() == 0
            assert manager.recv(500).startswith(b"STOPPING=1\n")
