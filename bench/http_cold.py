"""The cold part of `http_compare.py`: files that a cache does not have are read once, in order."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

from http_servers import COLD_FILES, COLD_LEN, Server

COLD_ROW = "16 MiB file, cold"
CACHES = ("forebay", "xcache", "nginx slice")


def measured_cold(servers: list[Server]) -> Iterator[tuple[Server, float, float]]:
    """Reads each cold file through each cache; the cache, its processor time and the elapsed time, in microseconds.

    The caches take turns. Writes that follow the answer count for the next file of the same cache.
    """
    caches = [server for server in servers if server.name in CACHES]
    for number in range(COLD_FILES):
        for server in caches:
            before, start = server.processor_ns(), time.monotonic()
            url = f"http://127.0.0.1:{server.port}/cold-{number}"
            shown = subprocess.run(
                ["curl", "-sSfo", "/dev/null", "-w", "%{size_download}", url],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            elapsed = time.monotonic() - start
            assert int(shown) == COLD_LEN, (server.name, shown)
            yield server, (server.processor_ns() - before) / 1000, elapsed * 1e6
