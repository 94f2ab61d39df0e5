"""Origins that lead the cache to servers that it must not ask, itself among them."""

from __future__ import annotations

import time

import pytest

from harness import faults, forebay
from harness.content import assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.scripted import ScriptedOrigin
from harness.wire import Error, Request

from .conftest import CONTENT, PATH

BOUND_SECONDS = 20.0
ELSEWHERE = "0.0.0.0"
"""A name of this machine that is not that of the origin."""


def test_redirect_out_of_the_domain_of_the_origin_is_refused(cache: Forebay, origin: ScriptedOrigin) -> None:
    with ScriptedOrigin({PATH: CONTENT}) as internal:
        for code in (Request.OPEN, Request.STAT, Request.DIRLIST, Request.QUERY):
            origin.on(code, faults.redirect(ELSEWHERE, internal.listener.port))
        with cache.client() as client:
            refused = [client.try_open(PATH), client.stat(PATH)]
            for answer in refused:
                assert answer.error == Error.NOT_AUTHORIZED, answer
                for part in (ELSEWHERE, "export.redirects"):
                    assert part.encode() in answer.body, answer
        assert not internal.asked(Request.LOGIN), "the internal server was asked"


def test_redirect_to_a_named_host_is_followed(ground: Ground, origin: ScriptedOrigin) -> None:
    export = {"path": "/", "origins": [origin.url], "redirects": [ELSEWHERE]}
    with (
        ScriptedOrigin({PATH: CONTENT}) as worker,
        forebay.configured(ground, {"export": [export]}) as cache,
        cache.client() as client,
    ):
        origin.on(Request.OPEN, faults.redirect(ELSEWHERE, worker.listener.port))
        assert_same(client.read(client.open(PATH), 0, 1000).ok(), CONTENT.read(0, 1000), "redirected")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "0.0.0.0"])
def test_forwarding_to_the_cache_itself_is_refused_at_once(host: str, ground: Ground, origin: ScriptedOrigin) -> None:
    with forebay.forwarding_cache(ground, "*:*") as cache, cache.client() as client:
        port = int(cache.url.rpartition(":")[2])
        nested = f"/root://{host}:{port}/" * 20 + f"/{origin.url}/{PATH}"
        started = time.monotonic()
        for answer in (client.try_open(nested), client.stat(nested)):
            assert answer.error == Error.NOT_AUTHORIZED, answer
            assert b"this cache itself" in answer.body, answer
        assert time.monotonic() - started < BOUND_SECONDS
        assert_same(client.read(client.open(f"/{origin.url}/{PATH}"), 0, 1000).ok(), CONTENT.read(0, 1000), "direct")


def test_redirect_to_the_cache_itself_is_refused(cache: Forebay, origin: ScriptedOrigin) -> None:
    origin.on(Request.OPEN, faults.redirect("127.0.0.1", int(cache.url.rpartition(":")[2])))
    with cache.client() as client:
        answer = client.try_open(PATH)
    assert answer.error == Error.NOT_AUTHORIZED, answer
    assert b"this cache itself" in answer.body, answer
