"""Clients with our plug-in read URLs of origins through caches, unchanged."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import wire, xrootd
from harness.clients import DRIVERS, IMPATIENT, fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program, root_python
from harness.plugin import through_caches
from harness.root_files import Sums
from harness.scripted import ScriptedOrigin

PATH = "/sizes/many-blocks.bin"
CLIENTS = ["xrdcp", "xrdcp-to-stdout", "xrdfs-cat", "pyxrootd"]


@pytest.mark.parametrize("client", CLIENTS)
def test_files_are_read_through_the_cache(
    client: str, cache: Forebay, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    environment = through_caches([cache.url])
    for path, pattern in patterns.items():
        assert_same(fetch(client, ground, f"{plain_origin.url}/{path}", environment), pattern.all(), path)
    assert cache.settled_metrics().origin_bytes == sum(pattern.size for pattern in patterns.values())


@pytest.mark.parametrize("reader", ["uproot", "pyroot"])
def test_trees_are_read_through_the_cache(
    reader: str, cache: Forebay, plain_origin: xrootd.Origin, tree_path: str, tree_sums: Sums
) -> None:
    python: str | Path = root_python() if reader == "pyroot" else sys.executable
    url = f"{plain_origin.url}/{tree_path}"
    result = run_client([python, DRIVERS / f"{reader}_sum.py", url], through_caches([cache.url]))
    assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
    assert Sums.from_json(result.stdout.decode().strip().splitlines()[-1]).agrees_with(tree_sums)
    assert cache.settled_metrics().origin_bytes > 0


@pytest.mark.parametrize(
    "question",
    [
        ["ls", "/"],
        ["ls", "-R", "/sizes"],
        ["ls", "-u", "/sizes"],
        ["stat", "-q", "IsReadable", PATH],
        ["query", "checksum", PATH],
        ["query", "config", "version"],
        ["cat", "/no/such/file"],
        ["stat", "/no/such/file"],
    ],
)
def test_answers_are_those_of_the_origin(question: list[str], cache: Forebay, plain_origin: xrootd.Origin) -> None:
    command: list[str | Path] = [program("xrdfs"), plain_origin.url, *question]
    straight, through = run_client(command), run_client(command, through_caches([cache.url]))
    assert (through.returncode, known_to_a_cache(through.stdout)) == (
        straight.returncode,
        known_to_a_cache(straight.stdout),
    )


def known_to_a_cache(answer: bytes) -> list[bytes]:
    """An answer without the fields that a cache does not know."""
    return [line for line in answer.splitlines() if not line.startswith((b"CTime", b"ATime", b"Owner", b"Group"))]


def test_questions_are_answered_by_the_cache_when_the_origin_is_gone(
    cache: Forebay, ground: Ground, data: Path, patterns: dict[str, Pattern]
) -> None:
    origin = xrootd.plain(ground, data)
    environment = through_caches([cache.url])
    assert_same(fetch("xrdcp", ground, f"{origin.url}/{PATH}", environment), patterns[PATH].all(), "cold")
    cache.settled_metrics()
    origin.stop()
    located = run_client([program("xrdfs"), origin.url, "locate", PATH], environment)
    assert located.stdout.decode().split()[0] == origin.address, "the located file is requested by the same name again"


def test_each_file_goes_to_one_of_several_caches(
    start_cache: Callable[..., Forebay], ground: Ground, plain_origin: xrootd.Origin, data: Path
) -> None:
    contents = {f"/spread/{number}.bin": Pattern(1000 + number, number) for number in range(24)}
    for path, content in contents.items():
        content.write(data / path[1:])
    caches = [start_cache(), start_cache()]
    urls = [cache.url for cache in caches]
    sources: list[str | Path] = [f"{plain_origin.url}/{path}" for path in contents]
    for order in (urls, urls[::-1]):
        target = ground.directory("spread")
        copied = run_client([program("xrdcp"), "--nopbar", *sources, target], through_caches(order))
        assert copied.returncode == 0, copied.stderr
        for path, content in contents.items():
            assert_same((target / Path(path).name).read_bytes(), content.all(), path)
    from_origin = [cache.settled_metrics().origin_bytes for cache in caches]
    assert sum(from_origin) == sum(content.size for content in contents.values()), "no file is at both"
    assert min(from_origin) > 0, "each has some"


@pytest.mark.parametrize("exclude", ["127.0.0.*", "/sizes", "10.*, /other, /s*/many-*"])
def test_excluded_files_bypass_the_cache(
    exclude: str, cache: Forebay, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    environment = through_caches([cache.url], FOREBAY_EXCLUDE=exclude)
    assert_same(fetch("xrdcp", ground, f"{plain_origin.url}/{PATH}", environment), patterns[PATH].all(), exclude)
    assert cache.settled_metrics().origin_bytes == 0


def test_parameters_of_the_url_go_along(cache: Forebay, ground: Ground) -> None:
    content = Pattern(5000, 3)
    with ScriptedOrigin({"/a.bin": content}) as origin:
        url = f"{origin.url}//a.bin?site.word=one&other=two"
        assert_same(fetch("pyxrootd", ground, url, through_caches([cache.url])), content.all(), "with parameters")
        opens = [asked.target for asked in origin.asked(wire.Request.OPEN)]
        assert opens
        assert all("site.word=one" in target and "other=two" in target for target in opens)
        assert not any("forebay." in target for target in opens)
    assert cache.settled_metrics().origin_bytes == content.size


def test_changes_go_to_the_origin(cache: Forebay, ground: Ground) -> None:
    directory = ground.directory("writable")
    origin = xrootd.plain(ground, directory, writable=True)
    environment = through_caches([cache.url])
    content = Pattern(300_000, 8)
    source = content.write(ground.directory("source") / "new.bin")
    steps: list[list[str | Path]] = [
        [program("xrdfs"), origin.url, "mkdir", "/made"],
        [program("xrdcp"), "--nopbar", source, f"{origin.url}//made/new.bin"],
        [program("xrdfs"), origin.url, "mv", "/made/new.bin", "/made/moved.bin"],
        [program("xrdfs"), origin.url, "truncate", "/made/moved.bin", "200000"],
    ]
    for step in steps:
        result = run_client(step, environment)
        assert result.returncode == 0, (step, result.stderr)
    assert_same((directory / "made" / "moved.bin").read_bytes(), content.read(0, 200_000), "written")
    assert run_client([program("xrdfs"), origin.url, "rm", "/made/moved.bin"], environment).returncode == 0
    assert not (directory / "made" / "moved.bin").exists()
    origin.stop()


def test_local_files_and_caches_are_left_alone(
    cache: Forebay, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    environment = through_caches([cache.url])
    named = f"{cache.url}//{plain_origin.url}/{PATH}"
    assert_same(fetch("xrdcp", ground, named, environment), patterns[PATH].all(), "the cache by its own name")
    here = patterns[PATH].write(ground.directory("here") / "file.bin")
    there = ground.directory("there") / "file.bin"
    assert run_client([program("xrdcp"), "--nopbar", here, there], environment).returncode == 0
    assert_same(there.read_bytes(), patterns[PATH].all(), "from file to file")


def test_forked_processes_read_on(cache: Forebay, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]) -> None:
    url = f"{plain_origin.url}/{PATH}"
    command: list[str | Path] = [sys.executable, DRIVERS / "pyxrootd_forked.py", url, "3"]
    result = run_client(command, through_caches([cache.url]))
    assert result.returncode == 0, result.stderr
    assert set(result.stdout.decode().split()) == {hashlib.sha256(patterns[PATH].all()).hexdigest()}
    assert len(result.stdout.split()) == 8
    assert cache.settled_metrics().origin_bytes == patterns[PATH].size
    assert sum(cache.metrics().client_bytes().values()) == 8 * patterns[PATH].size, "children read through the cache"


def test_without_caches_nothing_changes(
    plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    environment = through_caches([]) | IMPATIENT
    assert_same(fetch("xrdcp", ground, f"{plain_origin.url}/{PATH}", environment), patterns[PATH].all(), "straight")
