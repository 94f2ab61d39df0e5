"""A cache speaks for its clients at origins: with their tokens, and with proxies that they delegate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import xrootd
from harness.clients import ClientFailed, fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.pki import Credential, Grid
from harness.process import give_to_service
from harness.tokens import ANY_AUDIENCE, TokenIssuer, token_file
from harness.voms import Organization

PATH = "/sizes/many-blocks.bin"

Serve = Callable[[Mapping[str, Any]], Forebay]


@pytest.fixture
def cache(serve: Serve, grid: Grid, host: Credential) -> Callable[..., Forebay]:
    """Starts caches of one origin that are reached by TLS, with more tables as given."""

    def start(origin: str, export: Mapping[str, object] | None = None, **tables: object) -> Forebay:
        files = {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)}
        return serve({"export": [{"origins": [origin], **(export or {})}], "tls": files, **tables})

    return start


def with_token(server: Forebay, path: str, token: str) -> str:
    """The URL of a file, and a token that goes along."""
    return f"roots://127.0.0.1:{server.port}/{path}?authz=Bearer%20{token}"


def test_client_s_own_token_opens_the_origin_and_copies_are_not_served_to_others(
    for_bearers: xrootd.Origin,
    cache: Callable[..., Forebay],
    issuer: TokenIssuer,
    grid: Grid,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    server = cache(f"roots://{for_bearers.address}", credential=[{"hosts": ["*"], "method": "client"}])
    env = grid.environment()
    everything = issuer.token(aud=ANY_AUDIENCE)
    elsewhere = issuer.token(aud=ANY_AUDIENCE, scope="storage.read:/elsewhere")
    ended = issuer.token(aud=ANY_AUDIENCE, exp=1_600_000_000)
    for round_ in ("cold", "warm"):
        for bad in (elsewhere, ended):
            with pytest.raises(ClientFailed):
                fetch("xrdcp", ground, with_token(server, PATH, bad), env)
        with pytest.raises(ClientFailed):
            fetch("xrdcp", ground, f"roots://127.0.0.1:{server.port}/{PATH}", env)
        assert_same(fetch("xrdcp", ground, with_token(server, PATH, everything), env), patterns[PATH].all(), round_)
    assert server.settled_metrics().origin_bytes == patterns[PATH].size, "each byte was fetched once"


def test_token_of_a_login_is_shown_to_the_origin(
    for_bearers: xrootd.Origin,
    cache: Callable[..., Forebay],
    issuer: TokenIssuer,
    grid: Grid,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    server = cache(
        f"roots://{for_bearers.address}",
        credential=[{"hosts": ["*"], "method": "client"}],
        authentication={"methods": ["ztn"]},
        issuer=[{"url": issuer.url, "keys": str(issuer.keys)}],
        grant=[{"path": "/", "rights": ["read", "list", "stat"]}],
    )
    token = token_file(ground, issuer.token(aud=ANY_AUDIENCE))
    env = {**grid.environment(), "BEARER_TOKEN_FILE": str(token)}
    url = f"roots://127.0.0.1:{server.port}/{PATH}"
    assert_same(fetch("xrdcp", ground, url, env), patterns[PATH].all(), "ztn at both")
    listed = run_client([program("xrdfs"), f"roots://127.0.0.1:{server.port}", "ls", "-l", "/sizes"], env)
    assert listed.returncode == 0, listed.stderr
    assert b"many-blocks.bin" in listed.stdout


def test_origin_authorizes_clients_before_a_hit(
    for_bearers: xrootd.Origin,
    cache: Callable[..., Forebay],
    issuer: TokenIssuer,
    grid: Grid,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    service = issuer.token(aud=ANY_AUDIENCE)
    own = give_to_service(token_file(ground, service))
    server = cache(
        f"roots://{for_bearers.address}",
        export={"origin_check": True},
        credential=[{"hosts": ["*"], "method": "token", "token": str(own)}],
    )
    env = grid.environment()
    good = issuer.token(aud=ANY_AUDIENCE, sub="ann", scope="storage.read:/sizes")
    bad = issuer.token(aud=ANY_AUDIENCE, sub="eve", scope="storage.read:/elsewhere")
    for _ in ("cold", "warm"):
        assert_same(fetch("xrdcp", ground, with_token(server, PATH, good), env), patterns[PATH].all(), "ann")
        for url in (with_token(server, PATH, bad), f"roots://127.0.0.1:{server.port}/{PATH}"):
            with pytest.raises(ClientFailed):
                fetch("xrdcp", ground, url, env)
    command: list[str | Path] = [program("xrdfs"), f"roots://127.0.0.1:{server.port}"]
    for token, is_told in ((good, True), (bad, False)):
        for question in (["stat"], ["ls"], ["query", "checksum"]):
            path = "/sizes" if question == ["ls"] else PATH
            asked = run_client([*command, *question, f"{path}?authz=Bearer%20{token}"], env)
            assert (asked.returncode == 0) is is_told or question[0] == "query", (question, asked.stdout, asked.stderr)
    assert server.settled_metrics().origin_bytes == patterns[PATH].size
    for_bearers.stop()
    assert_same(fetch("xrdcp", ground, with_token(server, PATH, good), env), patterns[PATH].all(), "leave counts on")
    unknown = issuer.token(aud=ANY_AUDIENCE, sub="bob", scope="storage.read:/sizes")
    with pytest.raises(ClientFailed):
        fetch("xrdcp", ground, with_token(server, PATH, unknown), env)


# xrdcp itself forbids delegation unless it copies between servers.
@pytest.mark.parametrize("client", ["xrdfs-cat", "pyxrootd"])
def test_delegated_proxy_is_shown_to_the_origin_in_the_client_s_name(
    client: str,
    cache: Callable[..., Forebay],
    data: Path,
    grid: Grid,
    host: Credential,
    atlas: Organization,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    origin = xrootd.for_members(ground, data, atlas, grid.directory, host)
    try:
        server = cache(
            origin.url,
            credential=[{"hosts": ["*"], "method": "client", "weak_groups": True}],
            authentication={"methods": ["gsi"], "delegation": True, "voms_dir": str(atlas.vomsdir)},
            grant=[{"path": "/", "rights": ["read", "stat"]}],
        )
        member = atlas.proxy(grid.issuer.user("Member"), "/atlas/Role=NULL", environment=grid.environment())
        stranger = grid.issuer.proxy(grid.issuer.user("Stranger"))
        url = server.file_url(PATH)
        delegating = {"XrdSecGSIDELEGPROXY": "1", "XrdSecGSITRUSTDNS": "0"}
        for who in ("cold", "warm"):
            with pytest.raises(ClientFailed):
                fetch(client, ground, url, {**grid.environment(stranger), **delegating})
            with pytest.raises(ClientFailed):
                fetch(client, ground, url, {**grid.environment(member), "XrdSecGSIDELEGPROXY": "0"})
            got = fetch(client, ground, url, {**grid.environment(member), **delegating})
            assert_same(got, patterns[PATH].all(), who)
        assert server.settled_metrics().origin_bytes == patterns[PATH].size
    finally:
        origin.stop()
