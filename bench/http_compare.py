#!/usr/bin/env python3
"""HTTP from the page cache: Forebay, XCache with XrdHttp, and nginx (static files, and `slice` with a cache).

Ranges, several ranges, whole files, TLS and HTTP/2; files that the caches do not have; the memory of idle connections.
Each server may use both processors; wrk and, for HTTP/2, h2load (Debian: wrk, nghttp2-client) ask for the same range
repeatedly. The processor time of the servers comes from the kernel's accounting. Rounds are interleaved, and each row
is appended to rows.csv as it is measured. All data is in memory (/dev/shm).

    cargo build --release -p forebay
    bench/http_compare.py DIRECTORY [--quick] [--binary FOREBAY]
"""

from __future__ import annotations

import argparse
import csv
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from http_cold import COLD_ROW, measured_cold
from http_servers import Server, servers
from http_table import summary

ROUNDS = 5
SECONDS = 1
RANGES = {"4 KiB": 4 << 10, "128 KiB": 128 << 10, "1 MiB": 1 << 20}
CONNECTIONS = (1, 8, 64, 256)
PARTS, PART_LEN = 64, 16 << 10
IDLE_CONNECTIONS = 2000
FIELDS = ("round", "row", "connections", "server", "requests", "cpu_us", "p99_us")


@dataclass(frozen=True)
class Row:
    """A load, and the servers that answer it."""

    name: str
    connections: int
    file: str
    ranges: str | None
    streams: int | None = None
    """Requests at the same time over HTTP/2; over HTTP/1.1 if it is not set."""
    is_tls: bool = False
    without: tuple[str, ...] = ()


def span(first: int, length: int) -> str:
    """A range of bytes."""
    return f"{first}-{first + length - 1}"


def rows(*, is_quick: bool) -> list[Row]:
    """All loads."""
    counts = (8,) if is_quick else CONNECTIONS
    some = {name: f"bytes={span(17 << 20, length)}" for name, length in RANGES.items()}
    # XrdHttp has no HTTP/2.
    h2 = ("xcache",)
    parts = "bytes=" + ",".join(span(number << 20, PART_LEN) for number in range(PARTS))
    listed = [Row(name, count, "file", asked) for name, asked in some.items() for count in counts]
    # nginx with `slice` answers several ranges with the whole file.
    listed += [Row("64 x 16 KiB", count, "file", parts, without=("nginx slice",)) for count in counts[:2]]
    listed += [Row("16 MiB file", count, "whole", None) for count in counts[:2]]
    for name, asked in some.items():
        listed.append(Row(f"{name}, TLS", 8, "file", asked, is_tls=True))
        listed.append(Row(f"{name}, HTTP/2", 8, "file", asked, 1, is_tls=True, without=h2))
        listed.append(Row(f"{name}, HTTP/2, 8 streams", 1, "file", asked, 8, is_tls=True, without=h2))
    return listed


UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def load(row: Row, server: Server, place: Path) -> tuple[int, float]:
    """Runs a load; the number of answers, and the 99th percentile of their times in microseconds."""
    scheme, port = ("https", server.tls_port) if row.is_tls else ("http", server.port)
    # XrdHttp 5.5.3 does not know `range` in lower case, as h2load writes it.
    asked = [] if row.ranges is None else ["-H", f"Range: {row.ranges}"]
    url = f"{scheme}://127.0.0.1:{port}/{row.file}"
    if row.streams is None:
        command = ["wrk", "-t1", f"-c{row.connections}", f"-d{SECONDS}s", "--latency", *asked, url]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        count, p99 = re.search(r"(\d+) requests in", shown), re.search(r"99%\s+([\d.]+)(us|ms|s)\b", shown)
        assert count is not None, shown
        assert p99 is not None, shown
        assert "Non-2xx" not in shown, (row, server.name, shown)
        return int(count[1]), float(p99[1]) * UNITS[p99[2]]
    log = place / "h2load.log"
    command = [
        "h2load",
        f"-m{row.streams}",
        "-t1",
        f"-c{row.connections}",
        f"-D{SECONDS}",
        f"--log-file={log}",
        *asked,
        url,
    ]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    count = re.search(r"(\d+) succeeded, 0 failed", shown)
    assert count is not None, (row, server.name, shown)
    times = sorted(int(line.split("\t")[2]) for line in log.read_text().splitlines())
    log.unlink()
    return int(count[1]), float(times[int(len(times) * 0.99)])


def idle_memory(server: Server) -> float:
    """Bytes per connection that has had one answer and waits."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before, held = server.memory(), []
    for _ in range(IDLE_CONNECTIONS):
        client = socket.create_connection(("127.0.0.1", server.port), 10)
        client.sendall(b"GET /file HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4095\r\n\r\n")
        received = b""
        while b"\r\n\r\n" not in received or len(received.split(b"\r\n\r\n", 1)[1]) < 4096:
            received += client.recv(64 << 10)
        held.append(client)
    # Open files are closed after five seconds, and buffers given back.
    time.sleep(7)
    used = server.memory() - before
    for client in held:
        client.close()
    return used / IDLE_CONNECTIONS


def measure(place: Path, binary: Path, out: Path, *, is_quick: bool) -> list[dict[str, object]]:
    """All rows, appended to `out` as they are measured."""
    measured: list[dict[str, object]] = []
    with servers(place, binary) as running, out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if file.tell() == 0:
            writer.writeheader()

        def add(*values: object) -> None:
            row = dict(zip(FIELDS, values, strict=True))
            measured.append(row)
            writer.writerow(row)
            file.flush()

        listed = rows(is_quick=is_quick)
        for server in running:
            # Both files into the caches, in order; nginx needs the slices once.
            for name in ("file", "whole"):
                subprocess.run(["curl", "-sSfo", "/dev/null", f"http://127.0.0.1:{server.port}/{name}"], check=True)
        for number in range(1 if is_quick else ROUNDS):
            for row in listed:
                for server in running:
                    if server.name in row.without:
                        continue
                    before = server.processor_ns()
                    count, p99 = load(row, server, place)
                    spent = (server.processor_ns() - before) / count / 1000
                    add(number, row.name, row.connections, server.name, count, round(spent, 2), p99)
        for server, spent, elapsed in measured_cold(running):
            add(0, COLD_ROW, 1, server.name, 1, round(spent, 2), round(elapsed, 2))
        for server in running:
            add(0, "bytes of an idle connection", IDLE_CONNECTIONS, server.name, "", round(idle_memory(server)), "")
    return measured


def main() -> None:
    """Measures, and writes rows and summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where rows.csv and summary.md go")
    parser.add_argument("--quick", action="store_true", help="one round with eight connections")
    default = Path(__file__).parents[1] / "target/release/forebay"
    parser.add_argument("--binary", type=Path, default=default, help="the binary of Forebay")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="http-compare-", dir="/dev/shm"))
    place.chmod(0o755)
    try:
        measured = measure(place, options.binary.resolve(), options.directory / "rows.csv", is_quick=options.quick)
    finally:
        for log in sorted(place.glob("*.log")):
            sys.stderr.write(f"{log.name}: {log.read_text(errors='replace')[-300:]}\n" if sys.exc_info()[0] else "")
        shutil.rmtree(place)
    text = summary(measured)
    sys.stdout.write(text)
    (options.directory / "summary.md").write_text(text)


if __name__ == "__main__":
    main()
