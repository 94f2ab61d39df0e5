"""Stock clients authenticate with certificates, and have the rights of their grants."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness import xrootd
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.voms import Organization

PATH = "/sizes/many-blocks.bin"
STOCK = ["xrdcp", "xrdfs-cat", "pyxrootd"]
TO_ATLAS = [{"path": "/", "rights": ["read", "list"], "vo": "atlas", "methods": ["gsi"]}]
TO_PRODUCTION = [{"path": "/", "rights": ["read"], "vo": "atlas", "role": "production"}]
TO_THE_GRID = [{"path": "/", "rights": ["read", "list"], "subject": "/DC=test/DC=grid/*"}]


@pytest.fixture(scope="module")
def ann(grid: Grid) -> Credential:
    """A user with a certificate."""
    return grid.issuer.user("Ann")


def url(server: Forebay, path: str = PATH, scheme: str = "root") -> str:
    return f"{scheme}://127.0.0.1:{server.port}/{path}"


def refusal(ground: Ground, server: Forebay, environment: dict[str, str], client: str = "xrdcp") -> str:
    """The error of a refused client."""
    with pytest.raises(ClientFailed) as failed:
        fetch(client, ground, url(server), environment)
    return str(failed.value)


@pytest.mark.parametrize("scheme", ["root", "roots"])
@pytest.mark.parametrize("client", STOCK)
def test_proxy_with_the_right_attributes_reads_every_byte(
    client: str,
    scheme: str,
    guarded: Callable[..., Forebay],
    ground: Ground,
    grid: Grid,
    atlas: Organization,
    ann: Credential,
    patterns: dict[str, Pattern],
) -> None:
    server = guarded(TO_PRODUCTION, voms="require")
    proxy = atlas.proxy(ann, "/atlas/Role=production", "/atlas", environment=grid.environment())
    got = fetch(client, ground, url(server, scheme=scheme), grid.environment(proxy))
    assert_same(got, patterns[PATH].all(), client)


def test_attributes_decide_about_reads(
    guarded: Callable[..., Forebay], ground: Ground, grid: Grid, atlas: Organization, ann: Credential
) -> None:
    server = guarded(TO_PRODUCTION)
    member = grid.environment(atlas.proxy(ann, "/atlas", environment=grid.environment()))
    assert "[3010]" in refusal(ground, server, member)
    outsider = grid.environment(grid.issuer.proxy(ann))
    assert "[3010]" in refusal(ground, server, outsider)


def test_attributes_of_an_organization_that_is_not_known_count_for_nothing(
    guarded: Callable[..., Forebay], ground: Ground, grid: Grid, ann: Credential
) -> None:
    cms = Organization(ground, grid.issuer, "cms")
    proxy = grid.environment(cms.proxy(ann, "/cms", environment=grid.environment()))
    assert "[3010]" in refusal(ground, guarded([{"path": "/", "rights": ["read"], "vo": "cms"}]), proxy)
    strict = guarded(TO_ATLAS, voms="require")
    assert "Auth failed" in refusal(ground, strict, proxy) or "no attribute" in refusal(ground, strict, proxy)
    assert strict.metrics().total("forebay_client_errors_total", side="authorization") > 0


@pytest.mark.parametrize("client", STOCK)
def test_plain_proxies_and_limited_ones_read_where_a_name_is_enough(
    client: str,
    guarded: Callable[..., Forebay],
    ground: Ground,
    grid: Grid,
    ann: Credential,
    patterns: dict[str, Pattern],
) -> None:
    server = guarded(TO_THE_GRID)
    proxy = grid.issuer.proxy(ann)
    for credential in (proxy, grid.issuer.proxy(proxy), grid.issuer.proxy(ann, limited=True)):
        assert_same(fetch(client, ground, url(server), grid.environment(credential)), patterns[PATH].all(), client)


def bad_credentials(grid: Grid, ann: Credential) -> dict[str, Credential]:
    """Credentials that prove nothing."""
    eve = grid.stranger.user("Eve")
    shallow = grid.issuer.proxy(ann, path_length=0)
    bob = grid.issuer.user("Bob")
    grid.issuer.revoke(bob)
    return {
        "unknown authority": grid.stranger.proxy(eve),
        "too deep": grid.issuer.proxy(shallow),
        "expired": grid.issuer.proxy(ann, days="-1"),
        "revoked": grid.issuer.proxy(bob),
    }


def test_credentials_that_prove_nothing_are_refused_with_a_reason(
    guarded: Callable[..., Forebay], ground: Ground, grid: Grid, ann: Credential
) -> None:
    credentials = bad_credentials(grid, ann)
    name = f"{grid.issuer.hashes()}.r0"
    (grid.directory / name).write_text(grid.issuer.revocation_list())
    server = guarded(TO_THE_GRID)
    for what, credential in credentials.items():
        errors = server.metrics().total("forebay_client_errors_total", side="authorization")
        assert refusal(ground, server, grid.environment(credential)), what
        if what != "expired":  # The stock client does not even try with that one.
            after = server.metrics().total("forebay_client_errors_total", side="authorization")
            assert after > errors, what


def test_limited_proxies_are_refused_where_they_are_not_wanted(
    guarded: Callable[..., Forebay], ground: Ground, grid: Grid, ann: Credential
) -> None:
    server = guarded(TO_THE_GRID, limited_proxies=False)
    assert refusal(ground, server, grid.environment(grid.issuer.proxy(ann, limited=True)))
    assert fetch("xrdcp", ground, url(server), grid.environment(grid.issuer.proxy(ann)))


def test_hits_obey_the_rules_as_misses_do(
    serve: Callable[..., Forebay],
    guarded: Callable[..., Forebay],
    plain_origin: xrootd.Origin,
    ground: Ground,
    grid: Grid,
    host: Credential,
    atlas: Organization,
    ann: Credential,
    patterns: dict[str, Pattern],
) -> None:
    tls = {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)}
    cache = serve(
        {
            "export": [{"origins": [plain_origin.url]}],
            "tls": tls,
            "authentication": {"methods": ["gsi"], "voms_dir": str(atlas.vomsdir)},
            "grant": TO_ATLAS,
        }
    )
    member = grid.environment(atlas.proxy(ann, "/atlas", environment=grid.environment()))
    stranger = grid.environment(grid.issuer.proxy(ann))
    assert "[3010]" in refusal(ground, cache, stranger)
    assert cache.metrics().client_bytes()["missed"] == 0
    for _ in range(2):
        assert_same(fetch("xrdcp", ground, url(cache), member), patterns[PATH].all(), "member")
        cache.settled_metrics()
    assert cache.metrics().client_bytes()["hit"] > 0
    assert "[3010]" in refusal(ground, cache, stranger)
    missing = f"root://127.0.0.1:{cache.port}//no/such/file"
    with pytest.raises(ClientFailed, match=r"\[3010\]"):
        fetch("xrdcp", ground, missing, stranger)
