"""Clients of the field read through the cache: davix, gfal2, rclone, fsspec, uproot, webdav4, cadaver."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
import uproot
from webdav4.client import Client as WebDav

from harness import xrootd
from harness.content import assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.root_files import Sums

from .conftest import FILE, FILES

CONTENT = FILES[FILE].all()


def run(*arguments: str | Path, env: dict[str, str] | None = None) -> str:
    """Runs a client to its end."""
    done = subprocess.run(
        arguments,
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
    )
    output = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, output
    return output


@pytest.fixture
def http(cache: Forebay) -> str:
    """The URL of an empty cache."""
    return f"http://{cache.address}"


def test_davix_copies_lists_and_stats(http: str, ground: Ground) -> None:
    target = ground.directory("davix") / "file.bin"
    for temperature in ("cold", "warm"):
        run(program("davix-get"), f"{http}{FILE}", target)
        assert_same(target.read_bytes(), CONTENT, temperature)
    lines = run(program("davix-ls"), "-l", f"{http}/data/").splitlines()
    listed = {line.split()[-1]: line for line in lines}
    assert "file.bin" in listed
    assert str(len(CONTENT)) in listed["file.bin"]
    assert any(line.startswith("d") and line.endswith(" sub") for line in lines)


def test_gfal_stats_lists_sums_and_copies_with_a_checksum(http: str, ground: Ground) -> None:
    python = {"GFAL_PYTHONBIN": "/usr/bin/python3"}
    assert str(len(CONTENT)) in run(program("gfal-stat"), f"{http}{FILE}", env=python)
    assert "file.bin" in run(program("gfal-ls"), "-l", f"{http}/data/", env=python)
    target = ground.directory("gfal") / "file.bin"
    for temperature in ("cold", "warm"):
        run(program("gfal-copy"), "-f", "-K", "ADLER32", f"{http}{FILE}", f"file://{target}", env=python)
        assert_same(target.read_bytes(), CONTENT, temperature)
    assert len(run(program("gfal-sum"), f"{http}{FILE}", "ADLER32", env=python).split()[-1]) == 8


@pytest.mark.parametrize("backend", [":http", ":webdav"])
def test_rclone_copies_a_directory(backend: str, http: str, ground: Ground) -> None:
    target = ground.directory("rclone")
    options = ["--http-url", http] if backend == ":http" else ["--webdav-url", http, "--webdav-vendor", "other"]
    for temperature in ("cold", "warm"):
        run(program("rclone"), "--config", "/dev/null", *options, "copy", f"{backend}:data", target / temperature)
        for path, content in FILES.items():
            name = path.removeprefix("/data/")
            assert_same((target / temperature / name).read_bytes(), content.all(), f"{name} {temperature}")


def test_fsspec_lists_seeks_and_reads_ranges(http: str) -> None:
    files = fsspec.filesystem("http", skip_instance_cache=True)
    url = f"{http}{FILE}"
    for _ in ("cold", "warm"):
        assert files.info(url)["size"] == len(CONTENT)
        with files.open(url, block_size=1 << 16) as file:
            file.seek(1_000_000)
            assert file.read(5000) == CONTENT[1_000_000:1_005_000]
        spans = [(0, 10), (500_000, 500_100), (10, 20)]
        starts, ends = zip(*spans, strict=True)
        read = files.cat_ranges([url] * 3, list(starts), list(ends))
        assert read == [CONTENT[start:end] for start, end in spans]
    names = {entry["name"].removeprefix(f"{http}/data/") for entry in files.ls(f"{http}/data/")}
    assert {"file.bin", "sub/"} <= names


def test_webdav4_lists_stats_and_reads(http: str) -> None:
    client = WebDav(http, timeout=60)
    assert client.content_length(FILE) == len(CONTENT)
    assert client.isdir("/data/sub")
    names = {entry["name"].rsplit("/", 1)[-1] for entry in client.ls("/data", detail=True)}
    assert {"file.bin", "sub", "a b%20+é.bin"} <= names
    with client.open(FILE, mode="rb") as file:
        assert_same(file.read(), CONTENT, "webdav4")


@pytest.mark.parametrize("handler", ["fsspec", "http"])
def test_uproot_reads_a_tree(
    handler: str,
    cache_of: Callable[..., Forebay],
    plain_origin: xrootd.Origin,
    tree_path: str,
    tree_sums: Sums,
) -> None:
    cache = cache_of(plain_origin.url)
    source = uproot.source.fsspec.FSSpecSource if handler == "fsspec" else uproot.source.http.HTTPSource
    for _ in ("cold", "warm"):
        with uproot.open(f"http://{cache.address}{tree_path}", handler=source) as file:
            tree = file["Events"]
            assert tree.num_entries == tree_sums.entries
            assert float(tree["x"].array(library="np").sum()) == pytest.approx(tree_sums.x)


def test_cadaver_lists_and_reads(http: str, ground: Ground) -> None:
    directory = ground.directory("cadaver")
    done = subprocess.run(
        [program("cadaver"), f"{http}/data/"],
        input=f"ls\nget file.bin {directory}/file.bin\nquit\n".encode(),
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "HOME": str(directory)},
    )
    assert b"small.bin" in done.stdout
    assert_same((directory / "file.bin").read_bytes(), CONTENT, "cadaver")


def test_both_protocols_share_the_cache(cache: Forebay, http: str, ground: Ground) -> None:
    run(program("xrdcp"), "--nopbar", cache.file_url(FILE), ground.directory("shared") / "file.bin")
    cache.settled_metrics()
    before = cache.metrics().origin_bytes
    files = fsspec.filesystem("http", skip_instance_cache=True)
    assert_same(files.cat_file(f"{http}{FILE}"), CONTENT, "over http")
    assert cache.metrics().origin_bytes == before
