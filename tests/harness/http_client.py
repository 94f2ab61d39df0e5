"""Requests in HTTP as clients send them, byte for byte, and their answers."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .forebay import Forebay

SECONDS = 30.0


@dataclass
class Reply:
    """An answer."""

    status: int
    fields: dict[str, str]
    body: bytes
    trailer: dict[str, str] = field(default_factory=dict)


class Connection:
    """A connection to a server, over which requests go one after the other or all at once."""

    def __init__(self, server: Forebay, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection((server.host, server.port), SECONDS)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.received = self.socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes it at once."""
        self.received.close()
        self.socket.close()

    def send(self, method: str, target: str, fields: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Sends a request."""
        lines = [
            f"{method} {target} HTTP/1.1",
            "Host: test",
            *(f"{key}: {value}" for key, value in (fields or {}).items()),
        ]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def reply(self, method: str = "GET") -> Reply:
        """The next answer."""
        line = self.received.readline().decode()
        assert line.startswith("HTTP/1.1 "), line
        status = int(line.split(" ")[1])
        fields = self._fields()
        trailer: dict[str, str] = {}
        if method == "HEAD" or status in (204, 304):
            body = b""
        elif fields.get("transfer-encoding") == "chunked":
            body = b""
            while length := int(self.received.readline(), 16):
                body += self.received.read(length)
                assert self.received.readline() == b"\r\n"
            trailer = self._fields()
        else:
            length = int(fields["content-length"])
            body = self.received.read(length)
            assert len(body) == length, "the answer was cut short"
        return Reply(status, fields, body, trailer)

    def ask(self, method: str, target: str, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Reply:
        """Sends a request and returns its answer."""
        self.send(method, target, fields, body)
        return self.reply(method)

    def _fields(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        while (line := self.received.readline()) not in (b"\r\n", b""):
            name, value = line.decode().split(":", 1)
            assert name.lower() not in fields, f"{name} comes twice"
            fields[name.lower()] = value.strip()
        return fields


def ask(
    server: Forebay,
    method: str,
    target: str,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """A request over a connection of its own."""
    with Connection(server, tls) as connection:
        return connection.ask(method, target, fields, body)


def parts_of(reply: Reply) -> Sequence[tuple[str, bytes]]:
    """The parts of a body of several ranges: the range as it is written, and the bytes."""
    boundary = reply.fields["content-type"].split("boundary=", 1)[1].encode()
    parts: list[tuple[str, bytes]] = []
    rest = reply.body
    while True:
        head, rest = rest.split(b"--" + boundary, 1)
        assert head == b"\r\n", "something lies between the parts"
        if rest.startswith(b"--"):
            assert rest == b"--\r\n"
            return parts
        lines, rest = rest.split(b"\r\n\r\n", 1)
        fields = dict(line.split(": ", 1) for line in lines.decode().strip().split("\r\n"))
        span = fields["Content-Range"].removeprefix("bytes ")
        first, last = (int(number) for number in span.split("/")[0].split("-"))
        parts.append((span, rest[: last - first + 1]))
        rest = rest[last - first + 1 :]
