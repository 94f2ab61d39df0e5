"""A server follows its reads, and a simulation with its own records gives its own counters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import clients, forebay
from harness.admin import Site
from harness.content import Pattern
from harness.ground import Ground
from harness.scripted import ScriptedOrigin
from harness.waiting import until

AOD = "/store/mc/Run3/DY/AODSIM/v1/0000/a.root"
NANO = "/store/mc/Run3/DY/NANOAODSIM/v1/0000/b.root"
ONCE = "/data/c"
FILES = {AOD: Pattern(6 << 20, 1), NANO: Pattern(3 << 20, 2), ONCE: Pattern(1 << 20, 3)}
READS = [AOD, NANO, AOD, AOD, ONCE, NANO]
# The first reads are misses.
HITS = [AOD, AOD, NANO]


@pytest.fixture
def traced(ground: Ground) -> Iterator[tuple[Site, Path]]:
    """A cache with a trace, before an origin with three files."""
    folder = ground.directory("store") / "trace"
    with ScriptedOrigin(dict(FILES)) as origin:
        with Site(ground, {"export": [{"origins": [origin.url]}], "trace": {"path": str(folder)}}) as running:
            for path in READS:
                clients.fetch("forebay-get", ground, running.server.file_url(path))
                # A block that is not on the disk yet is not a hit.
                running.server.settled_metrics()
            yield running, folder


@pytest.fixture
def site(traced: tuple[Site, Path]) -> Site:
    """The cache alone."""
    return traced[0]


def size(paths: list[str]) -> int:
    return sum(FILES[path].size for path in paths)


def test_the_curve_of_a_server_has_its_reads(site: Site) -> None:
    report = until(lambda: (now := site.get("/sizing"))["accesses"] == len(READS) and now, "the reads are counted")
    assert (report["read_bytes"], report["first_bytes"]) == (size(READS), size(list(FILES)))
    assert (report["files"], report["bytes"], report["once_files"]) == (3, size(list(FILES)), 1)
    assert report["lost_accesses"] == 0
    largest = report["curve"][-1]
    assert largest["hits_by_files"] == len(HITS) / len(READS)
    assert largest["hits_by_bytes"] == pytest.approx(size(HITS) / size(READS))
    assert [group["name"] for group in report["tiers"]] == ["AODSIM", "NANOAODSIM", "unknown"]
    largest = report["datasets"][0]
    assert (largest["name"], largest["accesses"]) == ("/DY/Run3-v1/AODSIM", 3)
    assert (largest["read_bytes"], largest["reread_bytes"]) == (size([AOD] * 3), size([AOD] * 2))
    assert [(found["days"], found["files"]) for found in report["working_sets"]] == [(1, 3), (7, 3), (30, 3), (90, 3)]
    text = site.command("sizing").stdout
    assert "used once: 33.3 % of the files" in text
    assert "/DY/Run3-v1/NANOAODSIM" in text
    assert site.command_json("sizing")["accesses"] == len(READS)


def test_a_simulation_with_the_trace_gives_the_counters_of_the_server(
    ground: Ground, traced: tuple[Site, Path]
) -> None:
    site, folder = traced

    def closed() -> int:
        return sum(path.read_text().count('"e":"close"') for path in folder.glob("*.jsonl"))

    until(lambda: closed() == len(READS), "the reads are traced")
    result = forebay.run(
        ground, "simulate", str(folder), "--sizes", "1TB", "--policies", "lru", "--warm-up", "0", "--json"
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    hit_bytes = site.server.metrics().client_bytes()["hit"]
    assert hit_bytes == size(HITS)
    measured, simulated = report["measured"], report["caches"][0]
    for ratios in (measured, simulated):
        assert ratios["hits_by_files"]["percent"] == pytest.approx(100 * len(HITS) / len(READS))
        assert ratios["hits_by_bytes"]["percent"] == pytest.approx(100 * hit_bytes / report["records"]["read_bytes"])


def test_the_curve_of_records_is_that_of_the_servers_that_wrote_them(ground: Ground, traced: tuple[Site, Path]) -> None:
    site, folder = traced
    until(lambda: sum(path.read_text().count('"e":"close"') for path in folder.glob("*.jsonl")) == len(READS), "closes")
    served = until(lambda: (now := site.get("/sizing"))["accesses"] == len(READS) and now, "the reads are counted")
    result = forebay.run(ground, "sizing", str(folder), "--json")
    assert result.returncode == 0, result.stderr
    recorded = json.loads(result.stdout)
    same = [
        "accesses",
        "read_bytes",
        "first_bytes",
        "files",
        "bytes",
        "once_files",
        "tiers",
        "datasets",
        "working_sets",
    ]
    assert {name: recorded[name] for name in same} == {name: served[name] for name in same}
    assert [point["hits_by_bytes"] for point in recorded["curve"]] == [
        point["hits_by_bytes"] for point in served["curve"]
    ]
    # A second node has read one of the files, and another one.
    other = ground.directory("other") / "node2.csv"
    at, whole = served["since"], FILES[AOD].size
    other.write_text(f"time,path,size,read\n{at},/elsewhere,100,100\n{at},{AOD},{whole},{whole}\n")
    result = forebay.run(ground, "sizing", str(folder), str(other), "--json")
    assert result.returncode == 0, result.stderr
    both = json.loads(result.stdout)
    assert (both["accesses"], both["files"]) == (2 + len(READS), 1 + served["files"])
    text = forebay.run(ground, "sizing", str(folder), str(other)).stdout
    assert "LRU caches" in text


def test_simulations_read_the_directory_of_a_cache(ground: Ground, site: Site) -> None:
    # Uses of files that are closed are written at the end at the latest.
    site.server.stop()
    result = forebay.run(ground, "simulate", str(site.store), "--sizes", "1TB", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["records"]["files"] == 3
    assert report["of_survivors"]
    assert report["records"]["read_bytes"] == size(READS)


def test_the_curve_continues_after_a_restart_with_the_records(ground: Ground) -> None:
    store = ground.directory("store")
    with ScriptedOrigin(dict(FILES)) as origin:
        configuration = {"export": [{"origins": [origin.url]}], "records": {"path": str(store / "records")}}
        for round_number in (1, 2):
            with Site(ground, configuration, store=store) as running:
                for path in READS:
                    clients.fetch("forebay-get", ground, running.server.file_url(path))
                expected = round_number * len(READS)
                report = until(
                    lambda site=running, count=expected: (now := site.get("/sizing"))["accesses"] == count and now,  # type: ignore[misc]
                    "the reads of both times are counted",
                )
    assert report["first_accesses"] == len(FILES)
    assert (report["files"], report["once_files"], report["read_bytes"]) == (3, 0, 2 * size(READS))
    assert report["datasets"][0]["accesses"] == 6
