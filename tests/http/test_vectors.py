"""Many ranges in one request, of files that the cache does not have yet."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import xrootd
from harness.content import Pattern
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, program
from harness.http_client import Connection, parts_of
from harness.relay import Relay
from harness.waiting import until

VECTOR_FILE = "/vector.bin"
CONTENT = Pattern(200 * BLOCK, 70)
RANGES = 64
RANGE_LEN = 3000
STRIDE = 3 * BLOCK + 77
SPANS = [(number * STRIDE, RANGE_LEN) for number in range(RANGES)]


@pytest.fixture(scope="module")
def davix_vector(ground: Ground) -> Path:
    """A client that reads a vector with davix."""
    source, built = Path(__file__).parent / "davix_vector.cpp", ground.directory("davix") / "davix-vector"
    flags = ["-std=c++17", "-D_FILE_OFFSET_BITS=64", "-I/usr/include/davix"]
    subprocess.run([program("g++"), *flags, source, "-o", built, "-ldavix"], check=True, timeout=120)
    return built


@pytest.fixture(scope="module")
def origin(ground: Ground) -> xrootd.Origin:
    """The origin of the file."""
    directory = ground.directory("vector")
    CONTENT.write(directory / VECTOR_FILE[1:])
    return xrootd.plain(ground, directory)


def test_all_cold_ranges_of_a_request_are_requested_at_once(
    cache_of: Callable[..., Forebay], origin: xrootd.Origin
) -> None:
    asked = ",".join(f"{offset}-{offset + length - 1}" for offset, length in SPANS)
    with Relay(("127.0.0.1", origin.port)) as relay, Connection(cache_of(relay.url)) as client:
        # The session with the origin exists, and the file is open.
        assert client.ask("GET", VECTOR_FILE, {"Range": "bytes=-1"}).status == 206
        relay.forget()
        relay.stall()
        client.send("GET", VECTOR_FILE, {"Range": f"bytes={asked}"})

        def is_all_requested() -> bool:
            reads = relay.reads
            return all(
                any(read.offset <= offset and offset + length <= read.offset + read.length for read in reads)
                for offset, length in SPANS[1:]
            )

        until(is_all_requested, "every range is requested, while the origin answers none")
        relay.flow()
        reply = client.reply()
    assert reply.status == 206
    assert parts_of(reply) == [
        (f"{offset}-{offset + length - 1}/{CONTENT.size}", CONTENT.read(offset, length)) for offset, length in SPANS
    ]


def test_davix_reads_a_vector_cold_and_warm(
    cache_of: Callable[..., Forebay], origin: xrootd.Origin, davix_vector: Path
) -> None:
    cache = cache_of(origin.url)
    expected = b"".join(CONTENT.read(offset, length) for offset, length in SPANS)
    numbers = [str(number) for span in SPANS for number in span]
    for temperature in ("cold", "warm"):
        command: list[str | Path] = [davix_vector, f"http://{cache.address}{VECTOR_FILE}", *numbers]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == expected, temperature
    # davix reads more, up to the whole file, if the answer to its vector is not one of several parts.
    assert sum(cache.settled_metrics().client_bytes().values()) < 3 * len(expected)
