"""Reading the OpenMetrics text of the admin port."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
OUTCOMES = ("hit", "missed", "coalesced", "bypassed")


@dataclass(frozen=True)
class Metrics:
    """One scrape."""

    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of a name that carry these labels; 0 when there is none."""
        wanted = set(labels.items())
        return sum(value for (sample, has), value in self.samples.items() if sample == name and wanted <= has)

    def by(self, name: str, label: str) -> dict[str, int]:
        """The sums of a name by the values of a label that occur; each is an integer."""
        values = {value for sample, has in self.samples if sample == name for key, value in has if key == label}
        return {value: int(self.total(name, **{label: value})) for value in values}

    def client_bytes(self) -> dict[str, int]:
        """Client bytes by outcome."""
        return {outcome: int(self.total("forebay_client_bytes_total", outcome=outcome)) for outcome in OUTCOMES}

    @property
    def origin_bytes(self) -> int:
        """Bytes received from all origins."""
        return int(self.total("forebay_origin_bytes_total"))


def parse(text: str) -> Metrics:
    """Reads OpenMetrics text; it must end with its end mark."""
    assert text.endswith("# EOF\n"), "the scrape lacks its end mark"
    samples = {}
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match:
            labels = frozenset(LABEL.findall(match["labels"] or ""))
            samples[match["name"], labels] = float(match["value"])
    return Metrics(samples)


def scrape(admin_url: str) -> Metrics:
    """Fetches and reads /metrics."""
    with urllib.request.urlopen(f"{admin_url}/metrics", timeout=60) as answer:
        assert "openmetrics-text" in answer.headers["Content-Type"]
        return parse(answer.read().decode())
