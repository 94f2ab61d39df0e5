"""Prometheus and OpenSearch, as the tests install them, and their answers."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from ..servers import Program, ServerError

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
SEARCH_SECONDS = 240.0
PROMETHEUS_SECONDS = 60.0
# Ports that systems do not assign to connections.
PORTS = range(20_000, 30_000)
# A block of data for the whole past: one pass over its text.
BLOCK = "1488h"
REMEDY = "make setup"
SCRAPED = "demo-site"


class Prometheus(Program):
    """Prometheus with the rules that are shipped, which scrapes one cache."""

    def __init__(self, target: str, past: Iterable[str], directory: Path) -> None:
        data = (directory / "prometheus").resolve()
        data.mkdir(parents=True)
        backfill(past, data)
        scrape = (RULES / "scrape.yml").read_text()
        targets = f'["{target}"]\n        labels: {{instance: {SCRAPED}}}'
        scrape = scrape.replace('["127.0.0.1:9090"]', targets).replace("scrape_interval: 15s", "scrape_interval: 5s")
        (data / "prometheus.yml").write_text(scrape)
        for name in ("recording.yml", "alerts.yml"):
            (data / name).write_text((RULES / name).read_text())
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        argv = ["prometheus", f"--config.file={data / 'prometheus.yml'}", f"--storage.tsdb.path={data / 'data'}"]
        argv += ["--storage.tsdb.retention.time=90d", f"--web.listen-address={address}"]
        super().__init__("prometheus", argv, directory, REMEDY)
        try:
            self.wait_until(lambda _: self.is_scraped(), PROMETHEUS_SECONDS)
        except BaseException:
            self.stop()
            raise

    def is_scraped(self) -> bool:
        """Whether the cache has answered."""
        try:
            return bool(self.ask('up{job="forebay"} == 1'))
        except (OSError, urllib.error.HTTPError):
            return False

    def ask(self, query: str) -> list[Any]:
        """The result of a query."""
        answer = get(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
        return cast("list[Any]", answer["data"]["result"])


class Search(Program):
    """OpenSearch with one node."""

    def __init__(self, installed: Path, directory: Path) -> None:
        home = installed.resolve() / "opensearch"
        if not (home / "classes").is_dir():
            raise ServerError(f"OpenSearch is not in {home}; run `{REMEDY}`")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        argv = ["java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        argv += ["-cp", f"{home / 'classes'}:{home / 'lib'}/*", "OneNode"]
        data = (directory / "search").resolve()
        super().__init__("opensearch", [*argv, str(data), str(port), str(free_port())], directory, REMEDY)

    def wait(self) -> None:
        """Waits until it answers."""
        self.wait_until(lambda _: self.is_up(), SEARCH_SECONDS)

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            return bool(get(f"{self.url}/_cluster/health")["status"])
        except OSError:
            return False

    def documents(self, stream: str) -> int:
        """Records that can be found."""
        try:
            get(f"{self.url}/{stream}/_refresh")
            return int(get(f"{self.url}/{stream}/_count")["count"])
        except urllib.error.HTTPError:
            return 0

    def by_tier(self, stream: str) -> dict[str, float]:
        """Bytes that clients have read, by data tier."""
        inner = {"read": {"sum": {"field": "read_bytes"}}}
        body = {"size": 0, "aggs": {"tiers": {"terms": {"field": "tier"}, "aggs": inner}}}
        answer = get(f"{self.url}/{stream}/_search", json.dumps(body).encode())
        return {bucket["key"]: bucket["read"]["value"] for bucket in answer["aggregations"]["tiers"]["buckets"]}


def backfill(past: Iterable[str], data: Path) -> None:
    """Gives Prometheus a past."""
    text = data / "past.txt"
    with text.open("w") as output:
        output.writelines(past)
    argv = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(data / "data")]
    done = subprocess.run(
        [*argv, f"--max-block-duration={BLOCK}"], capture_output=True, text=True, check=False, cwd=data
    )
    if done.returncode != 0:
        raise ServerError(f"promtool: {done.stderr.strip()}")
    text.unlink()


def get(url: str, body: bytes | None = None) -> dict[str, Any]:
    """The answer to a request, as JSON."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return cast("dict[str, Any]", json.load(answer))


def free_port() -> int:
    """A port for a server that cannot choose its own."""
    for _ in range(100):
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise ServerError("no port is free")
