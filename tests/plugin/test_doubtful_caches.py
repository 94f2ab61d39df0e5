"""Clients with our plug-in, and caches that must not get tokens, name other files, or answer nothing."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import xrootd
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.direct import until_complete
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.pausing import PausingClient
from harness.plugin import through_caches
from harness.process import give_to_service
from harness.scripted import Exchange, ScriptedOrigin
from harness.wire import Request, Status, response

PATH = "/sizes/many-blocks.bin"
SECRET = "Bearer%20abc.def.ghi"
PROBE = ".forebay-probe"


@pytest.fixture
def false_cache(plain_origin: xrootd.Origin, patterns: dict[str, Pattern]) -> Iterator[ScriptedOrigin]:
    """A server that presents itself as a cache with the file."""
    content = patterns[PATH]
    files = {f"/{scheme}://127.0.0.1:{plain_origin.port}/{PATH}": content for scheme in ("root", "roots")}
    with ScriptedOrigin(files) as server:
        yield server


@pytest.mark.parametrize("parameters", [f"authz={SECRET}", f"a=1&access_token={SECRET}", f"xrd.gsiusrpxy={SECRET}"])
@pytest.mark.parametrize("how", ["xrdcp", "stat", "ls"])
def test_tokens_of_encrypted_urls_are_not_sent_to_a_cache_in_clear(
    how: str, parameters: str, false_cache: ScriptedOrigin, plain_origin: xrootd.Origin
) -> None:
    environment = through_caches([false_cache.url])
    url = f"roots://127.0.0.1:{plain_origin.port}"
    command: list[str | Path] = [program("xrdfs"), url, how, f"{PATH}?{parameters}"]
    if how == "xrdcp":
        command = [program("xrdcp"), "-f", f"{url}/{PATH}?{parameters}", "-"]
    # The origin has no encryption, so the client fails: what the cache has seen is of interest.
    run_client(command, environment)
    names = [asked.target for asked in false_cache.asked(Request.OPEN, Request.STAT, Request.DIRLIST, Request.LOCATE)]
    assert not [name for name in names if "abc.def" in name]


def test_encrypted_urls_without_parameters_and_others_with_them_go_to_the_cache(
    false_cache: ScriptedOrigin, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    environment = through_caches([false_cache.url])
    for scheme, parameters in (("roots", ""), ("root", f"?authz={SECRET}")):
        url = f"{scheme}://127.0.0.1:{plain_origin.port}/{PATH}{parameters}"
        assert_same(fetch("xrdcp", ground, url, environment), patterns[PATH].all(), url)
    assert any("abc.def" in asked.target for asked in false_cache.asked(Request.OPEN))


@pytest.fixture
def foreign_file(
    ground: Ground,
    serve: Callable[[Mapping[str, Any]], Forebay],
    plain_origin: xrootd.Origin,
    patterns: dict[str, Pattern],
) -> tuple[Forebay, str]:
    """A cache that redirects to a file of its name, at which a link leads to another file of this machine."""
    store = give_to_service(ground.directory("shared-store"))
    store.chmod(0o755)
    elsewhere, outside = ground.directory("elsewhere"), ground.directory("outside")
    (elsewhere / PROBE).symlink_to(store / PROBE)
    secret = Pattern(patterns[PATH].size, 4711).write(outside / "secret")
    link = Path(f"{elsewhere}/root:/127.0.0.1:{plain_origin.port}{PATH}")
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    cache = serve(
        {
            "forwarding": {"allow": ["127.0.0.1:*"], "direct": "complete", "fill": "to-end"},
            "store": {"path": str(store)},
            "direct": {"file_mode": "0644", "paths": [f"{store}={elsewhere}"]},
        }
    )
    return cache, f"{plain_origin.url}/{PATH}"


@pytest.mark.parametrize("client", ["xrdcp", "pyxrootd"])
def test_files_outside_of_the_directory_of_the_cache_are_not_opened(
    client: str, foreign_file: tuple[Forebay, str], ground: Ground, patterns: dict[str, Pattern]
) -> None:
    cache, url = foreign_file
    fetch("pyxrootd", ground, f"{cache.url}//{url}?forebay.probe=none")
    until_complete(cache, f"/{url}")
    got = fetch(client, ground, url, through_caches([cache.url]))
    assert cache.metrics().total("forebay_direct_opens_total") > 0, "it was redirected to the file"
    assert_same(got, patterns[PATH].all(), client)


def test_reads_that_are_redirected_out_of_the_directory_of_the_cache_are_read_elsewhere(
    foreign_file: tuple[Forebay, str], patterns: dict[str, Pattern]
) -> None:
    cache, url = foreign_file
    with PausingClient(sys.executable, "pyxrootd_halves.py", url, env=through_caches([cache.url])) as client:
        client.until_half()
        until_complete(cache, f"/{url}")
        reported = json.loads(client.finish())
    assert cache.metrics().total("forebay_direct_switches_total") > 0, "it was redirected during its reads"
    assert reported["sha256"] == hashlib.sha256(patterns[PATH].all()).hexdigest()
    assert not reported["url"].startswith("file:")


def nothing(exchange: Exchange) -> None:
    """A good answer with nothing in it."""
    if exchange.asked.code == Request.PGREAD:
        exchange.send(response(exchange.asked.stream_id, Status.OK, b""))
    else:
        exchange.reply()


@pytest.mark.parametrize("client", ["xrdcp", "xrdfs-cat", "pyxrootd"])
@pytest.mark.parametrize(
    "code", [Request.OPEN, Request.READ, Request.PGREAD, Request.READV, Request.STAT, Request.QUERY]
)
def test_empty_answers_of_a_cache_are_made_up_for_by_the_origin(
    client: str,
    code: Request,
    false_cache: ScriptedOrigin,
    plain_origin: xrootd.Origin,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    false_cache.on(code, nothing)
    environment = through_caches([false_cache.url])
    assert_same(fetch(client, ground, f"{plain_origin.url}/{PATH}", environment), patterns[PATH].all(), client)


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (["stat", PATH], Request.STAT),
        (["locate", PATH], Request.LOCATE),
        (["query", "checksum", f"{PATH}?cks.type=adler32"], Request.QUERY),
        (["query", "checksum", f"{PATH}?cks.type=adler32"], None),
    ],
)
def test_empty_answers_about_a_path_are_those_of_the_origin(
    question: list[str], code: Request | None, false_cache: ScriptedOrigin, plain_origin: xrootd.Origin
) -> None:
    if code is not None:
        false_cache.on(code, nothing)
    else:
        false_cache.on(Request.QUERY, lambda exchange: exchange.reply(b"\0"))
    command: list[str | Path] = [program("xrdfs"), plain_origin.url, *question]
    through = run_client(command, through_caches([false_cache.url]))
    direct = run_client(command)
    assert (through.returncode, through.stdout) == (direct.returncode, direct.stdout)
    assert false_cache.asked(code or Request.QUERY), "it was asked"
