"""The administration API and its commands."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .forebay import BLOCK, BUDGET, Forebay, run, write_configuration
from .ground import Ground
from .process import give_to_service
from .waiting import until

TOKEN = "0123456789abcdef0123456789abcdef"
REQUEST_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """An answer of the API."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401
        """The body as JSON; None when there is none."""
        return json.loads(self.body) if self.body else None

    @property
    def problem(self) -> str:
        """The type of the problem."""
        assert self.headers["content-type"] == "application/problem+json"
        document = self.json
        assert document["status"] == self.status
        assert document["title"]
        assert document["detail"]
        return str(document["type"]).removeprefix("urn:forebay:problem:")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=REQUEST_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connects to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(REQUEST_SECONDS)
        self.sock.connect(str(self._path))


class Site:
    """A server with an admin port of every kind."""

    def __init__(self, ground: Ground, configuration: Mapping[str, Any], *, store: Path | None = None) -> None:
        self.ground = ground
        self.directory = ground.directory("admin")
        self.socket = self.directory / "admin.sock"
        self.token_file = self.directory / "token"
        self.put_token(TOKEN)
        self.store = store or ground.directory("store")
        full: dict[str, Any] = {"server": {"listen": ["127.0.0.1:0"]}, "memory": {"budget": "64MiB"}, **configuration}
        full["store"] = {"path": str(self.store), "block_size": f"{BLOCK // 1024}KiB", **full.get("store", {})}
        full["purge"] = {"budget": BUDGET, **full.get("purge", {})}
        admin = {"listen": "127.0.0.1:0", "socket": str(self.socket), "token_file": str(self.token_file)}
        full["admin"] = {**admin, **full.get("admin", {})}
        self.configuration = write_configuration(ground, full)
        self.server = Forebay(ground, ["--config", str(self.configuration)], store=self.store, admin=True)
        self.wait_for_index()

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def wait_for_index(self) -> None:
        """The index is opened after the start; it stays off where nothing is cached."""
        until(lambda: self.get("/status")["index"]["state"] not in ("loading", "rebuilding"), "the index is read")

    def put_token(self, token: str, mode: int = 0o600) -> None:
        """Replaces the token file."""
        self.token_file.unlink(missing_ok=True)
        self.token_file.write_text(token)
        self.token_file.chmod(mode)
        give_to_service(self.directory)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        over_tcp: bool = False,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One call of the API, by default over the socket."""
        if over_tcp:
            address = self.server.admin_url.removeprefix("http://")
            connection = http.client.HTTPConnection(address, timeout=REQUEST_SECONDS)
        else:
            connection = UnixConnection(self.socket)
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body=content, headers=sent)
            answer = connection.getresponse()
            lowered = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, lowered, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:  # noqa: ANN401
        """The document at a path of the API."""
        answer = self.call("GET", f"/api/v1{path}")
        assert answer.status == 200, answer
        return answer.json

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command that talks to the server over its socket."""
        return run(self.ground, *arguments, "--admin", str(self.socket))

    def command_json(self, *arguments: str) -> Any:  # noqa: ANN401
        """The JSON output of a command, which must succeed."""
        done = self.command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
