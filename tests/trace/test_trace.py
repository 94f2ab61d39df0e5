"""The trace has each read of stock clients, as they made it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from harness import forebay, xrootd
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.waiting import until

PATH, OTHER = "/sizes/many-blocks.bin", "/sizes/block.bin"

READS = [(0, 100), (65_536, 65_537), (7, 1), (1_000_000, 524_288), (0, 100)]
VECTORS = [[(0, 10), (200_000, 300), (70_000, 64)], [(2_000_000, 1)]]

JOB = """
import json, sys
from XRootD import client
url, reads, vectors = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
file = client.File()
assert file.open(url)[0].ok
for offset, length in reads:
    status, data = file.read(offset, length)
    assert status.ok and len(data) == length, status
for vector in vectors:
    status, chunks = file.vector_read([tuple(element) for element in vector])
    assert status.ok, status
assert file.close()[0].ok
"""


def events(directory: Path) -> list[dict[str, Any]]:
    """Every line of the trace, in the order in which they were written."""
    files = sorted(directory.glob("trace-*.jsonl"))
    lines = (line for path in files for line in path.read_text().splitlines(keepends=True))
    # The last one may still be in the making.
    return [json.loads(line) for line in lines if line.endswith("\n")]


def finished(directory: Path, count: int) -> list[list[dict[str, Any]]]:
    """The traced events of each open, once so many are closed."""
    until(lambda: sum(event["e"] == "close" for event in events(directory)) >= count, "the closes are traced")
    traced = events(directory)
    files = [event["f"] for event in traced if event["e"] == "open"]
    return [[event for event in traced if event["f"] == file] for file in files]


def start(ground: Ground, origin: xrootd.Origin, **trace: object) -> tuple[Forebay, Path]:
    """A cache that traces into a directory."""
    store = ground.directory("store")
    directory = store / "trace"
    export = {"path": "/", "origins": [origin.url]}
    configuration: dict[str, Any] = {
        "export": [export],
        "trace": {"path": str(directory), **trace},
        "store": {"path": str(store / "s")},
    }
    return forebay.configured(ground, configuration, store=store), directory


def test_trace_has_the_reads_that_a_job_made(ground: Ground, plain_origin: xrootd.Origin) -> None:
    cache, directory = start(ground, plain_origin)
    with cache:
        for _ in range(2):
            asked = [json.dumps(READS), json.dumps(VECTORS)]
            done = run_client([sys.executable, "-c", JOB, cache.file_url(PATH), *asked], {"XRD_APPNAME": "the-job"})
            assert done.returncode == 0, done.stderr
        cold, warm = finished(directory, 2)
        written = "forebay_trace_written_total"
        until(lambda: cache.metrics().total(written) == len(events(directory)), "all lines are counted")
        assert cache.metrics().total("forebay_trace_dropped_total") == 0
    for job_events in (cold, warm):
        opened, *reads, closed = job_events
        # An answer is traced after it was sent, so the next one may overtake it.
        reads.sort(key=lambda event: event["t"])
        assert (opened["e"], opened["path"], opened["size"]) == ("open", PATH, 40 * 65536 + 1234)
        assert opened["app"]
        assert opened["pid"] > 0
        assert closed["e"] == "close"
        assert [(event["o"], event["n"]) for event in reads if event["e"] == "read"] == READS
        vectors = [[tuple(element) for element in event["v"]] for event in reads if event["e"] == "readv"]
        assert vectors == VECTORS
        given = sum(length for _, length in READS) + sum(length for vector in VECTORS for _, length in vector)
        assert sum(closed[outcome] for outcome in ("hit", "missed", "coalesced", "bypassed")) == given
        times = [opened["t"], *(event["t"] for event in reads), closed["t"]]
        assert times == sorted(times)
        assert all(event["us"] >= 0 for event in reads)
    assert min(cold[1:-1], key=lambda event: event["t"])["r"] == "missed"
    assert {event["r"] for event in warm[1:-1]} <= {"hit", "missed"}


def test_page_reads_of_a_copy_cover_the_file(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    cache, directory = start(ground, plain_origin)
    with cache:
        assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), patterns[PATH].all(), "xrdcp")
        ((opened, *reads, _),) = finished(directory, 1)
    assert opened["app"] == "xrdcp"
    position = 0
    for event in sorted(reads, key=lambda event: event["o"]):
        assert event["e"] in ("pgread", "read")
        assert event["o"] == position
        position += event["n"]
    assert position == patterns[PATH].size


def test_only_files_of_the_patterns_are_traced(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    cache, directory = start(ground, plain_origin, only=["/sizes/many-*"])
    with cache:
        for path in (OTHER, PATH, OTHER):
            assert_same(fetch("forebay-get", ground, cache.file_url(path)), patterns[path].all(), path)
        traced = finished(directory, 1)
    assert [opened["path"] for opened, *_ in traced] == [PATH]


def test_clients_are_served_while_the_trace_cannot_be_written(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    store = ground.directory("store")
    in_the_way = store / "trace"
    in_the_way.touch()
    export = {"path": "/", "origins": [plain_origin.url]}
    with forebay.configured(ground, {"export": [export], "trace": {"path": str(in_the_way)}}) as cache:
        assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), patterns[PATH].all(), "no trace")
        until(lambda: cache.metrics().total("forebay_trace_dropped_total") > 0, "its lines are dropped and counted")
        in_the_way.unlink()

        def is_traced() -> bool:
            assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), patterns[PATH].all(), "on the way")
            return cache.metrics().total("forebay_trace_written_total") > 0

        until(is_traced, "the trace is written again", within=60)
