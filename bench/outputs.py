#!/usr/bin/env python3
"""Opens and closes with each output of events on and off: accounting streams, records, OpenSearch, trace, access log.

Each set-up serves the same opens of small files that are in the page cache. Receivers on this machine count what
arrives: a socket for the streams, a server for bulk requests, and the files. The processor time of the server, less
that of the set-up without outputs in the same round, is the cost of an output. The set-up `hanging` has all outputs,
with a search server that takes connections and does not answer: its records are counted in the spool.

    cargo build --release -p forebay -p forebay-bench
    bench/outputs.py [DIRECTORY FOR ROWS AND SUMMARY]
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "5"))
FILES = 20_000
OPERATIONS = int(os.environ.get("OPERATIONS", "100000"))
CONNECTIONS = 16
RATE = 10_000
TARGET = Path(__file__).parents[1] / "target" / "release"
FOREBAY, LOAD = (
    Path(os.environ.get(name, TARGET / file))
    for name, file in (("FOREBAY", "forebay"), ("FOREBAY_BENCH", "forebay-bench"))
)
OUTPUTS = ("streams", "records", "opensearch", "trace", "access-log")
SETUPS = {"none": (), **{output: (output,) for output in OUTPUTS}, "all": OUTPUTS, "hanging": OUTPUTS}
SETTLE_SECONDS = 60.0


class Bulk(BaseHTTPRequestHandler):
    """Takes records in bulk requests, and counts them."""

    protocol_version = "HTTP/1.1"
    taken: multiprocessing.sharedctypes.Synchronized[int]

    def do_POST(self) -> None:
        """Stores all records of a request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        count = body.count(b"\n") // 2
        with self.taken.get_lock():
            self.taken.value += count
        answer = b'{"errors":false,"items":[%s]}' % b",".join([b'{"create":{"status":201}}'] * count)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def search_server(*, hangs: bool) -> Iterator[tuple[str, object]]:
    """The URL of a server for bulk requests, and the number of records that it has taken."""
    taken = multiprocessing.Value("q", 0)
    if hangs:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", taken
        return
    handler = type("Counting", (Bulk,), {"taken": taken})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    # A process of its own: its time is not that of the load.
    process = multiprocessing.Process(target=server.serve_forever)
    process.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", taken
    finally:
        process.terminate()
        process.join()
        server.server_close()


class Collector(threading.Thread):
    """Keeps all datagrams, to be counted later."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # SO_RCVBUFFORCE: as a collector of many servers has it.
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.datagrams: list[bytes] = []
        self.start()

    def run(self) -> None:
        """Receives until an empty datagram."""
        while datagram := self.socket.recv(65_535):
            self.datagrams.append(datagram)

    def counts(self) -> dict[str, int]:
        """Opens, closes and events of the cache that have arrived."""
        self.socket.sendto(b"", ("127.0.0.1", self.port))
        self.join()
        found = {"opens": 0, "closes": 0, "events": 0}
        for datagram in self.datagrams:
            match chr(datagram[0]):
                case "f":
                    at = 8
                    while at < len(datagram):
                        kind, _, length = struct.unpack_from(">BBH", datagram, at)
                        found["opens"] += kind == 1
                        found["closes"] += kind == 0
                        at += length
                case "g":
                    found["events"] += datagram.count(b"file_close")
        self.socket.close()
        return found


def configuration(setup: str, place: Path, collector: Collector, search: str) -> str:
    """The configuration of a set-up."""
    outputs = SETUPS[setup]
    access = "info" if "access-log" in outputs else "info,forebay::access=off"
    text = f"""
server.listen = ["127.0.0.1:0"]
admin.listen = "127.0.0.1:0"
store.path = "{place / "store"}"
logging.filter = "{access}"
[[export]]
origins = ["root://127.0.0.1:1"]
"""
    if "streams" in outputs:
        text += f'[monitoring]\ncollectors = ["127.0.0.1:{collector.port}"]\nsite = "LAB"\nflush_interval = "1s"\n'
    if "records" in outputs:
        text += f'[records]\npath = "{place / "records"}"\n'
    if "opensearch" in outputs:
        text += f'[opensearch]\nurls = ["{search}"]\nspool = "{place / "spool"}"\nspool_size = "4GiB"\n'
    if "trace" in outputs:
        text += f'[trace]\npath = "{place / "trace"}"\n'
    return text


class Server:
    """A running server."""

    def __init__(self, text: str, place: Path) -> None:
        file, self.log = place / "forebay.toml", place / "log"
        file.write_text(text)
        with self.log.open("wb") as log:
            self.child = subprocess.Popen([FOREBAY, "serve", "--config", file], stdout=log, stderr=log)
        self.admin, self.address = self.printed("admin "), self.printed("ready root://")

    def printed(self, begin: str) -> str:
        """The rest of a line of its output, once it is there."""
        while not (found := re.search(rf"^{begin}(\S+)$", self.log.read_text(), re.MULTILINE)):
            assert self.child.poll() is None, self.log.read_text()
            time.sleep(0.01)
        return found[1]

    def total(self, name: str, label: str = "") -> float:
        """The sum of a metric."""
        with urllib.request.urlopen(f"{self.admin}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if re.match(rf"{name}[{{ ]", line) and label in line)

    def processor_ns(self) -> int:
        """Processor time of all threads, ended ones included."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) * 10**9 // os.sysconf("SC_CLK_TCK")

    def load(self, operations: int) -> dict[str, float]:
        """Opens, reads and closes so many files."""
        argv = [LOAD, "load", self.address, "--store-files", str(FILES), "--operation", "open-read-close"]
        argv += ["--connections", str(CONNECTIONS), "--operations", str(operations)]
        return dict(json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout))

    def wait_for(self, name: str, value: float, label: str = "") -> None:
        """Waits until a metric has a value."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (found := self.total(name, label)) < value:
            assert time.monotonic() < deadline, f"{name} is {found}, not {value}"
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends it."""
        self.child.terminate()
        self.child.wait()


