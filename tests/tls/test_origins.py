"""Origins over TLS: stock servers of every policy, and those that must not be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import forebay, xrootd
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Authority, Credential, Grid

PATH = "/sizes/many-blocks.bin"

Serve = Callable[[Mapping[str, Any]], Forebay]


@pytest.fixture
def stock(ground: Ground, data: Path, grid: Grid, host: Credential) -> Iterator[Callable[..., xrootd.Origin]]:
    """Starts stock servers of the known files with TLS; they are stopped when the test ends."""
    started: list[xrootd.Origin] = []

    def start(policy: str, credential: Credential = host) -> xrootd.Origin:
        started.append(xrootd.encrypted(ground, data, credential, grid.directory, policy))
        return started[-1]

    yield start
    for origin in started:
        origin.stop()


@pytest.fixture
def cache(serve: Serve, grid: Grid) -> Callable[..., Forebay]:
    """Starts caches of one origin that trust the grid."""

    def start(origin: str, **more: object) -> Forebay:
        return serve({"export": [{"origins": [origin]}], "tls": {"ca_dir": str(grid.directory)}, "origin": more})

    return start


@pytest.mark.parametrize("policy", ["login", "session", "login data", "all", "capable all"])
def test_every_byte_comes_from_a_stock_server_of_every_policy(
    policy: str,
    stock: Callable[..., xrootd.Origin],
    cache: Callable[..., Forebay],
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    origin = stock(policy)
    for scheme in ("root", "roots"):
        server = cache(f"{scheme}://{origin.address}")
        for path, pattern in patterns.items():
            assert_same(fetch("xrdcp", ground, server.file_url(path)), pattern.all(), f"{scheme} {path}")
        assert server.settled_metrics().origin_bytes == sum(pattern.size for pattern in patterns.values())


def test_commands_reach_a_stock_server_over_tls(
    stock: Callable[..., xrootd.Origin], ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    origin = stock("all")
    for scheme in ("root", "roots"):
        got = fetch("forebay-get", ground, f"{scheme}://{origin.address}/{PATH}", grid.environment())
        assert_same(got, patterns[PATH].all(), scheme)


def test_origin_shows_its_certificate_and_we_show_ours(
    stock: Callable[..., xrootd.Origin],
    cache: Callable[..., Forebay],
    ground: Ground,
    grid: Grid,
    patterns: dict[str, Pattern],
) -> None:
    robot = grid.issuer.user("robot").for_service(ground, "robot")
    server = cache(f"roots://{stock('all').address}", certificate=str(robot.certificate), key=str(robot.key))
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), patterns[PATH].all(), "with a certificate")


def test_forebay_reads_from_forebay_over_tls_with_one_connection(
    export: Callable[..., Forebay], cache: Callable[..., Forebay], ground: Ground, patterns: dict[str, Pattern]
) -> None:
    origin = export(policy="data")
    server = cache(f"roots://{origin.address}")
    assert_same(fetch("xrdcp", ground, server.file_url(PATH)), patterns[PATH].all(), "one connection")
    assert origin.metrics().total("forebay_tls_handshakes_total", result="done") == 1


def test_origin_without_a_trusted_certificate_is_refused(
    stock: Callable[..., xrootd.Origin], cache: Callable[..., Forebay], ground: Ground, grid: Grid
) -> None:
    impostor = grid.stranger.host("localhost", "IP:127.0.0.1").for_service(ground)
    origin = stock("all", impostor)
    server = cache(f"roots://{origin.address}", attempts=1)
    with pytest.raises(ClientFailed):
        fetch("xrdcp", ground, server.file_url(PATH))
    with pytest.raises(ClientFailed, match=r"CN=Stranger CA|CN=localhost.*its CA is not in"):
        fetch("forebay-get", ground, f"roots://{origin.address}/{PATH}", grid.environment())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("other host", "it is for other.example, not for 127.0.0.1"),
        ("revoked", "its CA has revoked it"),
        ("expired", "it has expired"),
    ],
)
def test_origin_with_a_bad_certificate_is_refused_in_clear_words(
    kind: str, words: str, ground: Ground, data: Path, serve: Serve
) -> None:
    grid = Grid(ground)
    credential = grid.host("DNS:other.example") if kind == "other host" else grid.host()
    if kind == "expired":
        credential = grid.issuer.host("localhost", "IP:127.0.0.1", days="-1").for_service(ground)
    if kind == "revoked":
        grid.issuer.revoke(credential)
        (grid.directory / f"{grid.issuer.hashes()}.r0").write_text(grid.issuer.revocation_list())
    tls = {"certificate": str(credential.certificate), "key": str(credential.key), "ca_dir": str(grid.directory)}
    origin = serve({"export": [{"path": "/", "directory": str(data)}], "tls": tls})
    with pytest.raises(ClientFailed, match=words):
        fetch("forebay-get", ground, f"roots://{origin.address}/{PATH}", grid.environment())


def test_origin_without_tls_is_never_read_in_clear_when_roots_was_written(
    plain_origin: xrootd.Origin, cache: Callable[..., Forebay], ground: Ground, grid: Grid
) -> None:
    server = cache(f"roots://{plain_origin.address}", attempts=1)
    with pytest.raises(ClientFailed):
        fetch("xrdcp", ground, server.file_url(PATH))
    assert server.metrics().origin_bytes == 0
    with pytest.raises(ClientFailed, match="offers no TLS"):
        fetch("forebay-get", ground, f"roots://{plain_origin.address}/{PATH}", grid.environment())


def test_wrong_files_are_refused_where_they_are_written(ground: Ground, data: Path, grid: Grid) -> None:
    host = grid.host()
    other = Authority(ground.directory("other-ca"), "/DC=test/CN=Other").host("other").for_service(ground)
    readable = grid.host()
    readable.key.chmod(0o644)
    for tls, words in (
        ({"certificate": "/nonexistent"}, ":15: /nonexistent cannot be read"),
        ({"certificate": str(host.certificate), "key": str(other.key)}, "does not contain the key of the certificate"),
        ({"certificate": str(host.certificate), "key": str(readable.key)}, "accessible to all users"),
        ({"ca_dir": "/nonexistent"}, "/nonexistent is not a CA directory"),
    ):
        files = [{"path": "/", "directory": str(data)}]
        path = forebay.write_configuration(ground, {"export": files, "tls": {"ca_dir": str(grid.directory), **tls}})
        result = forebay.run(ground, "check-config", str(path))
        assert result.returncode != 0
        assert words in result.stderr, tls
