"""Purge under load: the budget holds, no read fails, no byte is wrong. `make soak-purge` runs it in earnest."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import forebay
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.waiting import until

MIB = 1 << 20
BUDGET_MIB = int(os.environ.get("PURGE_BUDGET_MIB", "64"))
WORKING_SET_MIB = int(os.environ.get("PURGE_WORKING_SET_MIB", "96"))
CLIENTS = int(os.environ.get("PURGE_CLIENTS", "16"))
SECONDS = float(os.environ.get("PURGE_SECONDS", "12"))
FILE_MIB = 2
READ = MIB
HIGH, LOW = 0.90, 0.80
# How often it is looked how much the cache takes while the clients read.
SAMPLE_SECONDS = 0.2
FILES = {
    f"/set/{n % 16:02}/{n:05}.bin": Pattern(FILE_MIB * MIB - 777 * n, n) for n in range(WORKING_SET_MIB // FILE_MIB)
}


@pytest.fixture
def origin(ground: Ground) -> Iterator[Forebay]:
    """A server of the whole working set."""
    exported = ground.directory("exported")
    for path, content in FILES.items():
        content.write(exported / path[1:])
    arguments = ["--listen", "127.0.0.1:0", "--export-dir", str(exported)]
    with Forebay(ground, arguments, name="origin") as server:
        yield server


def taken(store: Path) -> int:
    """Bytes that data files and records take on disk."""
    total = 0
    for directory, _, names in os.walk(store):
        if ".forebay" in directory:
            continue
        for name in names:
            try:
                total += (Path(directory) / name).stat().st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def read_for_long(cache: Forebay, seed: int, end: float, failures: list[str]) -> None:
    """One client: opens files at random and reads pieces of them."""
    choice = random.Random(seed)
    paths = list(FILES)
    try:
        with cache.client() as client:
            while time.monotonic() < end:
                path = paths[min(int(choice.expovariate(3) * len(paths)), len(paths) - 1)]
                content = FILES[path]
                handle = client.open(path)
                for _ in range(2):
                    offset = choice.randrange(content.size)
                    assert_same(client.read(handle, offset, READ).ok(), content.read(offset, READ), path)
                client.close_file(handle).ok()
    except Exception as error:  # A thread's failure is the test's.
        failures.append(f"client {seed}: {error!r}")


@pytest.mark.timeout(SECONDS + 240)
def test_budget_holds_under_load(ground: Ground, origin: Forebay) -> None:
    purge = {"budget": f"{BUDGET_MIB}MiB", "high": f"{HIGH:.0%}", "low": f"{LOW:.0%}", "interval": "1s"}
    with forebay.configured(ground, {"export": [{"path": "/", "origins": [origin.url]}], "purge": purge}) as cache:
        end, failures = time.monotonic() + SECONDS, list[str]()
        arguments = [(cache, seed, end, failures) for seed in range(CLIENTS)]
        clients = [threading.Thread(target=read_for_long, args=each) for each in arguments]
        for client in clients:
            client.start()
        peak = 0
        for client in clients:
            while client.is_alive():
                peak = max(peak, taken(cache.data))
                client.join(SAMPLE_SECONDS)
        assert not failures, failures
        metrics = until(lambda: (now := cache.metrics()).total("forebay_budget_used_bytes") == 0 and now, "fills end")
        got = metrics.client_bytes()
        purged = metrics.total("forebay_purged_files_total", reason="space")
        ran = f"peak {peak / MIB:.1f} MiB of {BUDGET_MIB}, {purged:.0f} files purged, MiB: "
        print(ran + ", ".join(f"{outcome} {count / MIB:.0f}" for outcome, count in got.items()))
        # Data in transit when the watermark is reached is written after it.
        assert peak <= HIGH * BUDGET_MIB * MIB + CLIENTS * 2 * READ
        assert purged > 0
        assert got["hit"] > 0
        until(lambda: taken(cache.data) <= HIGH * BUDGET_MIB * MIB, "use is below the high mark")
