"""Many clients, three origins (healthy, hanging, sending garbage) and a disk that fills up and is freed.

Clients of the healthy origin must not notice. `make soak-neighbours` runs it for long, with many clients, and records
the latencies, which decide nothing here.
"""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness import forebay, neighbours, xrootd
from harness.forebay import Forebay
from harness.ground import Ground
from harness.loop_disk import LoopDisk
from harness.neighbours import CLIENTS, DISK_MIB, HEALTHY, MIB, PATIENCE_SECONDS, Crowd, Observed

PHASE_SECONDS = float(os.environ.get("NEIGHBOURS_SECONDS", "24")) / 4
MEMORY_MIB = int(os.environ.get("NEIGHBOURS_MEMORY_MIB", "256"))
RECORD = os.environ.get("NEIGHBOURS_RECORD")
PHASES = ("healthy alone", "all origins", "disk full", "disk freed")
# Limits of the origins; without them a hanging origin is given up after ten minutes.
LIMITS = {"first_byte_timeout": "5s", "deadline": "10s"}


@dataclass
class Peaks:
    """The peak of the resident memory of the cache in each phase."""

    phase: str = PHASES[0]
    bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    ended: threading.Event = field(default_factory=threading.Event)

    def observe(self, cache: Forebay) -> None:
        """Keeps the peaks until the end."""
        status = Path(f"/proc/{cache.process.pid}/status")
        while not self.ended.wait(0.2):
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
            resident = int(lines["VmRSS"].split()[0]) * 1024
            self.bytes[self.phase] = max(resident, self.bytes[self.phase])


@pytest.fixture
def origins(ground: Ground) -> Iterator[dict[str, str]]:
    """The three origins, by the directory that they serve."""
    directory = ground.directory("healthy-origin")
    for path, content in HEALTHY.items():
        content.write(directory / path[1:])
    healthy = xrootd.plain(ground, directory)
    with neighbours.faulty_origins() as faulty:
        yield {"/healthy": healthy.url, **faulty}
    healthy.stop()


@pytest.fixture
def disk(ground: Ground) -> Iterator[LoopDisk]:
    """The disk of the cache."""
    disk = LoopDisk.make(ground, "neighbours", DISK_MIB * MIB, ["-m", "0"])
    yield disk
    disk.unmount()


def summary(observed: Observed, peaks: Peaks) -> dict[str, object]:
    """For each phase: reads, percentiles of their time, and peak memory."""
    phases = {
        phase: {
            "reads": len(observed.latencies[phase]),
            **observed.percentiles(phase),
            "slow_by_second": observed.slow_by_second(phase),
            "resident_peak_mib": peaks.bytes[phase] >> 20,
        }
        for phase in PHASES
    }
    setup = {"clients": CLIENTS, "seconds": 4 * PHASE_SECONDS, "disk_mib": DISK_MIB, "memory_mib": MEMORY_MIB}
    return {**setup, "phases": phases, "refused": dict(observed.refused), "failures": observed.failures[:20]}


@pytest.mark.timeout(4 * PHASE_SECONDS + 2 * PATIENCE_SECONDS)
def test_clients_of_a_healthy_origin_notice_no_other(ground: Ground, origins: dict[str, str], disk: LoopDisk) -> None:
    store, peaks, observed = disk.path / "store", Peaks(), Observed()
    configuration = {
        "server": {"listen": ["127.0.0.1:0"]},
        "admin": {"listen": "127.0.0.1:0"},
        "store": {"path": str(store), "block_size": "64KiB"},
        "memory": {"budget": f"{MEMORY_MIB}MiB"},
        "origin": LIMITS,
        "export": [{"path": path, "origins": [url]} for path, url in origins.items()],
    }
    path = forebay.write_configuration(ground, configuration)
    with ExitStack() as stack:
        cache = stack.enter_context(Forebay(ground, ["--config", str(path)], store=store, admin=True))
        observer = threading.Thread(target=peaks.observe, args=(cache,))
        observer.start()
        stack.callback(observer.join)
        stack.callback(peaks.ended.set)
        crowds: list[Crowd] = []

        def gather(client: neighbours.Client, count: int, yielding: int) -> None:
            crowd = Crowd(client, count, (cache.host, cache.port), peaks.phase, yielding=yielding)
            crowds.append(stack.enter_context(crowd))

        def spend(phase: str) -> None:
            """Lets the clients read for the time of a phase."""
            peaks.phase = phase
            for crowd in crowds:
                crowd.enter(phase)
            peaks.ended.wait(PHASE_SECONDS)

        gather(neighbours.read_healthy, CLIENTS * 3 // 5, 0)
        spend(PHASES[0])
        gather(neighbours.read_faulty, CLIENTS * 2 // 5, neighbours.YIELDING)
        spend(PHASES[1])
        disk.fill()
        spend(PHASES[2])
        disk.free()
        spend(PHASES[3])
        for crowd in crowds:
            observed.take(crowd.end())
        hits = cache.metrics().client_bytes()["hit"]
    result = summary(observed, peaks)
    print(json.dumps(result, indent=2))
    if RECORD:
        Path(RECORD).write_text(json.dumps(result, indent=2) + "\n")
    assert not observed.failures, observed.failures[:5]
    assert observed.refused
    assert hits > 0
    assert max(peaks.bytes.values()) <= 1.2 * MEMORY_MIB * MIB
