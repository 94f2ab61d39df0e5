"""Clients that make the accesses, faster than they were generated, and the counters of the cache meanwhile."""

from __future__ import annotations

import re
import time
import urllib.request
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from XRootD import client
from XRootD.client.flags import OpenFlags

from ..servers import ServerError
from .month import DAY_S, Access

CLIENTS = 8
READ_BYTES = 256 << 10
COUNT_SECONDS = 30.0
# Steps between two looks at the counters, as in the history: five seconds in the last hour, minutes in the last day.
SAMPLE_S, MINUTE_S, HOUR_S = 5, 60, 3600
SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)

Samples = dict[tuple[str, str], float]
"""Values by name and labels."""


@dataclass
class Replay:
    """The counters of the cache at the end of each step, and the time of that end."""

    begin: Samples
    generated: list[float] = field(default_factory=list)
    """Ends of the steps, in seconds after the begin of the month."""
    real: list[float] = field(default_factory=list)
    """The same in seconds of the Unix epoch."""
    samples: list[Samples] = field(default_factory=list)

    def generated_at(self, real: float) -> float:
        """The time of the month at which something happened."""
        after = min(max(bisect_right(self.real, real), 1), len(self.real) - 1)
        (real0, real1), (at0, at1) = self.real[after - 1 : after + 1], self.generated[after - 1 : after + 1]
        return at0 + (at1 - at0) * min(max((real - real0) / max(real1 - real0, 1e-9), 0.0), 1.0)

    def stretch(self) -> float:
        """How much longer the month is than its replay."""
        return (self.generated[-1] - self.generated[0]) / (self.real[-1] - self.real[0])


class Clients:
    """Clients of the cache. Use as a context manager."""

    def __init__(self, url: str) -> None:
        self._address = url.removeprefix("root://")
        self._threads = ThreadPoolExecutor(CLIENTS)

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def make(self, accesses: list[Access]) -> None:
        """Makes these accesses, some of them at the same time; returns after the last close."""
        list(self._threads.map(self._read, accesses))

    def _read(self, access: Access) -> None:
        file = client.File()
        url = f"root://{access.user}@{self._address}/{access.path}"
        check(file.open(url, OpenFlags.READ)[0], url)
        for offset in range(0, access.read, READ_BYTES):
            status, data = file.read(offset, min(READ_BYTES, access.read - offset))
            check(status, url)
            if not data:
                raise ServerError(f"{url} is too short")
        check(file.close()[0], url)


def check(status: object, url: str) -> None:
    """Ends the demo if a client has failed."""
    if not status.ok:  # type: ignore[attr-defined]
        raise ServerError(f"{url}: {status.message}")  # type: ignore[attr-defined]


def replay(accesses: list[Access], days: int, url: str, admin_url: str) -> Replay:
    """Makes all accesses, step by step."""
    begin = scrape(admin_url)
    done = Replay(begin, [0.0], [time.time()], [begin])
    position = 0
    with Clients(url) as clients:
        for end in steps(days):
            step = []
            while position < len(accesses) and accesses[position].at < end:
                step.append(accesses[position])
                position += 1
            clients.make(step)
            samples = counted(admin_url, position) if step else done.samples[-1]
            done.generated.append(float(end))
            done.real.append(time.time())
            done.samples.append(samples)
    return done


def steps(days: int) -> Iterator[int]:
    """The ends of the steps in seconds."""
    last_day, last_hour, end = (days - 1) * DAY_S, days * DAY_S - HOUR_S, days * DAY_S
    yield from range(HOUR_S, last_day + 1, HOUR_S)
    yield from range(last_day + MINUTE_S, last_hour + 1, MINUTE_S)
    yield from range(last_hour + SAMPLE_S, end + 1, SAMPLE_S)


def counted(admin_url: str, closes: int) -> Samples:
    """The metrics with so many closes: a client gets the answer to its close before the cache has counted it."""
    deadline = time.monotonic() + COUNT_SECONDS
    while True:
        samples = scrape(admin_url)
        found = sum(value for (name, _), value in samples.items() if name == "forebay_files_read_total")
        if found >= closes:
            return samples
        if time.monotonic() > deadline:
            raise ServerError(f"the cache has counted {found:.0f} of {closes} closes")


def scrape(admin_url: str) -> Samples:
    """The metrics of the cache."""
    with urllib.request.urlopen(f"{admin_url}/metrics", timeout=10) as answer:
        return {(name, labels): float(value) for name, labels, value in SAMPLE.findall(answer.read().decode())}
