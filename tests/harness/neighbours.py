"""Clients of a healthy origin, and clients and origins that must not disturb them: each kind in its own process.

The threads of one process wait for each other; what one kind of clients does would be part of the times of another.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from . import faults
from .content import Pattern, assert_same, first_difference
from .raw_client import Closed, RawClient
from .scripted import Exchange, ScriptedOrigin
from .wire import ProtocolViolation, Request

MIB = 1 << 20
CLIENTS = int(os.environ.get("NEIGHBOURS_CLIENTS", "50"))
DISK_MIB = int(os.environ.get("NEIGHBOURS_DISK_MIB", "128"))
# A client reads once in this time.
PACE_SECONDS = float(os.environ.get("NEIGHBOURS_PACE", "0.3"))
PATIENCE_SECONDS = 90.0
# Reads that take longer are recorded with the time at which they began.
SLOW_SECONDS = 0.5
READY = "ready"
FILE = 2 * MIB
READ = 128 << 10
READS_PER_OPEN = 4
# Data of the healthy origin; more than the disk holds.
HEALTHY = {f"/healthy/{n:05}.bin": Pattern(FILE - 777 * (n % 100), n) for n in range(DISK_MIB * 3 // 4)}
HANGING = {f"/hanging/{n}.bin": Pattern(64 * MIB, 50_000 + n) for n in range(50)}
GARBAGE = {f"/garbage/{n}.bin": Pattern(FILE, 60_000 + n) for n in range(50)}
# Faulty origins and their clients stand for other machines: they yield the processors to what is measured.
YIELDING = 10
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Observed:
    """Observations of the clients of one process."""

    latencies: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    # Slow reads by their phase and the second in which they began.
    slow: defaultdict[str, defaultdict[int, int]] = field(default_factory=lambda: defaultdict(_count))
    failures: list[str] = field(default_factory=list)

    def take(self, other: Observed) -> None:
        """Adds the observations of another process."""
        for phase, times in other.latencies.items():
            self.latencies[phase] += times
        for kind, count in other.refused.items():
            self.refused[kind] += count
        for phase, seconds in other.slow.items():
            for second, count in seconds.items():
                self.slow[phase][second] += count
        self.failures += other.failures

    def note_read(self, phase: str, began: float) -> None:
        """Notes a read that has ended now."""
        took = time.monotonic() - began
        self.latencies[phase].append(took)
        if took > SLOW_SECONDS:
            self.slow[phase][int(began)] += 1

    def slow_by_second(self, phase: str) -> dict[int, int]:
        """Slow reads of a phase by the second in which they began, counted from the first of them."""
        slow = self.slow[phase]
        first = min(slow, default=0)
        return {second - first: slow[second] for second in sorted(slow)}

    def percentiles(self, phase: str) -> dict[str, float]:
        """Percentiles of the time of a read in a phase."""
        times = sorted(self.latencies[phase])
        assert times, f"no read in the phase {phase}"
        return {f"p{share}_ms": round(1000 * times[len(times) * share // 100], 2) for share in (50, 90, 99)}


@dataclass
class Run:
    """The state that the clients of one process share."""

    cache: tuple[str, int]
    phase: str
    observed: Observed = field(default_factory=Observed)
    ended: threading.Event = field(default_factory=threading.Event)


Client = Callable[[Run, int], None]


def read_healthy(run: Run, seed: int) -> None:
    """Reads from the healthy origin: each read succeeds and is right."""
    choice, observed = random.Random(seed), run.observed
    paths = list(HEALTHY)
    try:
        with RawClient(*run.cache) as client:
            while not run.ended.is_set():
                path = paths[min(int(choice.expovariate(3) * len(paths)), len(paths) - 1)]
                handle = client.open(path)
                for _ in range(READS_PER_OPEN):
                    offset, phase, start = choice.randrange(HEALTHY[path].size), run.phase, time.monotonic()
                    got = client.read(handle, offset, READ).ok()
                    observed.note_read(phase, start)
                    assert_same(got, HEALTHY[path].read(offset, READ), path)
                    run.ended.wait(PACE_SECONDS * choice.uniform(0.5, 1.5))
                client.close_file(handle).ok()
    except Exception as error:  # A thread's failure is the test's.
        observed.failures.append(f"{run.phase}: client {seed}: {error!r}")


def read_faulty(run: Run, seed: int) -> None:
    """Reads from an origin that is faulty: no read succeeds with wrong bytes, none goes without an answer."""
    choice, observed = random.Random(seed), run.observed
    files, length = ((HANGING, 64 * MIB), (GARBAGE, MIB))[seed % 2]
    impatient = seed // 2 % 2
    while not run.ended.is_set():
        path = choice.choice(list(files))
        try:
            with RawClient(*run.cache, timeout=PATIENCE_SECONDS) as client:
                opened = client.try_open(path)
                client.socket.settimeout(2 * PACE_SECONDS if impatient else PATIENCE_SECONDS)
                answer = opened if opened.error else client.read(opened.body[:4], 0, length)
                if answer.error is None and (difference := first_difference(answer.body, files[path].read(0, length))):
                    observed.failures.append(f"{path}: {difference}")
                observed.refused[f"{path.split('/')[1]}: {answer.error or 'ok'}"] += 1
        except TimeoutError:
            observed.refused["given up"] += 1
            if not impatient:
                observed.failures.append(f"{path}: no answer within {PATIENCE_SECONDS} s")
        except (Closed, ConnectionError, ProtocolViolation) as error:
            observed.refused[type(error).__name__] += 1
        run.ended.wait(PACE_SECONDS)


class Crowd:
    """Clients of one kind. Use as a context manager."""

    def __init__(self, client: Client, count: int, cache: tuple[str, int], phase: str, *, yielding: int = 0) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_be_crowd, args=(theirs, client, count, cache, phase, yielding), daemon=True
        )
        self._process.start()
        theirs.close()
        # Its interpreter takes seconds to start, which are not those of a phase.
        assert self._pipe.recv() == READY

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()

    def enter(self, phase: str) -> None:
        """Names the phase to which the reads that begin now belong."""
        self._pipe.send(phase)

    def end(self) -> Observed:
        """Ends the clients after their last answers."""
        self._pipe.send(None)
        observed = self._pipe.recv()
        assert isinstance(observed, Observed)
        return observed


@contextmanager
def faulty_origins() -> Iterator[dict[str, str]]:
    """The URLs of an origin that answers no reads and of one that answers garbage, by the directory that they serve."""
    pipe, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_be_faulty_origins, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield pipe.recv()
    finally:
        pipe.close()
        process.join()


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


def _count() -> defaultdict[int, int]:
    return defaultdict(int)


def _be_crowd(pipe: Connection, client: Client, count: int, cache: tuple[str, int], phase: str, yielding: int) -> None:
    os.nice(yielding)
    run = Run(cache, phase)
    threads = [threading.Thread(target=client, args=(run, seed), daemon=True) for seed in range(count)]
    for thread in threads:
        thread.start()
    pipe.send(READY)
    while (message := pipe.recv()) is not None:
        run.phase = message
    run.ended.set()
    for thread in threads:
        thread.join()
    pipe.send(run.observed)


def _be_faulty_origins(pipe: Connection) -> None:
    os.nice(YIELDING)
    with ExitStack() as stack:
        hanging = stack.enter_context(ScriptedOrigin(HANGING))
        garbage = stack.enter_context(ScriptedOrigin(GARBAGE))
        for code in (Request.READ, Request.PGREAD, Request.READV):
            hanging.on(code, faults.stay_silent)
            garbage.on(code, send_garbage)
        pipe.send({"/hanging": hanging.url, "/garbage": garbage.url})
        # Ready when the other side has closed its end.
        pipe.poll(None)
