"""An origin that follows a script: it serves patterns, records requests, and misbehaves where a rule says so."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from . import wire
from .connections import Listener, receive_exactly, reset
from .content import Pattern
from .wire import Error, Request, Status

PIECE = 1 << 20
MTIME = 1_700_000_000
SESSION_ID = bytes(range(16))


@dataclass(frozen=True)
class Asked:
    """A request as the origin received it."""

    code: int
    params: bytes
    payload: bytes
    stream_id: bytes

    @property
    def path(self) -> str:
        """The path of a path request, opaque part cut off."""
        return self.target.split("?", 1)[0]

    @property
    def target(self) -> str:
        """The path of a path request as sent, opaque part included."""
        return self.payload.rstrip(b"\0").decode()

    @property
    def range(self) -> tuple[int, int]:
        """Offset and length of a read or pgread."""
        _, offset, length = struct.unpack(">4sqi", self.params)
        return offset, length


class Exchange:
    """One request being answered, as passed to a rule's action."""

    def __init__(self, origin: ScriptedOrigin, connection: socket.socket, lock: threading.Lock, asked: Asked) -> None:
        self.origin = origin
        self.asked = asked
        self._connection = connection
        self._lock = lock

    def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        with self._lock:
            self._connection.sendall(data)

    def reply(self, body: bytes = b"", status: int = Status.OK) -> None:
        """Answers with one ordinary frame."""
        self.send(wire.response(self.asked.stream_id, status, body))

    def error(self, code: int, text: str = "scripted") -> None:
        """Answers with an error."""
        self.reply(wire.error_body(code, text), Status.ERROR)

    def as_usual(self) -> None:
        """Answers as a well-behaved origin."""
        self.origin.answer(self)

    def die(self) -> None:
        """Resets the connection without an answer."""
        reset(self._connection)


Action = Callable[[Exchange], None]


@dataclass
class Rule:
    """An action for requests of one kind, for the next `times` of them that `when` accepts."""

    code: int
    action: Action
    times: int | None
    when: Callable[[Asked], bool]


@dataclass
class Manners:
    """How the origin presents itself at login."""

    flags: int = wire.IS_SERVER | wire.PAGE_IO
    version: int = 0x511
    login_reply: bytes = SESSION_ID


@dataclass
class _Files:
    by_path: dict[str, Pattern]
    handles: dict[bytes, Pattern] = field(default_factory=dict)
    mtimes: dict[Pattern, int] = field(default_factory=dict)

    def stat(self, content: Pattern) -> bytes:
        """The stat text of a file, terminated."""
        return stat_text(content.size, self.mtimes.get(content, MTIME)).encode() + b"\0"


