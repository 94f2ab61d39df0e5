"""Entity tags and times of change of files, by those that their HTTP origin states."""

from __future__ import annotations

import pytest

from harness import forebay, http_origins
from harness.content import Pattern
from harness.forebay import Forebay
from harness.ground import Ground
from harness.http_client import ask

OLD, NEW = Pattern(300_000, 1).all(), Pattern(300_000, 2).all()
TIME = "Sun, 06 Nov 1994 08:49:37 GMT"
MD5 = "0123456789abcdef0123456789abcdef"


def tags(cache: Forebay, path: str) -> set[str | None]:
    """The entity tags of all kinds of answers with a file, cold and warm."""
    answers = [ask(cache, "HEAD", path), ask(cache, "GET", path, {"Range": "bytes=1-2"}), ask(cache, "GET", path)]
    cache.settled_metrics()
    answers += [ask(cache, "HEAD", path), ask(cache, "GET", path)]
    return {answer.fields.get("etag") for answer in answers}


@pytest.mark.parametrize(
    ("stated", "tag"),
    [
        ({"ETag": '"from-origin"'}, '"from-origin"'),
        ({"ETag": '"from-origin"', "Last-Modified": TIME}, '"from-origin"'),
        ({"ETag": f'"{MD5}"'}, f'"493e0-{MD5}"'),
        ({"ETag": 'W/"x"', "Last-Modified": TIME}, '"493e0-2ebc98a1-x"'),
        ({"Last-Modified": TIME}, '"493e0-2ebc98a1"'),
        ({"Digest": "adler32=0000abcd"}, '"493e0-adler32-0000abcd"'),
        ({"ETag": 'W/"x"'}, None),
        ({}, None),
    ],
)
def test_the_tag_is_the_strongest_that_the_origin_gives(
    ground: Ground, stated: dict[str, str], tag: str | None
) -> None:
    with http_origins.one_file(OLD, stated) as origin, forebay.cache(ground, origin.url) as cache:
        assert tags(cache, "/f") == {tag}
        answer = ask(cache, "GET", "/f")
        assert answer.body == OLD
        assert answer.fields.get("last-modified") == stated.get("Last-Modified")


@pytest.mark.parametrize("stated", [{}, {"ETag": 'W/"x"'}])
def test_contents_that_the_origin_does_not_distinguish_share_no_tag(ground: Ground, stated: dict[str, str]) -> None:
    export = {"path": "/", "validity": "each-open"}
    with http_origins.one_file(OLD, stated) as origin:
        with forebay.configured(ground, {"export": [{**export, "origins": [origin.url]}]}) as cache:
            assert ask(cache, "GET", "/f").body == OLD
            origin.content = NEW
            # The condition of a client that resumes a copy of the old content is not met.
            answer = ask(cache, "GET", "/f", {"Range": "bytes=5-", "If-Range": '"493e0-0"'})
            assert (answer.status, answer.body) == (200, NEW)


def test_a_tag_of_the_origin_survives_a_restart_and_a_change_shows(ground: Ground) -> None:
    export = {"path": "/", "validity": "each-open"}
    with http_origins.one_file(OLD, {"ETag": '"one"'}) as origin:
        configuration = {"export": [{**export, "origins": [origin.url]}]}
        store = ground.directory("store")
        with forebay.configured(ground, configuration, store=store) as cache:
            assert tags(cache, "/f") == {'"one"'}
        with forebay.configured(ground, configuration, store=store) as cache:
            assert tags(cache, "/f") == {'"one"'}
            origin.content, origin.fields = NEW, {"ETag": '"two"'}
            assert ask(cache, "HEAD", "/f").fields["etag"] == '"two"'
            answer = ask(cache, "GET", "/f", {"If-Match": '"one"'})
            assert answer.status == 412
            assert ask(cache, "GET", "/f", {"If-Match": '"two"'}).body == NEW
