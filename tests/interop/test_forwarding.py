"""Forwarding: the client, or the stock proxy plug-in, names the origin; only allowed origins are asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.clients import ClientFailed, fetch, through_plugin
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.wire import Error

PATH = "/sizes/many-blocks.bin"


@pytest.fixture
def proxy(ground: Ground) -> Iterator[Forebay]:
    """A forwarding cache for any port of the loopback address."""
    with forebay.forwarding_cache(ground) as cache:
        yield cache


@pytest.mark.parametrize("client", ["xrdcp-to-stdout", "xrdfs-cat"])
def test_stock_proxy_plugin_reads_through_the_cache(
    client: str, proxy: Forebay, any_origin: xrootd.Origin | Forebay, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    environment = through_plugin(proxy.url)
    for path, pattern in patterns.items():
        assert_same(fetch(client, ground, f"{any_origin.url}/{path}", environment), pattern.all(), f"{path} cold")
    cold = proxy.settled_metrics()
    assert cold.origin_bytes == sum(pattern.size for pattern in patterns.values())
    for path, pattern in patterns.items():
        assert_same(fetch(client, ground, f"{any_origin.url}/{path}", environment), pattern.all(), f"{path} warm")
    warm = proxy.metrics()
    assert warm.origin_bytes == cold.origin_bytes
    assert warm.client_bytes()["hit"] == cold.client_bytes()["hit"] + cold.origin_bytes


@pytest.mark.parametrize("client", ["xrdcp", "pyxrootd", "forebay-get"])
def test_forwarding_url_reads_through_the_cache(
    client: str, proxy: Forebay, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    url = f"{proxy.url}//{plain_origin.url}/{PATH}"
    for temperature in ("cold", "warm"):
        assert_same(fetch(client, ground, url), patterns[PATH].all(), temperature)
    assert proxy.metrics().origin_bytes == patterns[PATH].size


@pytest.mark.parametrize(
    "form",
    [
        "/root://{0}/{1}",
        "/root:/{0}{1}",
        "//root:///{0}//{1}",
        "/xroot://{0}/{1}",
        "/root://someone@{0}/{1}",
    ],
)
def test_every_spelling_of_a_forwarding_path_means_the_same_file(
    form: str, proxy: Forebay, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    with proxy.client() as client:
        handle = client.open(form.format(plain_origin.address, PATH))
        assert_same(client.read(handle, 0, 1000).ok(), patterns[PATH].read(0, 1000), form)
        assert client.stat(form.format(plain_origin.address, PATH)).ok()


def test_same_path_at_two_origins_is_two_files(proxy: Forebay, ground: Ground) -> None:
    contents = [Pattern(100_000, 1), Pattern(100_000, 2)]
    origins = []
    try:
        for content in contents:
            directory = ground.directory("data")
            content.write(directory / "same" / "name.bin")
            origins.append(xrootd.plain(ground, directory))
        with proxy.client() as client:
            for _ in range(2):
                for origin, content in zip(origins, contents, strict=True):
                    handle = client.open(f"/{origin.url}//same/name.bin")
                    assert_same(client.read(handle, 0, 200_000).ok(), content.all(), origin.url)
    finally:
        for origin in origins:
            origin.stop()


@pytest.mark.parametrize("origin", ["root://localhost.example:1094", "root://127.0.0.2:1094", "root://[::1]:1094"])
def test_origin_outside_the_allow_list_is_not_authorized(proxy: Forebay, origin: str) -> None:
    with proxy.client() as client:
        assert client.try_open(f"/{origin}//some/file").error == Error.NOT_AUTHORIZED
        assert client.stat(f"/{origin}//some/file").error == Error.NOT_AUTHORIZED


def test_port_outside_the_allow_list_is_not_authorized(ground: Ground, plain_origin: xrootd.Origin) -> None:
    with forebay.forwarding_cache(ground, "127.0.0.1:1") as proxy, proxy.client() as client:
        assert client.try_open(f"/{plain_origin.url}/{PATH}").error == Error.NOT_AUTHORIZED


def test_denied_origin_fails_in_a_stock_client(proxy: Forebay, ground: Ground) -> None:
    with pytest.raises(ClientFailed):
        fetch("xrdcp-to-stdout", ground, "root://127.0.0.9:1094//some/file", through_plugin(proxy.url))


def test_forwarding_never_reaches_files_of_the_cache_host(proxy: Forebay, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("private")
    with proxy.client() as client:
        for path in (f"/file://localhost{secret}", f"/file:{secret}", str(secret)):
            assert client.try_open(path).error is not None
