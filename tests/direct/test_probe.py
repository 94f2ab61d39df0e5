"""Clients that prove that they see the store, by its probe file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.direct import REDIRECTED_AMID_READS, SEES_FILES, logged_in, until_complete
from harness.forebay import Forebay
from harness.ground import Ground
from harness.relay import Relay
from harness.wire import Query, Status
from harness.xrootd import Origin

PATH = "/sizes/many-blocks.bin"
WRONG = "0" * 32

Cache = Callable[..., Forebay]


def probe_path(server: Forebay) -> str:
    """Where the server says the probe file is."""
    with server.client() as client:
        return client.query(Query.CONFIG, b"forebay.probe").ok().decode().rstrip("\n\0")


def test_only_clients_that_know_the_probe_are_redirected_to_the_file(
    cache: Cache, store: Path, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    server, pattern = cache(probe="client", export={"fill": "while-open"}), patterns[PATH]
    probe = Path(probe_path(server))
    assert probe == store / ".forebay-probe"
    assert probe.stat().st_mode & 0o777 == 0o644
    good = f"{PATH}?forebay.probe={probe.read_text().strip()}"
    with logged_in(server, SEES_FILES | REDIRECTED_AMID_READS) as client:
        early = {path: client.open(path) for path in (good, f"{PATH}?forebay.probe={WRONG}", PATH)}
        until_complete(server, good)
        statuses = [client.try_open(path).status for path in early]
        assert statuses == [Status.REDIRECT, Status.OK, Status.OK]
        statuses = [client.read(handle, 0, 100).status for handle in early.values()]
        assert statuses == [Status.REDIRECT, Status.OK, Status.OK], "the same during reads"
    opens = server.metrics().total("forebay_direct_opens_total")
    assert_same(fetch("xrdcp", ground, server.file_url(good)), pattern.all(), "with the probe")
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), pattern.all(), "without")
    assert server.metrics().total("forebay_direct_opens_total") == opens + 1
    server.stop()
    assert Path(probe_path(cache(probe="client"))).read_text() == probe.read_text(), "the same after a restart"


def test_clients_of_other_networks_get_no_path(cache: Cache) -> None:
    assert probe_path(cache(clients=["10.0.0.0/8", "2001:db8::/32"])) == "forebay.probe"


def test_clients_are_known_by_their_network_and_get_their_path_of_the_probe(cache: Cache, store: Path) -> None:
    server = cache(clients=["127.0.0.0/8"], paths=[f"{store}=/mnt/elsewhere"])
    assert probe_path(server) == "/mnt/elsewhere/.forebay-probe"


def test_probe_does_not_reach_the_origin(cache: Cache, plain_origin: Origin) -> None:
    seen: list[bytes] = []

    def watch(request: bytes) -> bytes:
        seen.append(request)
        return request

    with Relay(("127.0.0.1", plain_origin.port), meddle=watch) as way:
        server = cache(origin=way.url)
        with server.client() as client:
            client.open(f"{PATH}?a=1&forebay.probe={WRONG}")
    assert any(b"a=1" in request for request in seen)
    assert not any(b"forebay.probe" in request for request in seen)
