"""Clients of dCap: programs on libdcap, and the addresses of servers."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from .forebay import Forebay

COMMAND_SECONDS = 60.0

Answer = tuple[int, int, bytes]


class Reader:
    """A running program on libdcap."""

    def __init__(self, built: Path, env: Mapping[str, str]) -> None:
        self.child = subprocess.Popen(
            [built],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **env},
        )

    def start(self, *words: object) -> None:
        """Sends a command."""
        assert self.child.stdin is not None
        self.child.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.child.stdin.flush()

    def finish(self, *, has_bytes: bool = False) -> Answer:
        """Waits for the result, the error number and the bytes of a command."""
        assert self.child.stdout is not None
        line = self.child.stdout.readline().split()
        assert line, "the client ended, or did not answer in time"
        result, error = int(line[0]), int(line[1])
        data = self.child.stdout.read(result) if has_bytes and result > 0 else b""
        return result, error, data

    def call(self, *words: object) -> tuple[int, int]:
        """Runs a command without bytes."""
        self.start(*words)
        result, error, _ = self.finish()
        return result, error

    def read(self, *words: object) -> Answer:
        """Runs a command that reads."""
        self.start(*words)
        return self.finish(has_bytes=True)

    def kill(self) -> None:
        """SIGKILL."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait(COMMAND_SECONDS)

    def end(self) -> None:
        """Ends the program."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.wait(COMMAND_SECONDS)


def dcap_url(server: Forebay) -> str:
    """URL of the dCap listener of a server, without a path."""
    return str(server.process.wait_for_line(r"^dcap (dcap://\S+)$")[1])


class Door:
    """A raw control connection."""

    def __init__(self, server: Forebay) -> None:
        url = urlsplit(dcap_url(server))
        self.address = (str(url.hostname), int(url.port or 0))
        self.socket = socket.create_connection(self.address, timeout=COMMAND_SECONDS)
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self.socket.close()

    def say(self, line: str) -> None:
        """Sends a line."""
        self.socket.sendall(line.encode() + b"\n")

    def hear(self) -> str:
        """The next line, or an empty text at the end of the connection."""
        try:
            return self._lines.readline().decode().rstrip("\n")
        except ConnectionResetError:
            return ""

    def ask(self, line: str) -> str:
        """The answer to a line."""
        self.say(line)
        return self.hear()

    def greet(self) -> None:
        """Says hello."""
        assert self.ask('0 0 client hello 0 0 2 47 14 "" -uid=0 -pid=1 -gid=0') == "0 0 server welcome 2 47"

    def open(self, session: int, path: str) -> bytes:
        """Opens a file for reading; the greeting of its data connection."""
        answer = self.ask(f'{session} 0 client open "dcap://host{path}" r host 1 -timeout=-1').split()
        assert answer[:4] == [str(session), "0", "client", "connect"], answer
        assert (answer[4], int(answer[5])) == self.address
        return struct.pack(">ii", session, len(answer[6])) + answer[6].encode()

    def data(self, first: bytes) -> socket.socket:
        """A data connection that begins with these bytes."""
        connection = socket.create_connection(self.address, timeout=COMMAND_SECONDS)
        connection.sendall(first)
        return connection


def received_all(connection: socket.socket) -> bytes:
    """Reads to the end of a connection."""
    parts = []
    with connection:
        try:
            while part := connection.recv(1 << 16):
                parts.append(part)
        except ConnectionResetError:
            pass
    return b"".join(parts)
