"""A cache authenticates to stock origins: with a proxy, a certificate, a shared secret or a user name."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import xrootd
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.process import give_to_service
from harness.raw_client import RawClient
from harness.tokens import ANY_AUDIENCE, TokenIssuer, token_file
from harness.voms import Organization
from harness.waiting import until

from .test_sss import for_server, keytab

PATH = "/sizes/many-blocks.bin"

Serve = Callable[[Mapping[str, Any]], Forebay]


@pytest.fixture
def stock(ground: Ground, data: Path) -> Iterator[Callable[..., xrootd.Origin]]:
    """Starts stock servers of the known files that require a login; they are stopped when the test ends."""
    started: list[xrootd.Origin] = []

    def start(
        security: list[str],
        rules: str = "",
        tls: tuple[Credential, Path] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> xrootd.Origin:
        started.append(xrootd.guarded(ground, data, security, rules, tls=tls, environment=environment))
        return started[-1]

    yield start
    for origin in started:
        origin.stop()


@pytest.fixture
def for_members(
    ground: Ground, data: Path, grid: Grid, host: Credential, atlas: Organization
) -> Iterator[Callable[..., xrootd.Origin]]:
    """Starts stock servers that give their files to members of the organization only, known by proxies."""
    started: list[xrootd.Origin] = []

    def start(*, encrypted: bool = False) -> xrootd.Origin:
        started.append(xrootd.for_members(ground, data, atlas, grid.directory, host, encrypted=encrypted))
        return started[-1]

    yield start
    for origin in started:
        origin.stop()


@pytest.fixture
def cache(serve: Serve, grid: Grid) -> Callable[..., Forebay]:
    """Starts caches of one origin that trust the grid, with the given credentials."""

    def start(origin: str, **credential: object) -> Forebay:
        shown = [{"hosts": ["127.0.0.1"], **credential}] if credential else []
        tls = {"ca_dir": str(grid.directory)}
        looks = {"refresh_interval": "1s"}
        return serve({"export": [{"origins": [origin]}], "tls": tls, "credential": shown, "authentication": looks})

    return start


def owned(ground: Ground, credential: Credential) -> Path:
    """A proxy's file as a server's user may read it."""
    copy = ground.directory("proxy-of-server") / "proxy.pem"
    copy.touch(mode=0o600)
    copy.write_bytes(credential.in_one_file().read_bytes())
    return give_to_service(copy)


@pytest.mark.parametrize("encrypted", [False, True], ids=["root", "roots"])
def test_proxy_with_attributes_opens_a_stock_origin_for_members(
    encrypted: bool,
    for_members: Callable[..., xrootd.Origin],
    cache: Callable[..., Forebay],
    grid: Grid,
    atlas: Organization,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    origin = for_members(encrypted=encrypted)
    url = f"{'roots' if encrypted else 'root'}://{origin.address}"
    user = grid.issuer.user("Service")
    member = owned(ground, atlas.proxy(user, "/atlas/Role=NULL", environment=grid.environment()))
    server = cache(url, method="proxy", proxy=str(member), weak_groups=True)
    for path, pattern in patterns.items():
        for _ in range(2):
            assert_same(fetch("xrdcp", ground, server.file_url(path)), pattern.all(), path)
    assert server.settled_metrics().origin_bytes == sum(pattern.size for pattern in patterns.values())


def test_cache_that_is_no_member_gets_and_keeps_nothing(
    for_members: Callable[..., xrootd.Origin],
    cache: Callable[..., Forebay],
    grid: Grid,
    ground: Ground,
) -> None:
    origin = for_members()
    stranger = owned(ground, grid.issuer.user("Stranger"))
    for shown, reason in (
        ({}, "no certificate or proxy"),
        ({"method": "proxy", "proxy": str(stranger), "weak_groups": True}, "does not let this cache in"),
        ({"method": "proxy", "proxy": str(stranger)}, "Diffie-Hellman group of 512"),
    ):
        server = cache(origin.url, **shown)
        with pytest.raises(ClientFailed, match=reason):
            fetch("xrdcp", ground, server.file_url(PATH))
        assert server.settled_metrics().origin_bytes == 0


def test_proxies_are_made_from_a_certificate(
    stock: Callable[..., xrootd.Origin],
    cache: Callable[..., Forebay],
    grid: Grid,
    host: Credential,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    robot = grid.issuer.user("Robot").for_service(ground, "robot")
    known = ground.directory("grid-map") / "grid-mapfile"
    known.write_text(f'"{robot.subject}" robot\n')
    gsi = f"-certdir:{grid.directory} -cert:{host.certificate} -key:{host.key} -crl:1 -gridmap:{known} -gmapopt:2"
    origin = stock([f"sec.protocol gsi {gsi}"], "u robot / rl\n")
    files = {"certificate": str(robot.certificate), "key": str(robot.key)}
    server = cache(origin.url, method="certificate", weak_groups=True, **files)
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), patterns[PATH].all(), "robot")


def test_shared_secret_opens_a_stock_origin_and_another_one_does_not(
    stock: Callable[..., xrootd.Origin],
    cache: Callable[..., Forebay],
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    secrets = keytab(ground, "anybody")
    origin = stock([f"sec.protocol sss -s {for_server(ground, secrets)} -c {secrets}"], "u cache / rl\n")
    ours, other = (for_server(ground, path) for path in (secrets, keytab(ground, "anybody")))
    server = cache(origin.url, method="secret", keytab=str(ours), user="cache")
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), patterns[PATH].all(), "sss")
    for keys, user in ((ours, "somebody"), (other, "cache")):
        refused = cache(origin.url, method="secret", keytab=str(keys), user=user)
        with pytest.raises(ClientFailed):
            fetch("xrdcp", ground, refused.file_url(PATH))
        assert refused.settled_metrics().origin_bytes == 0


def test_token_opens_a_stock_origin_and_a_newer_one_is_used_when_its_file_changes(
    for_bearers: xrootd.Origin,
    cache: Callable[..., Forebay],
    issuer: TokenIssuer,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    url = f"roots://{for_bearers.address}"
    good = give_to_service(token_file(ground, issuer.token(aud=ANY_AUDIENCE)))
    server = cache(url, method="token", token=str(good))
    for path, pattern in patterns.items():
        assert_same(fetch("xrdcp", ground, server.file_url(path)), pattern.all(), path)
    bad = give_to_service(token_file(ground, issuer.token(exp=1_600_000_000)))
    refused = cache(url, method="token", token=str(bad))
    with pytest.raises(ClientFailed, match="does not let this cache in"):
        fetch("xrdcp", ground, refused.file_url(PATH))
    bad.write_text(good.read_text())
    until(lambda: reads(ground, refused), "the cache uses the token that is there now", within=120)
    assert_same(fetch("xrdcp", ground, refused.file_url(PATH)), patterns[PATH].all(), "renewed")


def test_fill_continues_with_the_newest_token(
    for_bearers: xrootd.Origin,
    cache: Callable[..., Forebay],
    issuer: TokenIssuer,
    ground: Ground,
    data: Path,
    grid: Grid,
    host: Credential,
    patterns: dict[str, Pattern],
) -> None:
    ends = int(time.time()) + 30
    own = give_to_service(token_file(ground, issuer.token(aud=ANY_AUDIENCE, exp=ends)))
    server = cache(f"roots://{for_bearers.address}", method="token", token=str(own))
    pattern = patterns[PATH]
    with RawClient("127.0.0.1", server.port) as client:
        handle = client.open(PATH)
        assert_same(client.read(handle, 0, BLOCK).ok(), pattern.read(0, BLOCK), "with the first token")
        own.write_text(issuer.token(aud=ANY_AUDIENCE))
        for_bearers.stop()
        again = xrootd.for_bearers(ground, data, issuer, host, grid.directory, port=for_bearers.port)
        try:
            until(lambda: time.time() > ends + 2, "the first token has ended", within=90)
            at = pattern.size - 1000
            assert_same(client.read(handle, at, 1000).ok(), pattern.read(at, 1000), "with the second token")
        finally:
            again.stop()


def reads(ground: Ground, server: Forebay) -> bool:
    """Whether the file can be read."""
    with contextlib.suppress(ClientFailed):
        fetch("xrdcp", ground, server.file_url(PATH))
        return True
    return False


def test_word_is_enough_for_a_stock_origin_that_takes_it(
    stock: Callable[..., xrootd.Origin],
    cache: Callable[..., Forebay],
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    origin = stock(["sec.protocol unix"], "u forebay / rl\n")
    server = cache(origin.url)
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), patterns[PATH].all(), "unix")


@pytest.mark.parametrize("level", ["compatible", "standard", "intense", "pedantic"])
def test_requests_are_signed_where_a_stock_origin_wants_that(
    level: str,
    stock: Callable[..., xrootd.Origin],
    cache: Callable[..., Forebay],
    grid: Grid,
    host: Credential,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    gsi = f"-certdir:{grid.directory} -cert:{host.certificate} -key:{host.key} -crl:1 -gmapopt:0"
    origin = stock([f"sec.protocol gsi {gsi}", f"sec.level all {level}"])
    proxy = owned(ground, grid.issuer.user("Signer"))
    server = cache(origin.url, method="proxy", proxy=str(proxy), weak_groups=True)
    for path, pattern in patterns.items():
        assert_same(fetch("xrdcp", ground, server.file_url(path)), pattern.all(), f"{level} {path}")
