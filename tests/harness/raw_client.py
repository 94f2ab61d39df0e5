"""A client that speaks the protocol byte by byte, so that a test can send requests that no library would."""

from __future__ import annotations

import socket
import ssl
import struct
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from . import wire
from .wire import Request, Status

ANSWER_SECONDS = 40.0
LOGIN_ABILITY = 0x01 | 0x04 | 0x40 | 0x80
ASYNC_CAPABLE = 0x80 | 5
NO_TLS = 0x01 | 0x08
WANTS_TLS = NO_TLS | 0x02 | 0x04


@dataclass(frozen=True)
class Frame:
    """One raw response frame; `trailing` is the part of a kXR_status frame outside of its length."""

    stream_id: bytes
    status: int
    body: bytes = field(repr=False)
    trailing: bytes = field(default=b"", repr=False)


@dataclass
class Answer:
    """Everything that answered one request."""

    frames: list[Frame]
    promised: bool = False
    """Whether waitresp came first and the answer inside an attn."""
    page_frames: list[wire.PageFrame] = field(default_factory=list)

    @property
    def status(self) -> int:
        """Status of the final frame."""
        return self.frames[-1].status

    @property
    def body(self) -> bytes:
        """The bodies of all frames, one after the other; for pgread the data without checksums."""
        if self.page_frames:
            return b"".join(frame.data for frame in self.page_frames)
        return b"".join(frame.body for frame in self.frames)

    @property
    def error(self) -> int | None:
        """The error number, or None when the request succeeded."""
        if self.status != Status.ERROR:
            return None
        return int(struct.unpack(">i", self.frames[-1].body[:4])[0])

    @property
    def error_text(self) -> str:
        """The text of the error without its NUL; empty when the request succeeded."""
        if self.error is None:
            return ""
        return self.frames[-1].body[4:].rstrip(b"\0").decode(errors="replace")

    def ok(self) -> bytes:
        """The body of an answer that must have succeeded."""
        assert self.error is None, f"error {self.error}: {self.error_text}"
        assert self.status in (Status.OK, Status.STATUS), f"status {self.status}"
        return self.body


class Closed(AssertionError):
    """The server closed the connection."""


