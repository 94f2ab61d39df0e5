"""Files of a federation of Pelican, read through a cache by clients of all protocols, and by commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import http_origins
from harness.clients import DRIVERS, ClientFailed, fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.http_client import ask
from harness.http_origins import HttpOrigin, one_file
from harness.pelican import DOCUMENT, OF_ORIGINS, Federation
from harness.pki import Credential, Grid
from harness.tokens import TokenIssuer
from harness.waiting import until

Serve = Callable[[Mapping[str, Any]], Forebay]

PATH = "/sizes/many-blocks.bin"
SERVERS: dict[str, Callable[[Ground, Path], HttpOrigin]] = {
    "nginx": lambda ground, data: http_origins.nginx(ground, data, webdav=True),
    "xrootd": http_origins.xrootd,
}


@pytest.fixture
def federation(host: Credential) -> Iterator[Federation]:
    """A federation without servers."""
    started = Federation(host, "/sizes")
    yield started
    started.stop()


@pytest.fixture(params=list(SERVERS))
def http_origin(request: pytest.FixtureRequest, ground: Ground, data: Path) -> Iterator[HttpOrigin]:
    """An origin of the known files."""
    origin = SERVERS[request.param](ground, data)
    yield origin
    origin.stop()


@pytest.fixture
def nginx(ground: Ground, data: Path) -> Iterator[HttpOrigin]:
    """One origin of the known files."""
    origin = SERVERS["nginx"](ground, data)
    yield origin
    origin.stop()


@pytest.fixture
def cache(serve: Serve, grid: Grid, host: Credential, federation: Federation) -> Callable[..., Forebay]:
    """Starts caches of the federation, over TLS too."""

    def start(**tables: object) -> Forebay:
        files = {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)}
        tables = tables or {"export": [{"path": "/", "origins": [federation.url]}]}
        return serve({"tls": files, **tables})

    return start


@pytest.fixture(scope="session")
def authorities(ground: Ground, grid: Grid) -> Path:
    """One file with the certificates of the authorities."""
    file = ground.directory("authorities") / "authorities.pem"
    trusted = (grid.root.certificate, grid.issuer.certificate)
    file.write_text("".join(part.read_text() for part in trusted))
    return file


def test_pelicanfs_lists_and_reads_through_the_cache(
    cache: Callable[..., Forebay],
    federation: Federation,
    http_origin: HttpOrigin,
    authorities: Path,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    federation.origins = [http_origin.url]
    server = cache()
    federation.caches = [f"https://{server.address}"]
    fetched = []
    for temperature in ("cold", "warm"):
        target = ground.directory("pelicanfs")
        argv: list[str | Path] = [sys.executable, DRIVERS / "pelicanfs_read.py", federation.url, "/sizes", target]
        done = run_client(argv, {"SSL_CERT_FILE": str(authorities)})
        assert done.returncode == 0, done.stderr.decode()
        for path, pattern in patterns.items():
            assert_same((target / Path(path).name).read_bytes(), pattern.all(), f"{path} {temperature}")
        fetched.append(server.settled_metrics().origin_bytes)
    assert fetched == [sum(pattern.size for pattern in patterns.values())] * 2
    assert federation.count(OF_ORIGINS) <= 2, "one answer is for all paths of the namespace"


def test_clients_of_root_and_http_name_the_federation(
    cache: Callable[..., Forebay],
    federation: Federation,
    nginx: HttpOrigin,
    ground: Ground,
    grid: Grid,
    patterns: dict[str, Pattern],
) -> None:
    federation.origins = [nginx.url]
    content = patterns[PATH].all()
    server = cache(forwarding={"allow": ["pelican://127.0.0.1:*"]})
    url = f"{server.url}//{federation.url}{PATH}"
    for temperature in ("cold", "warm"):
        assert_same(fetch("xrdcp", ground, url, grid.environment()), content, temperature)
    assert_same(ask(server, "GET", f"/{federation.url}{PATH}").body, content, "http")
    stored = server.data / "pelican:" / federation.authority / PATH[1:]
    until(stored.is_file, "the file is stored under the name of the federation")
    assert ask(server, "GET", f"/pelican://127.0.0.2:1{PATH}").status == 403
    assert ask(server, "GET", f"/osdf://{PATH}").status == 403, "it is another federation"
    assert ask(server, "GET", f"/{federation.url}/elsewhere/f").status == 404
    assert federation.count(DOCUMENT) == 1


def test_servers_that_fail_or_cannot_be_used_are_passed_over(
    cache: Callable[..., Forebay],
    federation: Federation,
    nginx: HttpOrigin,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    dead = f"http://127.0.0.1:{ground.free_port()}"
    federation.origins = ["ftp://127.0.0.1", "https://me@127.0.0.1", dead, nginx.url]
    federation.collections = "gopher://127.0.0.1"
    server = cache()
    assert_same(ask(server, "GET", PATH).body, patterns[PATH].all(), "the last one has it")
    federation.origins = federation.origins[:2]
    refused = ask(cache(), "GET", PATH)
    assert refused.status == 500
    assert b"it names no server that can be used" in refused.body


def test_a_server_that_goes_away_is_replaced_by_the_next_answer_of_the_director(
    cache: Callable[..., Forebay],
    federation: Federation,
    ground: Ground,
    data: Path,
    patterns: dict[str, Pattern],
) -> None:
    first, second = (http_origins.nginx(ground, data, webdav=True) for _ in range(2))
    try:
        federation.origins = [first.url]
        server = cache()
        assert ask(server, "GET", "/sizes/block.bin").status == 200
        first.stop()
        federation.origins = [second.url]
        assert_same(ask(server, "GET", PATH).body, patterns[PATH].all(), "after the change")
    finally:
        first.stop()
        second.stop()


@pytest.mark.parametrize(
    ("required", "is_shown"),
    [("", False), ("https://issuer.test", True), ("https://other.test", False)],
    ids=["open", "of-the-issuer", "of-another-issuer"],
)
def test_tokens_reach_the_servers_of_namespaces_that_require_them(
    required: str,
    is_shown: bool,
    cache: Callable[..., Forebay],
    federation: Federation,
    host: Credential,
    ground: Ground,
) -> None:
    content = Pattern(100_000, 7).all()
    token = TokenIssuer(ground).token()
    with one_file(content, {"ETag": '"one"'}, host) as origin:
        federation.origins = [origin.url]
        federation.issuer = required
        server = cache()
        answer = ask(server, "GET", f"{PATH}?authz=Bearer%20{token}")
        assert_same(answer.body, content, "with a token")
        server.settled_metrics()
        shown = {token for token in origin.authorizations if token}
        assert shown == ({f"Bearer {token}"} if is_shown else set())
    assert {token for _, token in federation.asked} == {None}, "not shown to the director"


def test_a_refusal_names_the_issuer_of_the_tokens_that_are_required(
    federation: Federation, host: Credential, ground: Ground, grid: Grid
) -> None:
    with one_file(b"x", {}, host) as origin:
        origin.status = 401
        federation.caches, federation.issuer = [origin.url], "https://issuer.test"
        with pytest.raises(ClientFailed, match=r"requires a token of https://issuer\.test"):
            fetch("forebay-get", ground, f"{federation.url}{PATH}", grid.environment())


def test_commands_read_from_the_caches_of_the_federation(
    cache: Callable[..., Forebay],
    federation: Federation,
    nginx: HttpOrigin,
    ground: Ground,
    grid: Grid,
    patterns: dict[str, Pattern],
) -> None:
    federation.origins = [nginx.url]
    server = cache()
    federation.caches = [f"https://{server.address}"]
    environment = grid.environment()
    url = f"{federation.url}{PATH}"
    assert_same(fetch("forebay-get", ground, url, environment), patterns[PATH].all(), "copied")
    assert server.settled_metrics().origin_bytes == patterns[PATH].size, "through the cache"
    listed = run_client([ground.forebay, "ls", f"{federation.url}/sizes"], environment)
    assert {line.rsplit("/", 1)[-1] for line in listed.stdout.decode().split()} == {
        Path(path).name for path in patterns
    }, listed.stderr
    stat = run_client([ground.forebay, "stat", url], environment)
    assert f"size      {patterns[PATH].size} (" in stat.stdout.decode(), stat.stderr
    missing = run_client([ground.forebay, "stat", f"{federation.url}/sizes/none"], environment)
    assert missing.returncode != 0
    assert b"404" in missing.stderr
