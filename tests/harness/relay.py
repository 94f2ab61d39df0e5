"""A relay in front of a real origin: notes every read that passes, and can cut, refuse, stall or lengthen the way."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from .connections import Listener, receive_exactly, reset
from .waiting import until
from .wire import REQUEST_HEADER, Request

READS = (Request.READ, Request.PGREAD)


@dataclass(frozen=True)
class OriginRead:
    """One range asked from the origin; an element of a readv counts as one."""

    offset: int
    length: int


class Relay:
    """Passes bytes between its clients and `target`, and understands the requests that go by.

    Answers arrive `latency` seconds late, as over a long path: bytes sent together arrive together. Instead of a
    request, the target gets what `meddle` makes of it.
    """

    def __init__(
        self, target: tuple[str, int], *, latency: float = 0.0, meddle: Callable[[bytes], bytes] = bytes
    ) -> None:
        self._target = target
        self._latency = latency
        self._meddle = meddle
        self._lock = threading.Lock()
        self._reads: list[OriginRead] = []
        self._codes: list[int] = []
        self._answer_bytes_left: int | None = None
        self._answer_bytes_until_stall: int | None = None
        self._flowing = threading.Event()
        self._flowing.set()
        self.listener = Listener(self._serve)
        self.url = f"root://127.0.0.1:{self.listener.port}"

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._flowing.set()
        self.listener.close()

    @property
    def reads(self) -> list[OriginRead]:
        """Every range asked so far, in order of arrival."""
        with self._lock:
            return list(self._reads)

    def requests(self, code: Request) -> int:
        """How many requests of a kind have passed."""
        with self._lock:
            return self._codes.count(code)

    def forget(self) -> None:
        """Empties the notes."""
        with self._lock:
            self._reads.clear()
            self._codes.clear()

    def cut_after(self, answer_bytes: int) -> None:
        """After that many more bytes towards the clients the origin dies: connections reset, new ones refused."""
        with self._lock:
            self._answer_bytes_left = answer_bytes

    def revive_when_cut(self) -> None:
        """Waits until the origin has died of `cut_after`, then brings it back."""
        until(lambda: self._answer_bytes_left == 0 and not self.listener.is_listening, "the origin dies")
        self.revive()

    def revive(self) -> None:
        """The origin is back."""
        with self._lock:
            self._answer_bytes_left = None
        self.listener.refuse()
        self.listener.listen()

    def stall(self) -> None:
        """Answers stop flowing; connections stay open."""
        self._flowing.clear()

    def stall_after(self, answer_bytes: int) -> None:
        """Answers stop flowing when that many more bytes of them have passed, or a little more."""
        with self._lock:
            self._answer_bytes_until_stall = answer_bytes

    @property
    def is_stalled(self) -> bool:
        """Whether answers have stopped flowing."""
        return not self._flowing.is_set()

    def flow(self) -> None:
        """Ends a stall."""
        self._flowing.set()

    def _serve(self, client: socket.socket) -> None:
        with socket.create_connection(self._target) as origin:
            origin.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            source = origin if self._latency == 0.0 else self._long_way(origin)
            back = threading.Thread(target=self._answers, args=(source, client), daemon=True)
            back.start()
            with contextlib.suppress(OSError, EOFError):
                self._requests(client, origin)
            with contextlib.suppress(OSError):
                origin.shutdown(socket.SHUT_RDWR)
            back.join()

    def _requests(self, client: socket.socket, origin: socket.socket) -> None:
        origin.sendall(receive_exactly(client, 20))
        while True:
            header = receive_exactly(client, REQUEST_HEADER)
            payload = receive_exactly(client, struct.unpack_from(">I", header, 20)[0])
            self._note(header, payload)
            origin.sendall(self._meddle(header + payload))

    def _note(self, header: bytes, payload: bytes) -> None:
        code, params = struct.unpack(">2xH16s4x", header)
        with self._lock:
            self._codes.append(code)
            if code in READS:
                _, offset, length = struct.unpack(">4sqi", params)
                self._reads.append(OriginRead(offset, length))
            elif code == Request.READV:
                for _, length, offset in struct.iter_unpack(">4siq", payload):
                    self._reads.append(OriginRead(offset, length))

    def _long_way(self, origin: socket.socket) -> socket.socket:
        """A socket on which the origin's bytes arrive late."""
        sent, arriving = socket.socketpair()
        under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def receive() -> None:
            data = b" "
            while data:
                try:
                    data = origin.recv(1 << 18)
                except OSError:
                    data = b""
                under_way.put((time.monotonic() + self._latency, data))

        def deliver() -> None:
            with contextlib.suppress(OSError), sent:
                while True:
                    due, data = under_way.get()
                    time.sleep(max(0.0, due - time.monotonic()))
                    if not data:
                        return
                    sent.sendall(data)

        for work in (receive, deliver):
            threading.Thread(target=work, daemon=True).start()
        return arriving

    def _answers(self, origin: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := origin.recv(1 << 18):
                self._flowing.wait()
                allowed = self._allowance(len(data))
                client.sendall(data[:allowed])
                self._note_passed(allowed)
                if allowed < len(data):
                    self.listener.refuse()
                    self.listener.drop_connections()
                    return
        reset(client)

    def _note_passed(self, passed: int) -> None:
        with self._lock:
            if self._answer_bytes_until_stall is None:
                return
            self._answer_bytes_until_stall -= passed
            if self._answer_bytes_until_stall <= 0:
                self._answer_bytes_until_stall = None
                self._flowing.clear()

    def _allowance(self, wanted: int) -> int:
        with self._lock:
            if self._answer_bytes_left is None:
                return wanted
            allowed = min(wanted, self._answer_bytes_left)
            self._answer_bytes_left -= allowed
            return allowed
