"""Rules decide where the bytes of a file go, with real clients and a real origin."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from harness import forebay
from harness.clients import fetch
from harness.content import assert_same
from harness.forebay import Forebay
from harness.ground import Ground

from .conftest import CONTENT, PATH, PATIENCE, Site


@pytest.fixture
def cache(ground: Ground, site: Site, rules: list[dict[str, object]]) -> Iterator[Forebay]:
    """A cache under rules, whose clients may also name the origin."""
    configuration = {
        "export": [{"path": "/", "origins": [site.url]}],
        "forwarding": {"allow": ["127.0.0.1:*"]},
        "origin": PATIENCE,
        "rule": rules,
    }
    with forebay.configured(ground, configuration) as running:
        yield running


def decisions(cache: Forebay, action: str) -> float:
    """Opens that were decided so."""
    return cache.metrics().total("forebay_decisions_total", action=action)


@pytest.mark.parametrize("rules", [[{"path": "/data/**", "action": "bypass"}]])
def test_bypassed_file_is_read_and_not_kept(cache: Forebay, ground: Ground) -> None:
    for what in ("first", "second"):
        assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), CONTENT.all(), what)
    assert not (cache.data / "data").exists()
    assert cache.metrics().client_bytes()["bypassed"] == 2 * CONTENT.size
    assert decisions(cache, "bypass") >= 2


@pytest.mark.parametrize("rules", [[{"path": "**/*.bin", "action": "redirect"}]])
@pytest.mark.parametrize("client", ["xrdcp", "pyxrootd", "xrdfs-cat", "forebay-get"])
@pytest.mark.parametrize("is_forwarded", [False, True])
def test_redirected_client_reads_at_the_origin(
    *, is_forwarded: bool, client: str, cache: Forebay, site: Site, ground: Ground
) -> None:
    url = f"{cache.url}//{site.url}/{PATH}" if is_forwarded else cache.file_url(PATH)
    assert_same(fetch(client, ground, f"{url}?a=b"), CONTENT.all(), client)
    assert cache.metrics().origin_bytes == 0
    assert decisions(cache, "redirect") >= 1


@pytest.mark.parametrize(
    "rules",
    [
        [
            {"cgi": ["how=past"], "action": "bypass"},
            {"user": "nobody-*", "action": "bypass"},
            {"size_min": "1GiB", "action": "bypass"},
            {"path": "/data/**", "block_size": "4KiB"},
        ]
    ],
)
def test_first_rule_that_matches_decides(cache: Forebay, ground: Ground) -> None:
    assert_same(fetch("xrdcp", ground, f"{cache.file_url(PATH)}?how=past"), CONTENT.all(), "bypassed")
    assert not (cache.data / PATH[1:]).exists()
    assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), CONTENT.all(), "cached")
    cache.settled_metrics()
    assert (cache.data / PATH[1:]).exists()
    shown = forebay.run(ground, "inspect", "--json", str(cache.data / f"{PATH[1:]}.cinfo"))
    assert json.loads(shown.stdout)["buffer_size"] == 4096
