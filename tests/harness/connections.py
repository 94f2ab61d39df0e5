"""A small threaded TCP listener that can vanish and come back on the same port: the base of every fake server."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

CLOSE_AT_ONCE = struct.pack("ii", 1, 0)


class Listener:
    """Accepts connections on a loopback port of its own and serves each in a thread."""

    def __init__(self, serve: Callable[[socket.socket], None], *, family: int = socket.AF_INET) -> None:
        self._serve = serve
        self._family = family
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listening: socket.socket | None = None
        self.accepted = 0
        self.port = 0
        self.listen()

    def listen(self) -> None:
        """Starts listening, on the same port as before."""
        listening = socket.socket(self._family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("::1" if self._family == socket.AF_INET6 else "127.0.0.1", self.port))
        listening.listen(256)
        self.port = listening.getsockname()[1]
        self._listening = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    @property
    def is_listening(self) -> bool:
        """Whether new connections are accepted."""
        return self._listening is not None

    def refuse(self) -> None:
        """Stops listening: new connections are refused, existing ones continue."""
        with self._lock:
            listening, self._listening = self._listening, None
        if listening is not None:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()

    def drop_connections(self) -> None:
        """Resets every connection."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            reset(connection)

    def close(self) -> None:
        """Stops listening and drops everything."""
        self.refuse()
        self.drop_connections()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
                self.accepted += 1
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._serve(connection)
        with self._lock:
            self._open.discard(connection)
        connection.close()


def reset(connection: socket.socket) -> None:
    """Closes a connection the hard way, as a crashing peer's kernel does."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSE_AT_ONCE)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def receive_exactly(connection: socket.socket, length: int) -> bytes:
    """Receives exactly `length` bytes; EOFError when the peer closes first."""
    out = bytearray()
    while len(out) < length:
        piece = connection.recv(min(length - len(out), 1 << 20))
        if not piece:
            raise EOFError
        out += piece
    return bytes(out)
