"""A message broker that speaks enough of STOMP 1.2 for one sender, over plain connections or TLS."""

from __future__ import annotations

import json
import queue
import socket
import ssl
import threading
from typing import Any

ANSWER_SECONDS = 60.0


class StompBroker:
    """Takes messages and confirms them. Use as a context manager."""

    def __init__(self, context: ssl.SSLContext | None = None, *, login: tuple[str, str] | None = None) -> None:
        self._context, self._login = context, login
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._messages: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.peers: list[dict[str, Any] | None] = []
        """The certificates of the clients, one for each connection."""
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> StompBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"localhost:{self._listener.getsockname()[1]}"

    def message(self) -> tuple[str, Any]:
        """The next message that has arrived: its destination, and its body."""
        return self._messages.get(timeout=ANSWER_SECONDS)

    @property
    def is_empty(self) -> bool:
        """Whether all messages have been taken."""
        return self._messages.empty()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                with connection:
                    self._serve(connection)
            except (OSError, ValueError):
                continue

    def _serve(self, connection: socket.socket) -> None:
        if self._context:
            encrypted = self._context.wrap_socket(connection, server_side=True)
            self.peers.append(encrypted.getpeercert())
            connection = encrypted
        with connection, connection.makefile("rwb") as stream:
            while command := stream.readline().strip().decode():
                headers: dict[str, str] = {}
                while line := stream.readline().strip().decode():
                    name, value = line.split(":", 1)
                    headers.setdefault(name, value)
                body = stream.read(int(headers.get("content-length", 0)))
                assert stream.read(1) == b"\0"
                for answer in self._answers(command, headers, body):
                    stream.write(answer)
                stream.flush()

    def _answers(self, command: str, headers: dict[str, str], body: bytes) -> list[bytes]:
        if command == "CONNECT":
            given = (headers.get("login", ""), headers.get("passcode", ""))
            if self._login and given != self._login:
                return [b"ERROR\nmessage:Bad CONNECT\n\naccess refused\0"]
            return [b"CONNECTED\nversion:1.2\n\n\0\n"]
        if command == "SEND":
            self._messages.put((headers["destination"], json.loads(body)))
        return [f"RECEIPT\nreceipt-id:{headers['receipt']}\n\n\0".encode()]
