"""The accounting streams have what stock clients did, and agree with the metrics."""

from __future__ import annotations

import json
import socket
import struct
import xml.etree.ElementTree
from typing import Any

from harness import forebay, xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.ground import Ground
from harness.http_client import Connection
from harness.metrics import Metrics
from harness.process import Process
from harness.waiting import until

PATH = "/sizes/many-blocks.bin"


def collector() -> socket.socket:
    """A socket on a free port."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    receiver.settimeout(60)
    return receiver


def received(receiver: socket.socket, count: int) -> list[tuple[bytes, str]]:
    """Datagrams, and the addresses of their senders."""
    got = [receiver.recvfrom(65_535) for _ in range(count)]
    return [(datagram, str(sender)) for datagram, sender in got]


def records(datagram: bytes) -> list[tuple[int, bytes]]:
    """Kind and bytes of the records of an f-stream datagram."""
    found, at = [], 8
    while at < len(datagram):
        (length,) = struct.unpack_from(">H", datagram, at + 2)
        found.append((datagram[at], datagram[at : at + length]))
        at += length
    return found


def test_two_collectors_get_what_a_client_has_read(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    store = ground.directory("store")
    receivers = [collector(), collector()]
    addresses = [f"127.0.0.1:{receiver.getsockname()[1]}" for receiver in receivers]
    configuration: dict[str, Any] = {
        "export": [{"path": "/", "origins": [plain_origin.url]}],
        "monitoring": {"collectors": addresses, "site": "LAB", "flush_interval": "1s"},
        "store": {"path": str(store / "s")},
    }
    size = patterns[PATH].size
    with forebay.configured(ground, configuration, store=store) as cache:
        assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), patterns[PATH].all(), "xrdcp")
        seen: dict[str, list[bytes]] = {}
        first = []
        # Open and close may be in two datagrams of the f-stream.
        while "g" not in seen or not any(kind == 0 for part in seen.get("f", []) for kind, _ in records(part)):
            ((datagram, sender),) = received(receivers[0], 1)
            first.append((datagram, sender))
            seen.setdefault(chr(datagram[0]), []).append(datagram)
        second = received(receivers[1], len(first))
        # A datagram is counted after it was sent.
        counter = "forebay_stream_datagrams_sent_total"
        metrics = until(
            lambda: (now := cache.metrics()).total(counter) >= 2 * len(first) and now, "all datagrams are counted"
        )
        assert metrics.total("forebay_stream_events_dropped_total") == 0
        assert metrics.total("forebay_stream_datagrams_failed_total") == 0
        sent = metrics.total("forebay_client_bytes_total")
    assert second == first, "all collectors get the same from one socket"
    assert all(struct.unpack_from(">H", datagram, 2)[0] == len(datagram) for datagram, _ in first)
    assert b"\n&site=LAB&port=" in seen["="][0]
    (user,) = struct.unpack_from(">I", seen["u"][0], 8)
    assert b"&x=xrdcp&" in seen["u"][0]
    parts = [record for datagram in seen["f"] for record in records(datagram)]
    (opened,) = [record for kind, record in parts if kind == 1]
    (closed,) = [record for kind, record in parts if kind == 0]
    assert struct.unpack_from(">IqI", opened, 4)[1:] == (size, user)
    assert opened[20:].rstrip(b"\0").decode() == PATH
    assert closed[4:8] == opened[4:8]
    read, vectors, written, reads = struct.unpack_from(">qqqi", closed, 8)
    assert (read, vectors, written) == (size, 0, 0)
    assert reads > 0
    event = json.loads(seen["g"][0][24:].rstrip(b"\0"))
    assert (event["event"], event["lfn"], event["size"]) == ("file_close", PATH, size)
    assert event["b_hit"] + event["b_miss"] + event["b_bypass"] == size == sent
    for receiver in receivers:
        receiver.close()


def test_ranges_of_a_file_on_a_connection_of_http_are_one_record(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    store = ground.directory("store")
    receiver = collector()
    configuration: dict[str, Any] = {
        "export": [{"path": "/", "origins": [plain_origin.url]}],
        "monitoring": {
            "collectors": [f"127.0.0.1:{receiver.getsockname()[1]}"],
            "site": "LAB",
            # Open and close are in one datagram.
            "flush_interval": "10min",
        },
        "store": {"path": str(store / "s")},
    }
    ranges = [(0, 999), (70_000, 70_009), (5, 5)]
    with forebay.configured(ground, configuration, store=store) as cache:
        # All at once: a connection closes files that it has not used for five seconds.
        with Connection(cache) as connection:
            for first, last in ranges:
                connection.send("GET", PATH, {"Range": f"bytes={first}-{last}", "User-Agent": "ranges/1"})
            for first, last in ranges:
                assert_same(connection.reply().body, patterns[PATH].all()[first : last + 1], "range")
    # A server that stops sends what waits.
    seen: list[bytes] = []
    while not any(chr(datagram[0]) == "g" for datagram in seen):
        seen += [datagram for datagram, _ in received(receiver, 1)]
    user = next(datagram for datagram in seen if chr(datagram[0]) == "u")
    assert user[12:].startswith(b"http/")
    assert b"&x=ranges/1&" in user
    parts = [record for datagram in seen if chr(datagram[0]) == "f" for record in records(datagram)]
    assert [kind for kind, _ in parts] == [2, 1, 0], "a time, one open, one close"
    read, _, _, reads = struct.unpack_from(">qqqi", parts[2][1], 8)
    assert (read, reads) == (sum(last + 1 - first for first, last in ranges), len(ranges))
    (event,) = [datagram for datagram in seen if chr(datagram[0]) == "g"]
    assert json.loads(event[24:].rstrip(b"\0"))["lfn"] == PATH
    receiver.close()


def reports(text: str) -> list[dict[str, str]]:
    """The complete reports that `mpxstats` has printed: lines of names and values, and an empty one at the end."""
    parts = text.split("\n\n")[:-1]
    return [dict(line.split(" ", 1) for line in part.splitlines() if " " in line) for part in parts]


def counted(metrics: Metrics) -> dict[str, float]:
    """The values of a report with the same meaning as the metrics."""
    requests = {
        kind: metrics.total("forebay_client_requests_total", kind=kind) for kind in ("open", "read", "pgread", "readv")
    }
    return {
        "link.num": metrics.total("forebay_connections"),
        "link.tot": metrics.total("forebay_connections_accepted_total"),
        "link.out": metrics.total("forebay_client_bytes_total"),
        "xrootd.ops.open": requests["open"],
        "xrootd.ops.rd": requests["read"] + requests["pgread"],
        "xrootd.ops.rv": requests["readv"],
        "xrootd.err": metrics.total("forebay_client_errors_total"),
        "ofs.opr": metrics.total("forebay_open_handles"),
        "cache.rd.in": metrics.total("forebay_origin_bytes_total"),
        "cache.rd.out": metrics.total("forebay_client_bytes_total"),
        "cache.rd.hits": metrics.total("forebay_request_seconds_count", outcome="hit"),
        "cache.saved": metrics.total("forebay_disk_written_bytes_total"),
        "cache.files.closed": metrics.total("forebay_files_read_total"),
        "cache.mem.size": metrics.total("forebay_budget_bytes"),
    }


def test_summary_reports_have_the_numbers_of_the_metrics(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    store = ground.directory("store")
    receiver, port = collector(), ground.free_port()
    mpxstats = Process("mpxstats", ["mpxstats", "-f", "flat", "-p", str(port)], ground.directory("mpxstats"))
    configuration: dict[str, Any] = {
        "export": [{"path": "/", "origins": [plain_origin.url]}],
        "monitoring": {
            "summary_collectors": [f"127.0.0.1:{port}", f"127.0.0.1:{receiver.getsockname()[1]}"],
            "summary_interval": "1s",
            "site": "LAB",
            "instance": "one",
        },
        "store": {"path": str(store / "s")},
    }
    with forebay.configured(ground, configuration, store=store) as cache:
        for _ in range(2):
            assert_same(fetch("xrdcp", ground, cache.file_url(PATH)), patterns[PATH].all(), "xrdcp")
        until(lambda: cache.metrics().total("forebay_connections") == 0, "the clients have left")
        expected = counted(cache.settled_metrics())
        assert (expected["xrootd.ops.open"], expected["cache.files.closed"]) == (2, 2)
        assert expected["cache.rd.hits"] > 0

        def equal() -> dict[str, str] | None:
            """A report that equals the metrics."""
            found = reports(mpxstats.stdout_path.read_text())
            same = [report for report in found if all(report.get(name) == f"{expected[name]:.0f}" for name in expected)]
            return same[0] if same else None

        report = until(equal, f"a report of {expected}")
    mpxstats.stop()
    assert (report["pgm"], report["ins"]) == ("xrootd", "one")
    root = xml.etree.ElementTree.fromstring(receiver.recv(65_535))
    assert (root.get("site"), root.get("src", "").rpartition(":")[2]) == ("LAB", str(cache.port))
    blocks = [block.get("id") for block in root]
    assert blocks == ["info", "link", "sched", "xrootd", "ofs", "oss", "cache", "sgen"]
    receiver.close()
