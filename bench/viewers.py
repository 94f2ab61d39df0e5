#!/usr/bin/env python3
"""The cost of viewers of the status page: the processor time of an idle cache with and without eight open pages.

A viewer has loaded the overview with its assets and its history, and follows the live values, as a browser does. Slices
with and without viewers take turns.

    cargo build --release -p forebay
    bench/viewers.py [DIRECTORY FOR ROWS AND SUMMARY]
"""

from __future__ import annotations

import csv
import http.client
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from crc32c import crc32c

FOREBAY = Path(os.environ.get("FOREBAY", Path(__file__).parents[1] / "target/release/forebay"))
VIEWERS = 8
ROUNDS, SECONDS = 5, 30.0
SERIES = 12
# Ranges of the history: step and number of points.
RINGS = ((5, 720), (60, 1440), (3600, 2160))


def history() -> bytes:
    """A history that is full, so that pages are as long as they get."""
    now, content = int(time.time()), b"FBYHIST1"
    for step, count in RINGS:
        content += struct.pack("<I", count)
        first = now - now % step - step * count
        content += b"".join(
            struct.pack(f"<QI{SERIES}f", first + step * number, 1, *[1e6 + number] * SERIES) for number in range(count)
        )
    return content + struct.pack("<I", crc32c(content))


def view(address: str) -> http.client.HTTPConnection:
    """Loads the page, and follows its values; the connection that they come by."""

    def get(path: str) -> bytes:
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return body

    page = get("/").decode()
    for path in re.findall(r'(?:href|src)="(/assets/[^"]+)"', page):
        get(path)
    for name in ("hour", "day", "quarter"):
        get(f"/history.json?range={name}")
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/events")
    return connection


def processor_ns(pid: int) -> int:
    """Processor time of all threads."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def measure(pid: int, address: str, number: int) -> list[dict[str, object]]:
    """A slice with viewers, loading of their pages included, and one without."""
    rows = []
    for viewers in (VIEWERS, 0):
        before, began = processor_ns(pid), time.monotonic()
        connections = [view(address) for _ in range(viewers)]
        time.sleep(SECONDS)
        seconds = time.monotonic() - began
        share = (processor_ns(pid) - before) / 1e9 / seconds
        for connection in connections:
            connection.close()
        rows.append({"round": number, "viewers": viewers, "seconds": round(seconds, 1), "of_a_core": round(share, 5)})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measures, and writes rows and summary."""
    place = Path(tempfile.mkdtemp(prefix="viewers-"))
    (place / "store/.forebay").mkdir(parents=True)
    (place / "store/.forebay/history").write_bytes(history())
    argv = ["serve", "--listen", "127.0.0.1:0", "--origin", "root://127.0.0.1:1", "--store", place / "store"]
    log = place / "log"
    with log.open("wb") as output:
        server = subprocess.Popen([FOREBAY, *argv, "--admin-listen", "127.0.0.1:0"], stdout=output, stderr=output)
    try:
        while not (found := re.search(r"^admin http://(\S+)$", log.read_text(), re.MULTILINE)):
            assert server.poll() is None, log.read_text()
            time.sleep(0.01)
        rows = [row for number in range(ROUNDS) for row in measure(server.pid, found[1], number)]
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(place)
    shares = {
        viewers: statistics.median(float(str(row["of_a_core"])) for row in rows if row["viewers"] == viewers)
        for viewers in (VIEWERS, 0)
    }
    text = (
        "| viewers | of a core |\n|---:|---:|\n"
        + "".join(f"| {viewers} | {share:.2%} |\n" for viewers, share in shares.items())
        + f"\nMedians of {ROUNDS} slices of {SECONDS:.0f} s; the page is loaded once by each viewer in a slice.\n"
    )
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
