#!/usr/bin/env python3
"""HTTP from the page cache: Forebay, XCache with XrdHttp, and nginx (static files, and `slice` with a cache).

Ranges, several ranges, whole files, TLS and HTTP/2; the memory of idle connections. Each server may use both processors; wrk and, for HTTP/2, h2load
(Debian: wrk, nghttp2-client) ask for the same range repeatedly. The processor time of the servers comes from the kernel's accounting. Rounds are interleaved, and each row is appended to rows.csv as it is measured. All data is in memory (/dev/shm).

    cargo build --release -p forebay
    bench/http_compare.py DIRECTORY [--quick] [--binary FOREBAY]
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROUNDS = 5
SECONDS = 1
FILE_LEN = 256 << 20
WHOLE_LEN = 16 << 20
RANGES = {"4 KiB": 4 << 10, "128 KiB": 128 << 10, "1 MiB": 1 << 20}
CONNECTIONS = (1, 8, 64, 256)
PARTS, PART_LEN = 64, 16 << 10
IDLE_CONNECTIONS = 500
USER = 1
"""`daemon`: xrootd refuses to run as root."""
FIELDS = ("round", "row", "connections", "server", "requests", "cpu_us", "p99_us")

NGINX = """
worker_processes 2;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{ worker_connections 2048; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600s;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/f;
  uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
  proxy_cache_path {place}/slices keys_zone=z:10m max_size=2g;
  ssl_certificate {place}/cert.pem; ssl_certificate_key {place}/key.pem; ssl_protocols TLSv1.3;
  server {{ listen 127.0.0.1:28081; listen 127.0.0.1:28181 ssl http2; root {data}; }}
  server {{ listen 127.0.0.1:28082; listen 127.0.0.1:28182 ssl http2; location / {{
    slice 1m; proxy_cache z; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range;
    proxy_cache_valid 200 206 1h; proxy_http_version 1.1; proxy_pass http://127.0.0.1:28081; }} }}
}}
"""

ORIGIN = """
all.export / r/o
oss.localroot {data}
all.adminpath {place}/origin
all.pidpath {place}/origin
"""

XCACHE = """
all.export /
xrd.protocol http:28083 libXrdHttp.so
xrd.tls {place}/xcache-cert.pem {place}/xcache-key.pem
xrd.tlsca noverify
http.selfhttps2http no
ofs.osslib libXrdPss.so
pss.cachelib libXrdPfc.so
pss.origin 127.0.0.1:28090
oss.localroot {place}/xcache
pfc.ram 1g
pfc.prefetch 0
all.adminpath {place}/xcache-admin
all.pidpath {place}/xcache-admin
"""

FOREBAY = """
[server]
listen = ["127.0.0.1:28080"]
[tls]
certificate = "{place}/cert.pem"
key = "{place}/key.pem"
policy = "capable"
[store]
path = "{place}/forebay"
[[export]]
path = "/"
origins = ["root://127.0.0.1:28090"]
"""


@dataclass
class Server:
    """A running server."""

    name: str
    port: int
    tls_port: int
    pids: list[int] = field(default_factory=list)

    def processor_ns(self) -> int:
        """Processor time of all threads."""
        total = 0
        for pid in self.pids:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                # A thread may end meanwhile.
                with suppress(FileNotFoundError):
                    total += int((thread / "schedstat").read_text().split()[0])
        return total

    def memory(self) -> int:
        """Bytes that are its own."""
        found = [
            re.search(r"Private_Dirty:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text()) for pid in self.pids
        ]
        return sum(int(match[1]) << 10 for match in found if match)


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
    """Runs a load; the number of requests that were answered, and the 99th percentile of their times in microseconds."""
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


def certificates(place: Path) -> None:
    """A P-256 certificate for all servers; xrootd wants files of its own."""
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    files = ["-subj", "/CN=localhost", "-keyout", str(place / "key.pem"), "-out", str(place / "cert.pem")]
    subprocess.run([*argv, *files], check=True, capture_output=True)
    for kind in ("cert", "key"):
        copy = place / f"xcache-{kind}.pem"
        shutil.copy(place / f"{kind}.pem", copy)
        copy.chmod(0o400)
        as_daemon(copy)


def as_daemon(path: Path) -> None:
    """Gives a file or directory to the user of xrootd."""
    if os.geteuid() == 0:
        os.chown(path, USER, USER)


def started(argv: list[str | Path], port: int, log: Path, *, is_xrootd: bool = False) -> subprocess.Popen[bytes]:
    """A process that listens."""
    user = {"user": USER, "group": USER} if is_xrootd and os.geteuid() == 0 else {}
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out, **user)  # type: ignore[call-overload]
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return process  # type: ignore[no-any-return]
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise TimeoutError(log.read_text())


def workers_of(pid: int) -> list[int]:
    """The workers of nginx. The loader of its cache ends after a minute."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if b"worker process" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextmanager
def servers(place: Path, binary: Path) -> Iterator[list[Server]]:
    """All servers, and the origins of the caches."""
    data = place / "data"
    data.mkdir()
    (data / "file").write_bytes(os.urandom(1 << 20) * (FILE_LEN >> 20))
    (data / "whole").write_bytes(os.urandom(1 << 20) * (WHOLE_LEN >> 20))
    certificates(place)
    for name in ("origin", "xcache", "xcache-admin"):
        (place / name).mkdir()
        as_daemon(place / name)
    for name, text in {"nginx": NGINX, "origin": ORIGIN, "xcache": XCACHE, "forebay": FOREBAY}.items():
        (place / f"{name}.conf").write_text(text.format(place=place, data=data))
    processes = []
    try:
        nginx = ["nginx", "-c", place / "nginx.conf", "-p", place, "-g", "daemon off;"]
        processes.append(started(nginx, 28081, place / "nginx.log"))
        origin = ["xrootd", "-c", place / "origin.conf", "-p", "28090"]
        processes.append(started(origin, 28090, place / "origin.log", is_xrootd=True))
        xcache = ["xrootd", "-c", place / "xcache.conf", "-p", "28093"]
        processes.append(started(xcache, 28083, place / "xcache.log", is_xrootd=True))
        forebay = [binary, "serve", "--config", place / "forebay.conf"]
        processes.append(started(forebay, 28080, place / "forebay.log"))
        workers = workers_of(processes[0].pid)
        yield [
            Server("forebay", 28080, 28080, [processes[3].pid]),
            Server("xcache", 28083, 28083, [processes[2].pid]),
            Server("nginx slice", 28082, 28182, workers),
            Server("nginx static", 28081, 28181, workers),
        ]
    finally:
        for process in reversed(processes):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


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
        for server in running:
            add(0, "bytes of an idle connection", IDLE_CONNECTIONS, server.name, "", round(idle_memory(server)), "")
    return measured


def summary(measured: list[dict[str, object]]) -> str:
    """Medians of processor time and of the 99th percentile, in microseconds, as a table."""
    names = ["forebay", "xcache", "nginx slice", "nginx static"]
    heads = [f"{name} {kind}" for kind in ("CPU", "p99") for name in names]
    lines = ["| row | connections | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for name, connections in dict.fromkeys((str(row["row"]), row["connections"]) for row in measured):
        cells = []
        for kind in ("cpu_us", "p99_us"):
            for server in names:
                values = [
                    float(str(row[kind]))
                    for row in measured
                    if (row["row"], row["connections"], row["server"]) == (name, connections, server)
                    and row[kind] != ""
                ]
                cells.append(f"{statistics.median(values):.1f}" if values else "–")
        lines.append(f"| {name} | {connections} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


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
