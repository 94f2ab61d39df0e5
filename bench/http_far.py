#!/usr/bin/env python3
"""Cold files of an HTTPS origin over an emulated path of 50 ms: direct, and through Forebay.

A whole file with curl, random reads of 32 KiB over one connection, and 64 ranges in one request. Client and server
speak HTTPS in both ways. It starts `forebay-wan up` (needs root) with paths `client:cache`, `cache:origin` and
`client:origin`, and itself in there. Each measurement begins with a new cache that has read one small file: it has one
connection to the origin. All data is in memory (/dev/shm). Rows are appended to rows.csv in DIRECTORY, and their
summary is printed.

    cargo build --release -p forebay -p forebay-bench
    bench/http_far.py DIRECTORY
"""

from __future__ import annotations

import argparse
import csv
import http.client
import os
import random
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from root_lab import Lab, plan_of, stop, wait_for_port

ROUND_TRIP_MS = 50
ROUNDS = 5
FILE_LEN = 64 << 20
READS, READ_LEN = 100, 32 << 10
PARTS, PART_LEN = 64, 16 << 10
PORT = 21443
FIELDS = ("round", "row", "way", "seconds")
NGINX = """
worker_processes 1;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/f;
  uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
  ssl_certificate {place}/tls/host.pem; ssl_certificate_key {place}/tls/host.key; ssl_protocols TLSv1.3;
  server {{ listen {port} ssl; root {place}/data; }}
}}
"""
FOREBAY = """
[server]
listen = ["0.0.0.0:{port}"]
[tls]
certificate = "{place}/tls/host.pem"
key = "{place}/tls/host.key"
ca_dir = "{place}/tls"
policy = "capable"
[store]
path = "{place}/store"
[[export]]
path = "/"
origins = ["https://{origin}:{port}"]
"""


def certificates(place: Path, addresses: list[str]) -> None:
    """An authority, and a certificate of it for all hosts."""
    tls = place / "tls"
    tls.mkdir()

    def openssl(*arguments: str | Path) -> str:
        done = subprocess.run(["openssl", *arguments], check=True, capture_output=True, text=True, cwd=tls)
        return done.stdout.strip()

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *key, "-subj", "/CN=host", "-keyout", "host.key", "-out", "host.csr")
    (tls / "names").write_text("subjectAltName=" + ",".join(f"IP:{address}" for address in addresses))
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    openssl("x509", "-req", "-in", "host.csr", *signed, "-out", "host.pem")
    (tls / f"{openssl('x509', '-in', 'ca.pem', '-noout', '-hash')}.0").symlink_to("ca.pem")


@contextmanager
def running(lab: Lab, host: str, command: list[str]) -> Iterator[None]:
    """A server on a host of the network."""
    server = lab.start(host, command, f"{host}.log")
    try:
        wait_for_port(lab.address(host, "client"), PORT)
        yield
    finally:
        stop(server)


def whole(place: Path, address: str, file: str, length: int) -> float:
    """Seconds of curl for a file."""
    url = f"https://{address}:{PORT}/{file}"
    written = "%{time_total} %{size_download}"
    command = ["curl", "-sSf", "--cacert", place / "tls/ca.pem", "-o", "/dev/null", "-w", written, url]
    seconds, received = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(received) == length, received
    return float(seconds)


def connect(place: Path, address: str, file: Path) -> None:
    """Has the cache read a file that it does not have: it keeps the connection to the origin."""
    file.write_bytes(b"x")
    whole(place, address, file.name, 1)


def asked(client: http.client.HTTPSConnection, file: str, ranges: list[tuple[int, int]]) -> bytes:
    """The body of an answer to a request for ranges."""
    listed = ",".join(f"{first}-{first + length - 1}" for first, length in ranges)
    client.request("GET", f"/{file}", headers={"Range": f"bytes={listed}"})
    answer = client.getresponse()
    assert answer.status == 206, answer.status
    return answer.read()


