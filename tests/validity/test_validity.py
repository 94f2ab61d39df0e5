"""Copies are compared with a real origin as their export says; a check that fails costs nothing but freshness."""

from __future__ import annotations

import signal

import pytest

from harness.clients import COPIERS, ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.waiting import until
from harness.wire import Error

from .conftest import CHANGED, CONTENT, MTIME, PATH, CacheBefore, Site


def checks(cache: Forebay, result: str) -> float:
    """Copies whose check ended so."""
    return cache.metrics().total("forebay_validity_checks_total", result=result)


def read_all(cache: Forebay, expected: Pattern, what: str) -> None:
    """Reads the whole file with a raw client."""
    with cache.client() as client:
        assert_same(client.read(client.open(PATH), 0, expected.size).ok(), expected.all(), what)


@pytest.mark.parametrize("client", COPIERS)
def test_changed_file_of_the_same_size_is_fetched_again(
    client: str, site: Site, cache_before: CacheBefore, ground: Ground
) -> None:
    cache = cache_before(site, validity="each-open")
    url = cache.file_url(PATH)
    for what in ("cold", "warm"):
        assert_same(fetch(client, ground, url), CONTENT.all(), what)
    assert cache.settled_metrics().origin_bytes == CONTENT.size
    site.put(CHANGED, mtime=MTIME + 10)
    for what in ("changed", "changed and warm"):
        assert_same(fetch(client, ground, url), CHANGED.all(), what)
    assert cache.settled_metrics().origin_bytes == 2 * CONTENT.size
    assert cache.metrics().total("forebay_files_dropped_total") == 1


def test_immutable_file_is_never_compared(site: Site, cache_before: CacheBefore) -> None:
    cache = cache_before(site)
    read_all(cache, CONTENT, "cold")
    site.put(CHANGED, mtime=MTIME + 10)
    read_all(cache, CONTENT, "changed at the origin")
    site.stop()
    read_all(cache, CONTENT, "without the origin")
    assert cache.metrics().total("forebay_validity_checks_total") == 0


def test_copy_is_compared_when_its_last_check_is_old_enough(site: Site, cache_before: CacheBefore) -> None:
    cache = cache_before(site, validity="2s")
    read_all(cache, CONTENT, "cold")
    site.put(CHANGED, mtime=MTIME + 10)

    def changed() -> bool:
        with cache.client() as client:
            body = client.read(client.open(PATH), 0, CONTENT.size).ok()
        assert body in (CONTENT.all(), CHANGED.all()), "a mixture"
        return body == CHANGED.all()

    assert until(changed, "the change is seen")


@pytest.mark.parametrize("stale_max", ["1h", "unlimited"])
def test_stopped_origin_leaves_copies_in_service(
    stale_max: str, site: Site, cache_before: CacheBefore, ground: Ground
) -> None:
    cache = cache_before(site, validity="each-open", stale_max=stale_max)
    read_all(cache, CONTENT, "cold")
    site.stop()
    assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), CONTENT.all(), "without the origin")
    assert checks(cache, "failed_served_stale") >= 1
    assert checks(cache, "failed_refused") == 0


def test_copy_that_is_too_stale_is_refused_and_kept(site: Site, cache_before: CacheBefore, ground: Ground) -> None:
    cache = cache_before(site, validity="each-open", stale_max="0s")
    read_all(cache, CONTENT, "cold")
    fetched = cache.settled_metrics().origin_bytes
    site.stop()
    with cache.client() as client:
        answer = client.try_open(PATH)
        assert answer.error == Error.NO_SERVER
        assert site.address in answer.error_text
        assert client.stat(PATH).error == Error.NO_SERVER
    with pytest.raises(ClientFailed):
        fetch("xrdcp", ground, cache.file_url(PATH))
    assert (cache.data / PATH[1:]).stat().st_size == CONTENT.size
    site.start()
    assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), CONTENT.all(), "the origin is back")
    assert cache.settled_metrics().origin_bytes == fetched, "nothing was fetched again"


def test_deleted_file_is_not_served_any_more(site: Site, cache_before: CacheBefore, ground: Ground) -> None:
    cache = cache_before(site, validity="each-open")
    read_all(cache, CONTENT, "cold")
    cache.settled_metrics()
    with cache.client() as reader:
        handle = reader.open(PATH)
        site.file.unlink()
        with cache.client() as client:
            assert client.try_open(PATH).error == Error.NOT_FOUND
            assert client.stat(PATH).error == Error.NOT_FOUND
        with pytest.raises(ClientFailed):
            fetch("xrdcp", ground, cache.file_url(PATH))
        until(lambda: not (cache.data / PATH[1:]).exists(), "the copy leaves the disk")
        assert_same(reader.read(handle, 0, CONTENT.size).ok(), CONTENT.all(), "opened before the change")
    assert checks(cache, "gone") == 1


def test_readers_of_a_file_that_changes_meet_one_content_each(site: Site, cache_before: CacheBefore) -> None:
    cache = cache_before(site, validity="each-open")
    first = [cache.client() for _ in range(8)]
    handles = [client.open(PATH) for client in first]
    for client, handle in zip(first, handles, strict=True):
        assert_same(client.read(handle, 0, 3 * BLOCK).ok(), CONTENT.read(0, 3 * BLOCK), "before")
    cache.settled_metrics()
    site.put(CHANGED, mtime=MTIME + 10)
    with cache.client() as client:
        assert_same(client.read(client.open(PATH), 0, CONTENT.size).ok(), CHANGED.all(), "opened after the change")
    for client, handle in zip(first, handles, strict=True):
        answer = client.read(handle, 0, CONTENT.size)
        assert answer.error == Error.IO_ERROR or answer.body == CONTENT.all()
        assert_same(client.read(handle, 0, 3 * BLOCK).ok(), CONTENT.read(0, 3 * BLOCK), "cached blocks")
        client.close()


def test_missing_name_is_remembered_until_the_configuration_is_read_again(
    site: Site, cache_before: CacheBefore
) -> None:
    cache = cache_before(site)
    missing = "/data/missing.bin"
    with cache.client() as client:
        for _ in range(10):
            assert client.try_open(missing).error == Error.NOT_FOUND
            assert client.stat(missing).error == Error.NOT_FOUND
        assert cache.metrics().total("forebay_negative_hits_total") == 19
        CONTENT.write(site.data / missing[1:])
        cache.process.signal(signal.SIGHUP)
        until(lambda: client.stat(missing).error is None, "it is forgotten")
        assert_same(client.read(client.open(missing), 0, CONTENT.size).ok(), CONTENT.all(), "the new file")
