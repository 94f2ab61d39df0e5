"""Clients with our plug-in, and caches that leave complete files to them: where they see those, and where not."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.direct import sent_bytes, until_complete
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pausing import PausingClient
from harness.plugin import through_caches
from harness.process import give_to_service

PATH = "/sizes/many-blocks.bin"
PROBE = ".forebay-probe"
CLIENTS = ["xrdcp", "pyxrootd"]

Start = Callable[..., Forebay]


@pytest.fixture
def store(ground: Ground) -> Path:
    """A directory for a cache, into which clients can look."""
    directory = give_to_service(ground.directory("shared-store"))
    directory.chmod(0o755)
    return directory


@pytest.fixture
def start(serve: Callable[[Mapping[str, Any]], Forebay], store: Path) -> Start:
    """Starts a forwarding cache that leaves complete files to clients."""

    def start(**direct: object) -> Forebay:
        return serve(
            {
                "forwarding": {"allow": ["127.0.0.1:*"], "direct": "complete", "fill": "to-end"},
                "store": {"path": str(store)},
                "direct": {"file_mode": "0644", **direct},
            }
        )

    return start


@pytest.fixture
def only_the_probe(ground: Ground, store: Path) -> Callable[[], dict[str, list[str]]]:
    """A place where the probe file is seen, and nothing else."""

    def place() -> dict[str, list[str]]:
        elsewhere = ground.directory("elsewhere")
        (elsewhere / PROBE).symlink_to(store / PROBE)
        return {"paths": [f"{store}={elsewhere}"]}

    return place


def filled(cache: Forebay, origin: xrootd.Origin, ground: Ground, token: str = "") -> None:
    """Waits until the file is complete in the cache and left to clients."""
    fetch("pyxrootd", ground, f"{cache.url}//{origin.url}/{PATH}?forebay.probe=none")
    until_complete(cache, f"/{origin.url}/{PATH}{token}")


@pytest.mark.parametrize("client", CLIENTS)
def test_client_that_sees_the_files_reads_them_directly(
    client: str, start: Start, store: Path, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    cache = start(probe="client")
    filled(cache, plain_origin, ground, f"?forebay.probe={(store / PROBE).read_text().strip()}")
    sent, url = sent_bytes(cache), f"{plain_origin.url}/{PATH}"
    assert_same(fetch(client, ground, url, through_caches([cache.url])), patterns[PATH].all(), client)
    assert sent_bytes(cache) == sent, "the cache has sent none of it"


@pytest.mark.parametrize("client", CLIENTS)
def test_client_that_does_not_see_the_files_is_served(
    client: str, start: Start, store: Path, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    cache = start(paths=[f"{store}=/nowhere/to/be/seen"])
    filled(cache, plain_origin, ground)
    sent, opens = sent_bytes(cache), cache.metrics().total("forebay_direct_opens_total")
    environment = through_caches([cache.url])
    assert_same(fetch(client, ground, f"{plain_origin.url}/{PATH}", environment), patterns[PATH].all(), client)
    assert sent_bytes(cache) - sent >= patterns[PATH].size
    assert cache.metrics().total("forebay_direct_opens_total") == opens


@pytest.mark.parametrize("client", CLIENTS)
def test_file_that_cannot_be_opened_here_is_read_through_the_cache(
    client: str,
    start: Start,
    only_the_probe: Callable[[], dict[str, list[str]]],
    plain_origin: xrootd.Origin,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    cache = start(**only_the_probe())
    filled(cache, plain_origin, ground)
    sent, opens = sent_bytes(cache), cache.metrics().total("forebay_direct_opens_total")
    environment = through_caches([cache.url])
    assert_same(fetch(client, ground, f"{plain_origin.url}/{PATH}", environment), patterns[PATH].all(), client)
    assert sent_bytes(cache) - sent >= patterns[PATH].size
    assert cache.metrics().total("forebay_direct_opens_total") == opens + 1, "it was sent to the file first"


@pytest.mark.parametrize("is_seen", [True, False])
def test_reads_go_on_when_the_file_is_complete(
    is_seen: bool,
    start: Start,
    only_the_probe: Callable[[], dict[str, list[str]]],
    plain_origin: xrootd.Origin,
    patterns: dict[str, Pattern],
) -> None:
    cache = start(**({} if is_seen else only_the_probe()))
    url, environment = f"{plain_origin.url}/{PATH}", through_caches([cache.url])
    with PausingClient(sys.executable, "pyxrootd_halves.py", url, env=environment) as client:
        client.until_half()
        until_complete(cache, f"/{url}")
        reported = json.loads(client.finish())
    assert reported["sha256"] == hashlib.sha256(patterns[PATH].all()).hexdigest()
    assert cache.metrics().total("forebay_direct_switches_total") > 0, "it was redirected to the file during its reads"
    assert reported["url"].startswith("file://localhost/" if is_seen else cache.url)


def test_cache_that_only_fills_sends_to_the_origin(
    serve: Callable[[Mapping[str, Any]], Forebay],
    plain_origin: xrootd.Origin,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    cache = serve({"forwarding": {"allow": ["127.0.0.1:*"], "miss": "redirect"}})
    environment = through_caches([cache.url])
    assert_same(fetch("xrdcp", ground, f"{plain_origin.url}/{PATH}", environment), patterns[PATH].all(), "cold")
    assert sent_bytes(cache) == 0
    assert cache.settled_metrics().origin_bytes == patterns[PATH].size


def test_file_removed_during_the_reads_is_read_to_its_end(
    start: Start, store: Path, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    cache = start()
    filled(cache, plain_origin, ground)
    url, environment = f"{plain_origin.url}/{PATH}", through_caches([cache.url])
    with PausingClient(sys.executable, "pyxrootd_halves.py", url, env=environment) as client:
        client.until_half()
        cache.stop()
        shutil.rmtree(store)
        reported = json.loads(client.finish())
    assert reported["sha256"] == hashlib.sha256(patterns[PATH].all()).hexdigest()