def ranges_of(place: Path, address: str, file: str, seed: int) -> tuple[float, float]:
    """Seconds of random reads from the connection on, and of the 64 ranges that follow."""
    content = (place / "data" / file).read_bytes()
    client = http.client.HTTPSConnection(address, PORT, context=ssl.create_default_context(cafile=place / "tls/ca.pem"))
    chance = random.Random(seed)
    places = [chance.randrange(FILE_LEN // 2 // READ_LEN) * READ_LEN for _ in range(READS)]
    begin = time.monotonic()
    for first in places:
        assert asked(client, file, [(first, READ_LEN)]) == content[first : first + READ_LEN]
    middle = time.monotonic()
    # In the other half, so that none of them is known.
    step = FILE_LEN // 2 // PARTS
    parts = [(FILE_LEN // 2 + number * step, PART_LEN) for number in range(PARTS)]
    body = asked(client, file, parts)
    end = time.monotonic()
    assert all(content[first : first + length] in body for first, length in parts)
    client.close()
    return middle - begin, end - middle


def measure(place: Path, out: Path) -> None:
    """All rounds, on the hosts of the network."""
    lab = Lab(place, sys.argv[2], sys.argv[3])
    hosts = {"direct": lab.address("origin", "client"), "forebay": lab.address("cache", "client")}
    origin = lab.address("origin", "cache")
    certificates(place, [*hosts.values(), origin])
    (place / "nginx.conf").write_text(NGINX.format(place=place, port=PORT))
    (place / "forebay.toml").write_text(FOREBAY.format(place=place, port=PORT, origin=origin))
    data = place / "data"
    data.mkdir()
    for number in range(ROUNDS):
        for name in ("whole", "ranges"):
            (data / f"{name}-{number}").write_bytes(os.urandom(FILE_LEN))
    nginx = ["nginx", "-c", str(place / "nginx.conf"), "-p", str(place), "-g", "daemon off;"]
    forebay = [lab.forebay, "serve", "--config", str(place / "forebay.toml")]
    small = (data / f"small-{number}" for number in count())
    with running(lab, "origin", nginx), out.open("a", newline="") as file:
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(FIELDS)
        for number in range(ROUNDS):
            for way, address in hosts.items():
                with running(lab, "cache", forebay):
                    connect(place, address, next(small))
                    seconds = whole(place, address, f"whole-{number}", FILE_LEN)
                with running(lab, "cache", forebay):
                    connect(place, address, next(small))
                    reads, vector = ranges_of(place, address, f"ranges-{number}", number)
                for row, value in (("whole file", seconds), ("random reads", reads), ("64 ranges", vector)):
                    writer.writerow([number, row, way, round(value, 4)])
                file.flush()


def summary(rows: list[dict[str, str]]) -> str:
    """Medians of the rounds, and the rate of the cache as a ratio to that of the origin itself."""
    titles = {
        "whole file": f"file of {FILE_LEN >> 20} MiB",
        "random reads": f"{READS} random reads of {READ_LEN >> 10} KiB",
        "64 ranges": f"{PARTS} ranges of {PART_LEN >> 10} KiB in one request",
    }
    lines = ["| cold, 50 ms | direct, s | Forebay, s | rate | round trips |", "|---|---|---|---|---|"]
    for row, title in titles.items():
        direct, forebay = (
            statistics.median(float(each["seconds"]) for each in rows if (each["row"], each["way"]) == (row, way))
            for way in ("direct", "forebay")
        )
        trips = forebay * 1000 / ROUND_TRIP_MS
        lines.append(f"| {title} | {direct:.3f} | {forebay:.3f} | {direct / forebay:.2f} | {trips:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures, and writes rows and summary."""
    if "FOREBAY_WAN" in os.environ:
        measure(Path(sys.argv[4]), Path(sys.argv[1]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where rows.csv and summary.md go")
    built = Path(__file__).parents[1] / "target/release"
    parser.add_argument("--binary", type=Path, default=built / "forebay", help="the binary of Forebay")
    parser.add_argument("--wan", type=Path, default=built / "forebay-wan", help="the program that emulates networks")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    out = (options.directory / "rows.csv").resolve()
    place = Path(tempfile.mkdtemp(prefix="http-far-", dir="/dev/shm"))
    place.chmod(0o755)
    try:
        (place / "lab.toml").write_text(plan_of(str(ROUND_TRIP_MS)))
        inside = [sys.executable, __file__, out, options.binary.resolve(), options.wan.resolve(), place]
        subprocess.run([options.wan, "up", "--file", place / "lab.toml", "--", *inside], check=True)
    finally:
        for log in sorted(place.glob("*.log")):
            sys.stderr.write(f"{log.name}: {log.read_text(errors='replace')[-300:]}\n" if sys.exc_info()[0] else "")
        shutil.rmtree(place)
    with out.open(newline="") as file:
        text = summary(list(csv.DictReader(file)))
    sys.stdout.write(text)
    (options.directory / "summary.md").write_text(text)


if __name__ == "__main__":
    main()
