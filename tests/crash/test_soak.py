"""A short soak: descriptors, tasks, threads and memory stay flat over all that clients and origins do, good and bad."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import forebay
from harness.content import Pattern, assert_same
from harness.faults import stay_silent
from harness.forebay import Forebay
from harness.ground import Ground
from harness.raw_client import read_params
from harness.scripted import ScriptedOrigin
from harness.waiting import until
from harness.wire import Error, Request

FILES = {f"/soak/{index}.bin": Pattern(300_000 + index * 1111, index) for index in range(12)}
ROUNDS = 60
RESIDENT_GROWTH_MAX = 48 << 20
SPARE_DESCRIPTORS = 4
SPARE_TASKS = 4
SILENT = "/soak/silent.bin"
HASTY = {"first_byte_timeout": "5s", "deadline": "10s", "attempts": 2}


@dataclass(frozen=True)
class Use:
    """System resources of a process."""

    descriptors: int
    threads: int
    resident_bytes: int
    tasks: float

    @classmethod
    def of(cls, cache: Forebay) -> Use:
        """Reads /proc and the metrics."""
        process = Path(f"/proc/{cache.process.pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        resident = int(status["VmRSS"].split()[0]) * 1024
        return cls(
            len(list((process / "fd").iterdir())),
            int(status["Threads"]),
            resident,
            cache.metrics().total("forebay_tasks"),
        )


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    """An origin with a handful of files."""
    with ScriptedOrigin(FILES) as server:
        server.on(Request.OPEN, stay_silent, when=lambda asked: asked.path == SILENT)
        yield server


def one_round(cache: Forebay, origin: ScriptedOrigin, choice: random.Random, *, waits: bool) -> None:
    """Everything a client may do, and some things it should not."""
    path, content = choice.choice(list(FILES.items()))
    with cache.client() as client:
        handle = client.open(path)
        offset, length = choice.randrange(content.size), choice.randrange(1, 200_000)
        assert_same(client.read(handle, offset, length).ok(), content.read(offset, length), path)
        assert client.try_open("/soak/missing.bin").error == Error.NOT_FOUND
        assert_same(client.page_read(handle, offset, length).ok(), content.read(offset, length), path)
        if waits:
            assert client.try_open(SILENT).error, "an origin that stays silent is given up"
        if choice.random() < 0.3:
            origin.listener.drop_connections()
        # Left over: an open handle, and a request whose answer is never read.
        client.send(Request.READ, read_params(handle, 0, content.size), bytes(8))


def test_descriptors_threads_and_memory_stay_flat(ground: Ground, origin: ScriptedOrigin) -> None:
    choice = random.Random(3)
    setup = {"origin": HASTY, "export": [{"path": "/", "origins": [origin.url]}]}
    with forebay.configured(ground, setup) as cache:
        for number in range(ROUNDS):
            one_round(cache, origin, choice, waits=number % 30 == 0)
        before = settled(cache)
        for number in range(3 * ROUNDS):
            one_round(cache, origin, choice, waits=number % 30 == 0)
        after = settled(cache)
        # State files that are being written at the moment hold some for an instant.
        limit = before.descriptors + SPARE_DESCRIPTORS
        until(lambda: Use.of(cache).descriptors <= limit, f"at most {limit} descriptors are open")
        tasks = before.tasks + SPARE_TASKS
        until(lambda: Use.of(cache).tasks <= tasks, f"at most {tasks} tasks are left")
    assert after.resident_bytes <= before.resident_bytes + RESIDENT_GROWTH_MAX
    # Blocking disk work has threads of its own that end when idle; they are bounded, not leaked.
    assert after.threads <= before.threads + 64


def settled(cache: Forebay) -> Use:
    """Resources of the cache once all clients are gone."""
    until(lambda: cache.metrics().total("forebay_connections") == 0, "connections are counted down")
    until(lambda: cache.metrics().total("forebay_open_handles") == 0, "handles are closed")
    until(lambda: cache.metrics().total("forebay_budget_used_bytes") == 0, "memory is free")
    return Use.of(cache)
