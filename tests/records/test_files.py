"""The files of records have what clients read, and DuckDB and the simulator read them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import duckdb

from harness import forebay, records, xrootd
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.http_client import Connection
from harness.waiting import until

PATH, OTHER, SMALL = "/sizes/many-blocks.bin", "/sizes/block.bin", "/sizes/one-byte.bin"

VECTORS = """
import sys
from XRootD import client
file = client.File()
assert file.open(sys.argv[1])[0].ok
assert file.vector_read([(0, 10), (200_000, 300)])[0].ok
assert file.read(5, 7)[0].ok
assert file.close()[0].ok
"""


def start(ground: Ground, origin: xrootd.Origin, **tables: object) -> tuple[Forebay, Path]:
    """A cache that writes records into a directory."""
    store = ground.directory("store")
    directory = store / "records"
    configuration: dict[str, Any] = {
        "export": [{"path": "/", "origins": [origin.url]}],
        "monitoring": {"site": "LAB", "instance": "one"},
        "records": {"path": str(directory)},
        "store": {"path": str(store / "s")},
        **tables,
    }
    return forebay.configured(ground, configuration, store=store), directory


def test_records_agree_with_clients_metrics_duckdb_and_the_simulator(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    cache, directory = start(ground, plain_origin)
    size = patterns[PATH].size
    with cache:
        for number in (1, 2):
            assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), patterns[PATH].all(), "xrdcp")
            # A period of use ends with its close.
            records.closes(directory, number)
        done = run_client([sys.executable, "-c", VECTORS, cache.file_url(PATH)])
        assert done.returncode == 0, done.stderr
        cold, warm, vectors = records.closes(directory, 3)
        until(lambda: cache.metrics().total("forebay_records_sent_total", output="file") == 3, "all are counted")
        metrics = cache.settled_metrics()
        outcomes = metrics.client_bytes()
        assert metrics.total("forebay_records_dropped_total") == 0
        assert len(records.written(directory)) == 3
    for record in (cold, warm, vectors):
        assert (record["server_site"], record["instance"], record["file_lfn"]) == ("LAB", "one", PATH)
        assert (record["file_size"], record["status"], record["decision"]) == (size, "ok", "cache")
        assert record["origin"] == plain_origin.url.removeprefix("root://")
        assert record["start_time"] <= record["end_time"] == record["@timestamp"]
        assert (record["client_ip"], record["ipv6"]) == ("127.0.0.1", False)
        assert record["dataset"] == "/sizes"
    assert (cold["read_bytes"], warm["read_bytes"], warm["bytes_miss_cache"]) == (size, size, 0)
    # A block that is not written yet is not a hit.
    assert warm["bytes_hit_cache"] + warm["bytes_coalesced"] == size
    assert cold["bytes_miss_cache"] > 0
    assert (cold["first_access"], warm["first_access"], warm["access_count"]) == (True, False, 2)
    assert cold["bytes_read_by_remote"] == size >= cold["bytes_to_disk"]
    assert warm["bytes_read_by_remote"] == 0
    assert (vectors["read_vector_bytes"], vectors["read_vector_count"], vectors["read_vector_operations"]) == (
        310,
        2,
        1,
    )
    assert (vectors["read_single_bytes"], vectors["read_operations"]) == (7, 2)
    assert len({record["record_id"] for record in (cold, warm, vectors)}) == 3
    names = {
        "hit": "bytes_hit_cache",
        "missed": "bytes_miss_cache",
        "coalesced": "bytes_coalesced",
        "bypassed": "bytes_bypass_cache",
    }
    for outcome, name in names.items():
        assert sum(record[name] for record in (cold, warm, vectors)) == outcomes[outcome], outcome
    # The query of the document.
    glob = str(directory / "records-*.jsonl")
    relation = duckdb.sql(
        f"""SELECT dataset, count(*), sum(read_bytes), sum(bytes_hit_cache) / sum(read_bytes),
            max(make_timestamp(end_time * 1000))
        FROM read_json('{glob}', format = 'newline_delimited', union_by_name = true)
        WHERE event = 'close' GROUP BY dataset"""
    )
    assert relation is not None
    (row,) = relation.fetchall()
    assert row[:3] == ("/sizes", 3, 2 * size + 317)
    assert abs(row[3] - outcomes["hit"] / (2 * size + 317)) < 1e-9
    result = forebay.run(ground, "simulate", str(directory), "--sizes", "1TB", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["records"]["read_bytes"] == 2 * size + 317


def test_opens_that_are_refused_fail_bypass_or_are_sent_away_are_recorded(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    rules = [{"path": OTHER, "action": "bypass"}, {"path": SMALL, "action": "redirect"}]
    cache, directory = start(ground, plain_origin, rule=rules)
    with cache:
        assert_same(fetch("xrdcp", ground, cache.file_url(OTHER)), patterns[OTHER].all(), "xrdcp")
        assert_same(fetch("xrdcp", ground, cache.file_url(SMALL)), patterns[SMALL].all(), "xrdcp")
        gone = run_client(["xrdcp", "-f", "-s", cache.file_url("/sizes/gone.bin"), "/dev/null"])
        assert gone.returncode != 0
        events = {"close", "redirect", "failed"}
        until(lambda: {record["event"] for record in records.written(directory)} == events, "all are recorded")
    by_event = {record["event"]: record for record in records.written(directory)}
    assert (by_event["close"]["decision"], by_event["close"]["file_lfn"]) == ("bypass", OTHER)
    assert by_event["close"]["bytes_bypass_cache"] == patterns[OTHER].size
    assert (by_event["redirect"]["file_lfn"], by_event["redirect"]["status"]) == (SMALL, "ok")
    assert by_event["redirect"]["target"] == plain_origin.url.removeprefix("root://")
    assert (by_event["failed"]["status"], by_event["failed"]["file_lfn"]) == ("origin_refused", "/sizes/gone.bin")
    assert by_event["failed"]["reason"]
    closed = [record for record in records.written(directory) if record["event"] == "close"]
    assert len(closed) == 1


def test_a_bad_directory_costs_readers_nothing_and_loses_counted_records(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    cache, directory = start(ground, plain_origin)
    directory.write_text("a file where the directory should be")
    with cache:
        for path in (PATH, OTHER):
            assert_same(fetch("xrdcp", ground, cache.file_url(path)), patterns[path].all(), "xrdcp")
        until(lambda: cache.metrics().total("forebay_records_dropped_total", output="file") == 2, "both are counted")
        assert cache.metrics().total("forebay_records_sent_total") == 0
        assert re.search("records cannot be written", cache.process.output())


def test_ranges_of_a_file_on_a_connection_of_http_are_one_record_and_one_access(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    cache, directory = start(ground, plain_origin)
    content = patterns[PATH].all()
    # The second one has the copy compared with its origin, as is done every five seconds of use.
    ranges = [(0, 999, {}), (70_000, 70_009, {"Cache-Control": "no-cache"}), (5, 5, {})]
    with cache:
        # All at once: a connection closes files that it has not used for five seconds.
        with Connection(cache) as connection:
            for first, last, fields in ranges:
                connection.send("GET", PATH, {"Range": f"bytes={first}-{last}", **fields})
            connection.send("HEAD", PATH)
            for first, last, _ in ranges:
                assert_same(connection.reply().body, content[first : last + 1], "range")
            assert connection.reply("HEAD").status == 200
        (record,) = records.closes(directory, 1)
        assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), content, "xrdcp")
        _, copied = records.closes(directory, 2)
        lines = [line for line in cache.process.output().splitlines() if "forebay::access" in line and PATH in line]
    assert (record["protocol"], record["read_operations"], record["read_bytes"]) == ("http", 3, 1011)
    assert (record["access_count"], record["first_access"]) == (1, True)
    assert (copied["protocol"], copied["access_count"]) == ("xroot", 2)
    assert len(lines) == 2, lines
