"""OpenSearch and Elasticsearch as real servers of one node."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, cast

from .ground import Ground, search_servers
from .process import Process
from .waiting import until

START_SECONDS = 240.0

Json = dict[str, Any]


class SearchServer:
    """A running server, `opensearch` or `elasticsearch`."""

    def __init__(self, ground: Ground, name: str, port: int) -> None:
        home = search_servers() / name
        place = ground.directory(name)
        self.url = f"http://127.0.0.1:{port}"
        classes = f"{home / 'classes'}:{home / 'lib'}/*"
        memory = ["-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        argv = ["java", *memory, "-cp", classes, "OneNode", str(place / "home"), str(port), str(ground.free_port())]
        self.process = Process(name, argv, place)

    def __enter__(self) -> SearchServer:
        until(self._is_up, "the search server answers", within=START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def _is_up(self) -> bool:
        assert self.process.is_running(), self.process.output()
        try:
            return bool(self.get("/_cluster/health")["status"])
        except OSError:
            return False

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """The answer, or for what does not exist the error."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return cast("Json", json.load(answer))
        except urllib.error.HTTPError as error:
            text = error.read()
            if error.code == 404:
                return cast("Json", json.loads(text))
            raise AssertionError(f"{path}: {error.code} {text[:500]!r}") from error

    def get(self, path: str) -> Json:
        """The answer to a GET."""
        return self.ask("GET", path)

    def count(self, index: str) -> int:
        """Documents that can be searched now."""
        if "error" in self.ask("POST", f"/{index}/_refresh"):
            return 0
        return int(self.get(f"/{index}/_count")["count"])