class ScriptedOrigin:
    """Use as a context manager. Rules given later are looked at first."""

    def __init__(
        self, files: Mapping[str, Pattern], *, manners: Manners | None = None, family: int = socket.AF_INET
    ) -> None:
        self.manners = manners or Manners()
        self._files = _Files(dict(files))
        self._rules: list[Rule] = []
        self._asked: list[Asked] = []
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.listener = Listener(self._serve, family=family)
        host = "[::1]" if family == socket.AF_INET6 else "127.0.0.1"
        self.address = f"{host}:{self.listener.port}"
        self.url = f"root://{self.address}"

    def __enter__(self) -> ScriptedOrigin:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.listener.close()

    def on(
        self, code: int, action: Action, *, times: int | None = None, when: Callable[[Asked], bool] = lambda _: True
    ) -> None:
        """Adds a rule."""
        with self._lock:
            self._rules.insert(0, Rule(code, action, times, when))

    def behave(self) -> None:
        """Forgets every rule."""
        with self._lock:
            self._rules.clear()

    def put(self, path: str, content: Pattern, *, mtime: int = MTIME) -> None:
        """Adds or replaces a file."""
        self._files.by_path[path] = content
        self._files.mtimes[content] = mtime

    def asked(self, *codes: int) -> list[Asked]:
        """The requests of these kinds received so far."""
        with self._lock:
            return [asked for asked in self._asked if asked.code in codes]

    def data_ranges(self) -> list[tuple[int, int]]:
        """Every range asked by read, pgread or readv, as (offset, length)."""
        ranges = []
        for asked in self.asked(Request.READ, Request.PGREAD, Request.READV):
            if asked.code == Request.READV:
                ranges += [(offset, length) for _, length, offset in struct.iter_unpack(">4siq", asked.payload)]
            else:
                ranges.append(asked.range)
        return ranges

    def _serve(self, connection: socket.socket) -> None:
        if receive_exactly(connection, 20) != wire.HANDSHAKE:
            return
        kind = 0 if self.manners.flags & wire.IS_MANAGER else 1
        connection.sendall(wire.response(b"\0\0", Status.OK, struct.pack(">ii", self.manners.version, kind)))
        lock = threading.Lock()
        while True:
            header = receive_exactly(connection, wire.REQUEST_HEADER)
            stream_id, code, params, length = struct.unpack(">2sH16sI", header)
            asked = Asked(code, params, receive_exactly(connection, length), stream_id)
            exchange = Exchange(self, connection, lock, asked)
            self._action_for(asked)(exchange)

    def _action_for(self, asked: Asked) -> Action:
        with self._lock:
            self._asked.append(asked)
            for rule in self._rules:
                if rule.code == asked.code and rule.times != 0 and rule.when(asked):
                    if rule.times is not None:
                        rule.times -= 1
                    return rule.action
        return self.answer

    def answer(self, exchange: Exchange) -> None:
        """The well-behaved answer to a request."""
        handler = _HANDLERS.get(exchange.asked.code)
        if handler is None:
            exchange.error(Error.UNSUPPORTED, "not in the script")
        else:
            handler(self, exchange)

    def content(self, exchange: Exchange) -> Pattern | None:
        """The file that a read's handle stands for; answers the error itself when there is none."""
        content = self._files.handles.get(exchange.asked.params[:4])
        if content is None:
            exchange.error(Error.FILE_NOT_OPEN, "file not open")
        return content

    def _protocol(self, exchange: Exchange) -> None:
        exchange.reply(struct.pack(">iI", self.manners.version, self.manners.flags))

    def _login(self, exchange: Exchange) -> None:
        exchange.reply(self.manners.login_reply)

    def _open(self, exchange: Exchange) -> None:
        content = self._files.by_path.get(exchange.asked.path)
        if content is None:
            exchange.error(Error.NOT_FOUND, "no such file")
            return
        (options,) = struct.unpack_from(">H", exchange.asked.params, 2)
        with self._lock:
            handle = struct.pack(">I", len(self._files.handles) + 1)
            self._files.handles[handle] = content
        stat = bytes(8) + self._files.stat(content) if options & 0x0400 else b""
        exchange.reply(handle + stat)

    def _close(self, exchange: Exchange) -> None:
        exchange.reply()

    def _read(self, exchange: Exchange) -> None:
        content = self.content(exchange)
        if content is None:
            return
        offset, length = exchange.asked.range
        data = content.read(offset, length)
        for start in range(0, max(len(data), 1), PIECE):
            piece = data[start : start + PIECE]
            exchange.reply(piece, Status.OK if start + PIECE >= len(data) else Status.OKSOFAR)

    def _page_read(self, exchange: Exchange) -> None:
        content = self.content(exchange)
        if content is None:
            return
        offset, length = exchange.asked.range
        send_pages(exchange, offset, content.read(offset, length))

    def _read_vector(self, exchange: Exchange) -> None:
        out = bytearray()
        for handle, length, offset in struct.iter_unpack(">4siq", exchange.asked.payload):
            content = self._files.handles.get(handle)
            if content is None or offset + length > content.size:
                exchange.error(Error.FS_ERROR, "readv past EOF")
                return
            out += struct.pack(">4siq", handle, length, offset) + content.read(offset, length)
        exchange.reply(bytes(out))

    def _stat(self, exchange: Exchange) -> None:
        if exchange.asked.payload:
            content = self._files.by_path.get(exchange.asked.path)
        else:
            content = self._files.handles.get(exchange.asked.params[12:16])
        if content is None:
            exchange.error(Error.NOT_FOUND, "no such file")
        else:
            exchange.reply(self._files.stat(content))

    def _locate(self, exchange: Exchange) -> None:
        exchange.reply(f"Sr{self.address}".encode() + b"\0")

    def _query(self, exchange: Exchange) -> None:
        (kind,) = struct.unpack_from(">H", exchange.asked.params)
        if kind != wire.Query.CONFIG:
            exchange.error(Error.UNSUPPORTED, "not in the script")
            return
        known = {"readv_ior_max": "2097136", "readv_iov_max": "1024", "bind_max": "0"}
        names = exchange.asked.payload.rstrip(b"\0").decode().split()
        exchange.reply("".join(f"{known.get(name, name)}\n" for name in names).encode())


def send_pages(exchange: Exchange, offset: int, data: bytes) -> None:
    """Answers a pgread with frames of at most about 1 MiB."""
    start = 0
    while True:
        end = min(len(data), start + PIECE - (offset + start) % wire.PAGE)
        pages = wire.encode_pages(offset + start, data[start:end])
        final = end >= len(data)
        exchange.send(wire.page_frame(exchange.asked.stream_id, offset + start, pages, final=final))
        if final:
            return
        start = end


def stat_text(size: int, mtime: int = MTIME) -> str:
    """The stat text of a readable file: id, size, flags, times, mode and owner."""
    return f"4242 {size} 16 {mtime} {mtime} {mtime} 0644 origin origin"


_HANDLERS: dict[int, Callable[[ScriptedOrigin, Exchange], None]] = {
    Request.PROTOCOL: ScriptedOrigin._protocol,
    Request.LOGIN: ScriptedOrigin._login,
    Request.OPEN: ScriptedOrigin._open,
    Request.CLOSE: ScriptedOrigin._close,
    Request.READ: ScriptedOrigin._read,
    Request.PGREAD: ScriptedOrigin._page_read,
    Request.READV: ScriptedOrigin._read_vector,
    Request.STAT: ScriptedOrigin._stat,
    Request.LOCATE: ScriptedOrigin._locate,
    Request.QUERY: ScriptedOrigin._query,
    Request.ENDSESS: ScriptedOrigin._close,
    Request.SYNC: ScriptedOrigin._close,
}