def measure(setup: str, place: Path) -> dict[str, object]:
    """One sample of a set-up."""
    outputs, is_hanging = SETUPS[setup], setup == "hanging"
    for name in ("records", "trace", "spool"):
        shutil.rmtree(place / name, ignore_errors=True)
    collector = Collector()
    with search_server(hangs=is_hanging) as (url, taken):
        server = Server(configuration(setup, place, collector, url), place)
        server.load(FILES)
        all_of = FILES + OPERATIONS
        before, began = server.processor_ns(), time.monotonic()
        report = server.load(OPERATIONS)
        seconds = time.monotonic() - began
        # Everything is written and sent before the processor time is taken.
        if "records" in outputs:
            server.wait_for("forebay_records_sent_total", all_of, 'output="file"')
        if "opensearch" in outputs and not is_hanging:
            server.wait_for("forebay_records_sent_total", all_of, 'output="opensearch"')
        time.sleep(1.5)
        spent = server.processor_ns() - before
        dropped = [
            server.total(f"forebay_{name}_total")
            for name in ("stream_events_dropped", "stream_datagrams_failed", "records_dropped", "trace_dropped")
        ]
        server.stop()
    row: dict[str, object] = {
        "setup": setup,
        "operations": OPERATIONS,
        "seconds": round(float(report.get("seconds", seconds)), 3),
        "cpu_us": round(spent / OPERATIONS / 1000, 3),
        "dropped": int(sum(dropped)),
        **received(outputs, place, collector, int(taken.value) if not is_hanging else None),
    }
    row["missing"] = sum(all_of - int(str(row[key])) for key in RECEIVED if row[key] != "")
    return row


RECEIVED = ("opens", "closes", "events", "records", "documents", "traced", "logged")


def received(outputs: tuple[str, ...], place: Path, collector: Collector, documents: int | None) -> dict[str, object]:
    """The numbers that have arrived at each output since the start of the server; empty for outputs that are off."""
    row: dict[str, object] = dict.fromkeys(RECEIVED, "")
    streams = collector.counts()
    if "streams" in outputs:
        row.update(streams)
    if "records" in outputs:
        row["records"] = count_lines(place / "records", b'"event":"close"')
    if "opensearch" in outputs:
        row["documents"] = count_lines(place / "spool", b'"event":"close"') if documents is None else documents
    if "trace" in outputs:
        row["traced"] = count_lines(place / "trace", b'"close"')
    if "access-log" in outputs:
        row["logged"] = (place / "log").read_bytes().count(b"forebay::access")
    return row


def count_lines(directory: Path, part: bytes) -> int:
    """Lines with a text."""
    return sum(line.count(part) > 0 for path in directory.glob("*.jsonl") for line in path.read_bytes().splitlines())


def summary(rows: list[dict[str, object]]) -> str:
    """Medians as a table."""
    by_round = {(row["round"], row["setup"]): float(str(row["cpu_us"])) for row in rows}
    lines = [
        "| set-up | opens and closes per second | CPU µs of each | outputs, µs | of a core at 10,000/s | missing |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for setup in SETUPS:
        of = [row for row in rows if row["setup"] == setup]
        rate = statistics.median(OPERATIONS / float(str(row["seconds"])) for row in of)
        cpu = statistics.median(float(str(row["cpu_us"])) for row in of)
        more = statistics.median(by_round[row["round"], setup] - by_round[row["round"], "none"] for row in of)
        alone = "" if setup == "none" else f"{more:.2f}"
        share = "" if setup == "none" else f"{more * RATE / 1e4:.1f} %"
        missing = sum(int(str(row["missing"])) for row in of)
        lines.append(f"| {setup} | {rate:,.0f} | {cpu:.1f} | {alone} | {share} | {missing} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures, and writes rows and summary."""
    place = Path(tempfile.mkdtemp(prefix="outputs-", dir="/dev/shm"))
    rows = []
    try:
        subprocess.run(
            [LOAD, "make-store", place / "store", "--files", str(FILES)], check=True, stdout=subprocess.DEVNULL
        )
        for number in range(ROUNDS):
            names = list(SETUPS)
            # Another order in each round.
            for setup in names[number % len(names) :] + names[: number % len(names)]:
                rows.append({"round": number, **measure(setup, place)})
                print(rows[-1], flush=True)
    finally:
        shutil.rmtree(place)
    text = summary(rows)
    print(text)
    if len(sys.argv) > 1:
        target = Path(sys.argv[1])
        target.mkdir(parents=True, exist_ok=True)
        with (target / "rows.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        (target / "summary.md").write_text(text)
    if any(row["missing"] or row["dropped"] for row in rows):
        sys.exit("something was lost: see the columns `missing` and `dropped`")


if __name__ == "__main__":
    main()
