"""The accounting streams through a real shoveler into a real message broker, on their way to collectors of grids."""

from __future__ import annotations

import base64
import json
import socket
import struct
import urllib.request
from typing import Any

from harness import forebay, xrootd
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.shoveler import RabbitMq, Shoveler
from harness.waiting import until

PATHS = ["/sizes/many-blocks.bin", "/sizes/block.bin", "/sizes/one-byte.bin"]


def passed_on(broker: RabbitMq, seen: list[bytes], count: int) -> list[bytes]:
    """The datagrams in the messages so far, once there are so many."""

    def taken() -> list[bytes] | None:
        for message in broker.take():
            packet = json.loads(message)
            assert packet["remote"].startswith("127.0.0.1:"), packet
            seen.append(base64.b64decode(packet["data"], validate=True))
        return seen if len(seen) >= count else None

    return until(taken, f"{count} datagrams are in the queue", within=60)


def until_closed(cache: Forebay, count: int) -> None:
    """Waits until so many files were closed: a period of use ends with its close."""
    until(lambda: cache.metrics().total("forebay_files_read_total") == count, f"{count} closes are counted")


def waiting(receiver: socket.socket) -> list[bytes]:
    """The datagrams that have arrived."""
    receiver.setblocking(False)
    found = []
    while True:
        try:
            found.append(receiver.recv(65_535))
        except BlockingIOError:
            return found


def test_every_datagram_passes_the_shoveler_and_is_in_the_queue(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    store = ground.directory("store")
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    with RabbitMq(ground) as broker, Shoveler(ground, broker) as shoveler:
        collectors = [f"127.0.0.1:{port}" for port in (shoveler.port, receiver.getsockname()[1])]
        configuration: dict[str, Any] = {
            "export": [{"path": "/", "origins": [plain_origin.url]}],
            "monitoring": {"collectors": collectors, "site": "LAB", "flush_interval": "1s"},
            "store": {"path": str(store / "s")},
        }
        with forebay.configured(ground, configuration, store=store) as cache:
            for number, path in enumerate([*PATHS, *PATHS], start=1):
                assert_same(fetch("xrdcp", ground, cache.file_url(path)), patterns[path].all(), "xrdcp")
                until_closed(cache, number)
            with urllib.request.urlopen(f"http://{cache.address}{PATHS[0]}", timeout=30) as answer:
                assert_same(answer.read(), patterns[PATHS[0]].all(), "http")
            until_closed(cache, 2 * len(PATHS) + 1)
            assert cache.metrics().total("forebay_stream_events_dropped_total") == 0
        # A server that stops has sent everything, to all collectors alike.
        sent = waiting(receiver)
        seen = passed_on(broker, [], len(sent))
        assert sorted(seen) == sorted(sent)
        kinds = {chr(datagram[0]) for datagram in seen}
        assert kinds == {"=", "u", "f", "g"}
        closed = [datagram for datagram in seen if chr(datagram[0]) == "g"]
        names = [json.loads(line)["lfn"] for datagram in closed for line in datagram[24:].rstrip(b"\0").split(b"\n")]
        assert sorted(names) == sorted([*PATHS, *PATHS, PATHS[0]])
        metrics = shoveler.metrics()
        assert metrics.total("shoveler_packets_received") == len(sent)
        assert metrics.total("shoveler_validations_failed") == 0
        # The shoveler does verify: what is not as long as its header says is not passed on, and what comes after it is.
        good = next(datagram for datagram in sent if chr(datagram[0]) == "=")
        bad = good[:2] + struct.pack(">H", len(good) + 1) + good[4:]
        for datagram in (bad, good):
            receiver.sendto(datagram, ("127.0.0.1", shoveler.port))
        until(lambda: shoveler.metrics().total("shoveler_validations_failed") == 1, "the bad one is counted")
        assert passed_on(broker, [], 1) == [good]
    receiver.close()
