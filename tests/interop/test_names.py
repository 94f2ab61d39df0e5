"""Names that break careless code: blanks, percent signs, UTF-8, the longest components, names of the cache's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness import forebay, xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.waiting import until

NAMES = {
    "blanks": " leading and  double blanks .bin",
    "percent": "100%25 of %2F and %.bin",
    "utf8": "Größe-数据-café-🌊.bin",
    "punctuation": "a+b=c,d;e~f!g'h(i)#@:j.bin",
    "hidden": ".hidden",
    "longest": "x" * 255,
    "longest-utf8": "é" * 127 + "x",
    "near-longest": "y" * 249,
    "like-cinfo": "data.bin.cinfo",
    "deep": "/".join(["deep"] * 60) + "/file.bin",
}


@pytest.fixture(scope="module")
def contents() -> dict[str, Pattern]:
    """A file for each name."""
    return {name: Pattern(150_000 + index, 100 + index) for index, name in enumerate(NAMES.values())}


@pytest.fixture(scope="module")
def origin(ground: Ground, contents: dict[str, Pattern]) -> xrootd.Origin:
    """An xrootd that serves them."""
    directory = ground.directory("names")
    for name, content in contents.items():
        content.write(directory / name)
    return xrootd.plain(ground, directory)


@pytest.mark.parametrize("client", ["xrdcp", "pyxrootd", "forebay-get"])
def test_client_reads_awkward_names(
    client: str,
    origin: xrootd.Origin,
    cache_of: Callable[..., Forebay],
    ground: Ground,
    contents: dict[str, Pattern],
) -> None:
    cache = cache_of(origin.url)
    for name, content in contents.items():
        for temperature in ("cold", "warm"):
            assert_same(fetch(client, ground, cache.file_url(f"/{name}")), content.all(), f"{name} {temperature}")


@pytest.mark.parametrize("kind", ["blanks", "percent", "utf8", "punctuation", "hidden", "near-longest"])
def test_awkward_names_are_kept(
    kind: str, origin: xrootd.Origin, cache_of: Callable[..., Forebay], contents: dict[str, Pattern]
) -> None:
    cache, name = cache_of(origin.url), NAMES[kind]
    with cache.client() as client:
        handle = client.open(f"/{name}")

        def is_hit() -> bool:
            before = cache.metrics().client_bytes()["hit"]
            assert_same(client.read(handle, 0, 1 << 20).ok(), contents[name].all(), name)
            return cache.metrics().client_bytes()["hit"] == before + contents[name].size

        until(is_hit, f"{name} is served from the cache")
    assert (cache.data / name).is_file()


@pytest.mark.parametrize("kind", ["longest", "longest-utf8", "like-cinfo"])
def test_names_that_cannot_be_kept_are_served_and_accounted(
    kind: str, origin: xrootd.Origin, cache_of: Callable[..., Forebay], contents: dict[str, Pattern]
) -> None:
    cache, name = cache_of(origin.url), NAMES[kind]
    with cache.client() as client:
        for _ in range(2):
            assert_same(client.read(client.open(f"/{name}"), 0, 1 << 20).ok(), contents[name].all(), name)
    assert sum(cache.metrics().client_bytes().values()) == 2 * contents[name].size


def test_listing_shows_awkward_names(
    ground: Ground, origin: xrootd.Origin, cache_of: Callable[..., Forebay], contents: dict[str, Pattern]
) -> None:
    # xrootd 5.5 cuts names of 255 bytes when it lists: the listing comes from our own export.
    with forebay.export(ground, origin.data) as export, cache_of(export.url).client() as client:
        listed = set(client.dirlist("/").ok().rstrip(b"\0").decode().split("\n"))
    assert listed == {name.split("/")[0] for name in contents}
