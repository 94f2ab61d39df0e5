"""Many clients, three origins (healthy, hanging, sending garbage) and a disk that fills up and is freed.

Clients of the healthy origin must not notice. `make soak-neighbours` runs it for long, with many clients, and records
the latencies, which decide nothing here.
"""

from __future__ import annotations

import json
import os
import random
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness import faults, forebay, xrootd
from harness.content import Pattern, assert_same, first_difference
from harness.forebay import Forebay
from harness.ground import Ground
from harness.loop_disk import LoopDisk
from harness.raw_client import Closed, RawClient
from harness.scripted import Exchange, ScriptedOrigin
from harness.wire import ProtocolViolation, Request

MIB = 1 << 20
CLIENTS = int(os.environ.get("NEIGHBOURS_CLIENTS", "50"))
PHASE_SECONDS = float(os.environ.get("NEIGHBOURS_SECONDS", "24")) / 4
DISK_MIB = int(os.environ.get("NEIGHBOURS_DISK_MIB", "128"))
MEMORY_MIB = int(os.environ.get("NEIGHBOURS_MEMORY_MIB", "256"))
RECORD = os.environ.get("NEIGHBOURS_RECORD")
# A client reads once in this time.
PACE_SECONDS = float(os.environ.get("NEIGHBOURS_PACE", "0.3"))
FILE = 2 * MIB
READ = 128 << 10
READS_PER_OPEN = 4
# Data of the healthy origin; more than the disk holds.
HEALTHY = {f"/healthy/{n:05}.bin": Pattern(FILE - 777 * (n % 100), n) for n in range(DISK_MIB * 3 // 4)}
HANGING = {f"/hanging/{n}.bin": Pattern(64 * MIB, 50_000 + n) for n in range(50)}
GARBAGE = {f"/garbage/{n}.bin": Pattern(FILE, 60_000 + n) for n in range(50)}
PHASES = ("healthy alone", "all origins", "disk full", "disk freed")
# Limits of the origins; without them a hanging origin is given up after ten minutes.
LIMITS = {"first_byte_timeout": "5s", "deadline": "10s"}
PATIENCE_SECONDS = 90.0


def send_garbage(exchange: Exchange) -> None:
    """Answers a read wrongly: in a page, in the frame, in its length, or with a part of it."""
    kind = exchange.asked.stream_id[0] % 5
    if kind == 0:
        faults.corrupt_page(0)(exchange)
    elif kind == 1:
        exchange.send(random.randbytes(4096))
    elif kind == 2:
        exchange.send(exchange.asked.stream_id + struct.pack(">Hi", 0, -5))
    elif kind == 3:
        faults.die_after(70_000)(exchange)
    else:
        exchange.send(exchange.asked.stream_id + struct.pack(">Hi", 4007, 24) + random.randbytes(24))


@dataclass
class Record:
    """Observations of clients and of the process."""

    phase: str = ""
    latencies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    failures: list[str] = field(default_factory=list)
    resident_peak: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    ended: threading.Event = field(default_factory=threading.Event)

    def summary(self) -> dict[str, object]:
        """For each phase: reads, percentiles of their time, and peak memory."""
        phases = {}
        for phase in PHASES:
            times = sorted(self.latencies[phase])
            at = {f"p{share}_ms": round(1000 * times[len(times) * share // 100], 2) for share in (50, 90, 99)}
            phases[phase] = {"reads": len(times), **at, "resident_peak_mib": self.resident_peak[phase] >> 20}
        setup = {"clients": CLIENTS, "seconds": 4 * PHASE_SECONDS, "disk_mib": DISK_MIB, "memory_mib": MEMORY_MIB}
        return {**setup, "phases": phases, "refused": dict(self.refused), "failures": self.failures[:20]}


@pytest.fixture
def origins(ground: Ground) -> Iterator[dict[str, str]]:
    """The three origins, by the directory that they serve."""
    directory = ground.directory("healthy-origin")
    for path, content in HEALTHY.items():
        content.write(directory / path[1:])
    healthy = xrootd.plain(ground, directory)
    with ScriptedOrigin(HANGING) as hanging, ScriptedOrigin(GARBAGE) as garbage:
        for code in (Request.READ, Request.PGREAD, Request.READV):
            hanging.on(code, faults.stay_silent)
            garbage.on(code, send_garbage)
        yield {"/healthy": healthy.url, "/hanging": hanging.url, "/garbage": garbage.url}
    healthy.stop()


@pytest.fixture
def disk(ground: Ground) -> Iterator[LoopDisk]:
    """The disk of the cache."""
    disk = LoopDisk.make(ground, "neighbours", DISK_MIB * MIB, ["-m", "0"])
    yield disk
    disk.unmount()


def read_healthy(cache: Forebay, record: Record, seed: int) -> None:
    """Reads from the healthy origin: each read succeeds and is right."""
    choice = random.Random(seed)
    paths = list(HEALTHY)
    try:
        with cache.client() as client:
            while not record.ended.is_set():
                path = paths[min(int(choice.expovariate(3) * len(paths)), len(paths) - 1)]
                handle = client.open(path)
                for _ in range(READS_PER_OPEN):
                    offset, phase, start = choice.randrange(HEALTHY[path].size), record.phase, time.monotonic()
                    got = client.read(handle, offset, READ).ok()
                    record.latencies[phase].append(time.monotonic() - start)
                    assert_same(got, HEALTHY[path].read(offset, READ), path)
                    record.ended.wait(PACE_SECONDS * choice.uniform(0.5, 1.5))
                client.close_file(handle).ok()
    except Exception as error:  # A thread's failure is the test's.
        record.failures.append(f"{record.phase}: client {seed}: {error!r}")


def read_faulty(cache: Forebay, record: Record, seed: int, files: dict[str, Pattern], length: int) -> None:
    """Reads from an origin that is faulty: no read succeeds with wrong bytes, none goes without an answer."""
    choice = random.Random(seed)
    while not record.ended.is_set():
        path = choice.choice(list(files))
        try:
            with RawClient(cache.host, cache.port, timeout=PATIENCE_SECONDS) as client:
                opened = client.try_open(path)
                # Without a break the end of the run would find the client in a read.
                client.socket.settimeout(2 * PACE_SECONDS if seed % 2 else PATIENCE_SECONDS)
                answer = opened if opened.error else client.read(opened.body[:4], 0, length)
                if answer.error is None and (difference := first_difference(answer.body, files[path].read(0, length))):
                    record.failures.append(f"{path}: {difference}")
                record.refused[f"{path.split('/')[1]}: {answer.error or 'ok'}"] += 1
        except TimeoutError:
            record.refused["given up"] += 1
            if not seed % 2:
                record.failures.append(f"{path}: no answer within {PATIENCE_SECONDS} s")
        except (Closed, ConnectionError, ProtocolViolation) as error:
            record.refused[type(error).__name__] += 1
        record.ended.wait(PACE_SECONDS)


def observe(cache: Forebay, record: Record) -> None:
    """Keeps the peak of the resident memory of each phase."""
    status = Path(f"/proc/{cache.process.pid}/status")
    while not record.ended.wait(0.2):
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        resident = int(lines["VmRSS"].split()[0]) * 1024
        record.resident_peak[record.phase] = max(resident, record.resident_peak[record.phase])


def spend(record: Record, phase: str) -> None:
    """Lets the clients read for the time of a phase."""
    record.phase = phase
    record.ended.wait(PHASE_SECONDS)


@pytest.mark.timeout(4 * PHASE_SECONDS + 2 * PATIENCE_SECONDS)
def test_clients_of_a_healthy_origin_notice_no_other(ground: Ground, origins: dict[str, str], disk: LoopDisk) -> None:
    record, store = Record(PHASES[0]), disk.path / "store"
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
        stack.callback(record.ended.set)
        threads = [threading.Thread(target=observe, args=(cache, record))]
        threads += [threading.Thread(target=read_healthy, args=(cache, record, n)) for n in range(CLIENTS * 3 // 5)]
        faulty = ((HANGING, 64 * MIB), (GARBAGE, MIB))
        others = [
            threading.Thread(target=read_faulty, args=(cache, record, n, *faulty[n % 2]))
            for n in range(CLIENTS * 2 // 5)
        ]
        for thread in threads:
            thread.start()
        spend(record, PHASES[0])
        for thread in others:
            thread.start()
        spend(record, PHASES[1])
        disk.fill()
        spend(record, PHASES[2])
        disk.free()
        spend(record, PHASES[3])
        record.ended.set()
        for thread in [*threads, *others]:
            thread.join()
        hits = cache.metrics().client_bytes()["hit"]
    summary = record.summary()
    print(json.dumps(summary, indent=2))
    if RECORD:
        Path(RECORD).write_text(json.dumps(summary, indent=2) + "\n")
    assert not record.failures, record.failures[:5]
    assert hits > 0
    assert max(record.resident_peak.values()) <= 1.2 * MEMORY_MIB * MIB