class RawClient:
    """One connection. Use as a context manager."""

    def __init__(
        self, host: str, port: int, *, login: bool = True, timeout: float = ANSWER_SECONDS, source: str = ""
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.session_id = b""
        self.flags = 0
        self.server_version = 0
        self._ids = count(1)
        self._stash: defaultdict[bytes, list[Frame]] = defaultdict(list)
        if login:
            self.greet()
            self.login()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection without ceremony, as every real client does."""
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def receive_bytes(self, length: int) -> bytes:
        """Receives exactly `length` bytes."""
        out = bytearray()
        while len(out) < length:
            piece = self.socket.recv(min(length - len(out), 1 << 20))
            if not piece:
                raise Closed(f"connection closed after {len(out)} of {length} bytes")
            out += piece
        return bytes(out)

    def is_closed_by_peer(self) -> bool:
        """Waits for the next byte: true if the server closes, false if it sends something."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except ConnectionResetError:
            return True

    def greet(self) -> None:
        """Handshake and kXR_protocol in one segment, as stock clients send them."""
        self.send_bytes(wire.HANDSHAKE + protocol_request(b"\0\0"))
        self.read_handshake_reply()
        body = self.answer(b"\0\0").ok()
        _, self.flags = struct.unpack(">iI", body[:8])

    def start_tls(self, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
        """Handshake and kXR_protocol of a client that wants TLS, and the handshake of TLS; the login comes after it."""
        self.send_bytes(wire.HANDSHAKE + protocol_request(b"\0\0", flags=WANTS_TLS))
        self.read_handshake_reply()
        _, self.flags = struct.unpack(">iI", self.answer(b"\0\0").ok()[:8])
        assert self.flags & wire.GOTO_TLS, f"no TLS: flags {self.flags:x}"
        encrypted = context.wrap_socket(self.socket, server_hostname="localhost", session=session)
        self.socket = encrypted
        return encrypted

    def read_handshake_reply(self) -> None:
        """Reads and checks the 16 bytes of the handshake reply."""
        frame = self.receive()
        if frame.stream_id != b"\0\0" or frame.status != 0 or len(frame.body) != 8:
            raise wire.ProtocolViolation(f"handshake reply {frame}")
        self.server_version, _ = struct.unpack(">ii", frame.body)

    def login(
        self,
        *,
        user: bytes = b"tester",
        cgi: bytes = b"xrd.appname=raw",
        capver: int = ASYNC_CAPABLE,
        ability: int = LOGIN_ABILITY,
    ) -> Answer:
        """Logs in and keeps the session id."""
        params = struct.pack(">i8sBBBB", 4711, user, 0, ability, capver, 0)
        answer = self.call(Request.LOGIN, params, cgi)
        if answer.error is None:
            self.session_id = answer.body[:16]
        return answer

    def next_stream_id(self) -> bytes:
        """A stream id not used before on this connection, written as XrdCl does."""
        return struct.pack("<H", next(self._ids))

    def send(self, code: int, params: bytes = b"", payload: bytes = b"", *, stream_id: bytes | None = None) -> bytes:
        """Sends a request and returns its stream id."""
        stream_id = stream_id or self.next_stream_id()
        self.send_bytes(wire.request(stream_id, code, params, payload))
        return stream_id

    def call(self, code: int, params: bytes = b"", payload: bytes = b"", *, stream_id: bytes | None = None) -> Answer:
        """Sends a request and waits for its whole answer."""
        return self.answer(self.send(code, params, payload, stream_id=stream_id))

    def receive(self) -> Frame:
        """The next frame on the socket, for any request."""
        stream_id, status, length = struct.unpack(">2sHi", self.receive_bytes(8))
        if length < 0:
            raise wire.ProtocolViolation(f"frame length {length}")
        body = self.receive_bytes(length)
        trailing = b""
        if status == Status.STATUS:
            if length < 16:
                raise wire.ProtocolViolation(f"status frame of {length} bytes")
            trailing = self.receive_bytes(int(struct.unpack(">I", body[12:16])[0]))
        if status == Status.ERROR and (length < 5 or not body.endswith(b"\0")):
            raise wire.ProtocolViolation("an error without a terminated text aborts stock clients")
        return Frame(stream_id, status, body, trailing)

    def answer(self, stream_id: bytes) -> Answer:
        """Collects the answer to a request; frames of other requests are kept for their own turn."""
        answer = Answer([])
        while True:
            frame = self._next_for(stream_id)
            if frame.status == Status.WAITRESP:
                answer.promised = True
                continue
            answer.frames.append(frame)
            if frame.status == Status.STATUS:
                answer.page_frames.append(wire.decode_page_frame(stream_id, frame.body, frame.trailing))
                if not answer.page_frames[-1].final:
                    continue
            if frame.status != Status.OKSOFAR:
                return answer

    def _next_for(self, stream_id: bytes) -> Frame:
        while not self._stash[stream_id]:
            frame = self.receive()
            if frame.status == Status.ATTN:
                frame = _unwrap(frame)
            self._stash[frame.stream_id].append(frame)
        return self._stash[stream_id].pop(0)

    def open(self, path: str | bytes, options: int = wire.OPEN_AS_XRDCP) -> bytes:
        """Opens a file and returns its handle."""
        return self.try_open(path, options).ok()[:4]

    def try_open(self, path: str | bytes, options: int = wire.OPEN_AS_XRDCP) -> Answer:
        """Opens a file and returns the whole answer."""
        return self.call(Request.OPEN, struct.pack(">HHH", 0, options, 0), _encoded(path))

    def close_file(self, handle: bytes) -> Answer:
        """Closes a handle."""
        return self.call(Request.CLOSE, handle)

    def read(self, handle: bytes, offset: int, length: int, args: bytes = bytes(8)) -> Answer:
        """kXR_read with the eight bytes of arguments that stock clients always append."""
        return self.call(Request.READ, read_params(handle, offset, length), args)

    def page_read(self, handle: bytes, offset: int, length: int, args: bytes = bytes(2)) -> Answer:
        """kXR_pgread; every frame and page is checked."""
        return self.call(Request.PGREAD, read_params(handle, offset, length), args)

    def read_vector(self, elements: Iterable[tuple[bytes, int, int]]) -> Answer:
        """kXR_readv of (handle, offset, length) elements."""
        payload = b"".join(struct.pack(">4siq", handle, length, offset) for handle, offset, length in elements)
        return self.call(Request.READV, b"", payload)

    def stat(self, path: str | bytes = b"", *, handle: bytes = bytes(4), options: int = 0) -> Answer:
        """kXR_stat by path, or by handle when the path is empty."""
        return self.call(Request.STAT, struct.pack(">B7xI4s", options, 0, handle), _encoded(path))

    def dirlist(self, path: str | bytes, options: int = 0) -> Answer:
        """kXR_dirlist."""
        return self.call(Request.DIRLIST, struct.pack(">15xB", options), _encoded(path))

    def locate(self, path: str | bytes, options: int = 0) -> Answer:
        """kXR_locate."""
        return self.call(Request.LOCATE, struct.pack(">H", options), _encoded(path))

    def query(self, kind: int, argument: bytes) -> Answer:
        """kXR_query."""
        return self.call(Request.QUERY, struct.pack(">H", kind), argument)


def protocol_request(stream_id: bytes, *, expect: int = 3, payload: bytes = b"", flags: int = NO_TLS) -> bytes:
    """A kXR_protocol request, of a client without TLS unless flags say otherwise."""
    return wire.request(stream_id, Request.PROTOCOL, struct.pack(">iBB", wire.CLIENT_VERSION, flags, expect), payload)


def read_params(handle: bytes, offset: int, length: int) -> bytes:
    """The parameters shared by read and pgread."""
    return struct.pack(">4sqi", handle, offset, length)


def vector_elements(body: bytes) -> list[tuple[int, bytes]]:
    """Splits the body of a readv answer into (offset, data) elements."""
    elements, position = [], 0
    while position < len(body):
        _, length, offset = struct.unpack_from(">4siq", body, position)
        position += 16
        elements.append((offset, body[position : position + length]))
        position += length
    return elements


def _encoded(path: str | bytes) -> bytes:
    return path.encode() if isinstance(path, str) else path


def _unwrap(frame: Frame) -> Frame:
    """The response inside an attn/asynresp frame."""
    action, _, stream_id, status, length = struct.unpack(">ii2sHi", frame.body[:16])
    if action != wire.ASYNC_RESPONSE:
        raise wire.ProtocolViolation(f"attn action {action}")
    body, trailing = frame.body[16:], b""
    if status == Status.STATUS:
        body, trailing = body[:length], body[length:]
    elif length != len(body):
        raise wire.ProtocolViolation(f"asynresp announces {length} bytes and holds {len(body)}")
    return Frame(stream_id, status, body, trailing)
