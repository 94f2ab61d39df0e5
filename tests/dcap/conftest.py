"""Caches that speak dCap, and clients of libdcap."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import xrootd
from harness.content import Pattern
from harness.dcap import COMMAND_SECONDS, Reader
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, program

FILE = "/data/file.bin"
FILES = {
    FILE: Pattern(40 * BLOCK + 1234, 91),
    "/data/empty.bin": Pattern(0, 92),
    "/data/one-byte.bin": Pattern(1, 93),
    "/data/a b%20+é.bin": Pattern(70_000, 94),
    "/data/large.bin": Pattern(160 * BLOCK + 17, 95),
    "/closed/secret.bin": Pattern(5000, 96),
}


@pytest.fixture(scope="session")
def built_reader(ground: Ground) -> Path:
    """The program on libdcap."""
    built = ground.directory("dcap-reader") / "reader"
    source = Path(__file__).with_name("reader.c")
    subprocess.run(
        [program("cc"), "-D_GNU_SOURCE", "-D_REENTRANT", "-Wall", "-Werror", "-O1", source, "-o", built, "-ldcap"],
        check=True,
        timeout=COMMAND_SECONDS,
    )
    return built


@pytest.fixture
def reader(built_reader: Path) -> Iterator[Callable[..., Reader]]:
    """Starts programs on libdcap; they are ended with the test."""
    started: list[Reader] = []

    def start(**env: str) -> Reader:
        started.append(Reader(built_reader, env))
        return started[-1]

    yield start
    for running in started:
        if running.child.poll() is None:
            running.end()


@pytest.fixture(scope="module")
def dcap_origin(ground: Ground) -> xrootd.Origin:
    """The distribution's xrootd."""
    directory = ground.directory("dcap-data")
    for path, content in FILES.items():
        content.write(directory / path[1:])
    return xrootd.plain(ground, directory)


@pytest.fixture
def dcap_listen(ground: Ground) -> str:
    """An address for dCap: libdcap 2.47 does not connect to ports above 32767, which the system would assign."""
    return f"127.0.0.1:{ground.free_port()}"


@pytest.fixture
def dcap_cache(serve: Callable[..., Forebay], dcap_origin: xrootd.Origin, dcap_listen: str) -> Forebay:
    """An empty cache."""
    return serve({"export": [{"path": "/", "origins": [dcap_origin.url]}], "dcap": {"listen": [dcap_listen]}})
