#!/usr/bin/env python3
"""Ranges over HTTP from the page cache: Forebay and nginx, static files and `slice` with a cache.

Each server has two worker threads; h2load (Debian: nghttp2-client) asks for one range repeatedly. The processor
time of the servers comes from the kernel's accounting. Rounds are interleaved; the summary has medians.

    cargo build --release
    bench/http_ranges.py [DIRECTORY FOR ROWS AND SUMMARY]
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
FILE_LEN = 256 << 20
RANGES = {"4 KiB": 4 << 10, "128 KiB": 128 << 10, "1 MiB": 1 << 20}
CONNECTIONS = (1, 8, 64)
SECONDS = 1
FOREBAY = Path(__file__).parents[1] / "target/release/forebay"
PORTS = {"forebay": 28080, "nginx static": 28081, "nginx slice": 28082}

NGINX = """
worker_processes 2;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/f;
  uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
  proxy_cache_path {place}/cache keys_zone=z:10m max_size=2g;
  server {{ listen 127.0.0.1:28081; root {data}; }}
  server {{ listen 127.0.0.1:28082; location / {{
    slice 1m; proxy_cache z; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range;
    proxy_cache_valid 200 206 1h; proxy_http_version 1.1; proxy_pass http://127.0.0.1:28081; }} }}
}}
"""


def processor_ns(pids: list[int]) -> int:
    """Processor time of all threads of the processes."""
    total = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
    return total


def load(port: int, length: int, connections: int) -> int:
    """Runs the load, and returns the number of requests that were answered."""
    url = f"http://127.0.0.1:{port}/file"
    span = f"range: bytes={17 << 20}-{(17 << 20) + length - 1}"
    command = ["h2load", "--h1", "-t1", f"-c{connections}", f"-D{SECONDS}", "-H", span, url]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"(\d+) succeeded, (\d+) failed", shown)
    assert found is not None, shown
    assert found[2] == "0", shown
    return int(found[1])


def nginx_pids(place: Path) -> list[int]:
    """The workers of nginx."""
    master = (place / "nginx.pid").read_text().strip()
    return [int(pid) for pid in Path(f"/proc/{master}/task/{master}/children").read_text().split()]


def measure(place: Path) -> list[dict[str, object]]:
    """All rows."""
    data = place / "data"
    data.mkdir()
    (data / "file").write_bytes(os.urandom(1 << 20) * (FILE_LEN >> 20))
    (place / "nginx.conf").write_text(NGINX.format(place=place, data=data))
    subprocess.run(["nginx", "-c", place / "nginx.conf", "-p", place], check=True)
    arguments = ["serve", "--listen", f"127.0.0.1:{PORTS['forebay']}", "--export-dir", data]
    environment = {**os.environ, "TOKIO_WORKER_THREADS": "2"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    forebay = subprocess.Popen([FOREBAY, *arguments], env=environment, **quiet)
    rows: list[dict[str, object]] = []
    try:
        time.sleep(1)
        pids = {"forebay": [forebay.pid], "nginx static": nginx_pids(place), "nginx slice": nginx_pids(place)}
        for port in PORTS.values():
            load(port, 1 << 20, 1)
        for number in range(ROUNDS):
            for name, length in RANGES.items():
                for connections in CONNECTIONS:
                    for server, port in PORTS.items():
                        before = processor_ns(pids[server])
                        count = load(port, length, connections)
                        spent = processor_ns(pids[server]) - before
                        micros = round(spent / count / 1000, 2)
                        rows.append(
                            {
                                "round": number,
                                "range": name,
                                "connections": connections,
                                "server": server,
                                "requests": count,
                                "cpu_us": micros,
                            }
                        )
    finally:
        forebay.terminate()
        subprocess.run(["nginx", "-c", place / "nginx.conf", "-p", place, "-s", "stop"], check=False)
    return rows


def summary(rows: list[dict[str, object]]) -> str:
    """Medians as a table."""
    lines = [
        "| range | connections | forebay | nginx static | nginx slice | of static | of slice |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in RANGES:
        for connections in CONNECTIONS:
            of = {
                server: statistics.median(
                    float(str(row["cpu_us"]))
                    for row in rows
                    if (row["range"], row["connections"], row["server"]) == (name, connections, server)
                )
                for server in PORTS
            }
            mine, static, sliced = (of[server] for server in PORTS)
            lines.append(
                f"| {name} | {connections} | {mine:.1f} | {static:.1f} | {sliced:.1f} "
                f"| {mine / static:.2f} | {mine / sliced:.2f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures, and writes rows and summary."""
    place = Path(tempfile.mkdtemp(prefix="http-ranges-", dir="/dev/shm"))
    place.chmod(0o755)
    try:
        rows = measure(place)
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


if __name__ == "__main__":
    main()
