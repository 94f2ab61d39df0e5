"""Every client against every origin through a cache: byte for byte, first cold and then warm without the origin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import xrootd
from harness.clients import COPIERS, ClientFailed, fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program


@pytest.mark.parametrize("client", COPIERS)
def test_client_reads_every_size_cold_and_warm(
    client: str,
    any_origin: xrootd.Origin | Forebay,
    cache_of: Callable[..., Forebay],
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    cache = cache_of(any_origin.url)
    for path, pattern in patterns.items():
        assert_same(fetch(client, ground, cache.file_url(path)), pattern.all(), f"{path} cold")
    cold = cache.settled_metrics()
    assert cold.origin_bytes == sum(pattern.size for pattern in patterns.values())
    for path, pattern in patterns.items():
        assert_same(fetch(client, ground, cache.file_url(path)), pattern.all(), f"{path} warm")
    warm = cache.metrics()
    assert warm.origin_bytes == cold.origin_bytes
    assert warm.client_bytes()["hit"] - cold.client_bytes()["hit"] >= cold.origin_bytes
    for outcome in ("missed", "coalesced", "bypassed"):
        assert warm.client_bytes()[outcome] == cold.client_bytes()[outcome]


def test_xrdcp_verifies_the_checksum_that_the_origin_knows(
    plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay], ground: Ground, patterns: dict[str, Pattern]
) -> None:
    path = "/sizes/many-blocks.bin"
    target = ground.directory("download") / "file"
    for algorithm in ("adler32", "crc32c"):
        command: list[str | Path] = [program("xrdcp"), "--force", "--nopbar", "--cksum", f"{algorithm}:source"]
        result = run_client([*command, cache_of(plain_origin.url).file_url(path), target])
        assert result.returncode == 0, result.stderr
        assert_same(target.read_bytes(), patterns[path].all(), path)


def test_xrdcp_with_parallel_streams(
    plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay], ground: Ground, patterns: dict[str, Pattern]
) -> None:
    path = "/sizes/many-blocks.bin"
    cache = cache_of(plain_origin.url)
    for temperature in ("cold", "warm"):
        got = fetch(
            "xrdcp", ground, cache.file_url(path), {"XRD_SUBSTREAMSPERCHANNEL": "4", "XRD_CPCHUNKSIZE": "262144"}
        )
        assert_same(got, patterns[path].all(), temperature)


def test_missing_file_is_an_error_for_every_client(
    plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay], ground: Ground
) -> None:
    cache = cache_of(plain_origin.url)
    for client in COPIERS:
        with pytest.raises(ClientFailed):
            fetch(client, ground, cache.file_url("/nowhere/nothing.bin"))
