"""The XRootD wire format as the suite's own peers speak it: codes, frames, and the pages of pgread."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from crc32c import crc32c

HANDSHAKE = struct.pack(">5i", 0, 0, 0, 4, 2012)
PAGE = 4096
REQUEST_HEADER = 24
RESPONSE_HEADER = 8
CLIENT_VERSION = 0x511


class Request(IntEnum):
    """Request codes."""

    AUTH = 3000
    QUERY = 3001
    CHMOD = 3002
    CLOSE = 3003
    DIRLIST = 3004
    PROTOCOL = 3006
    LOGIN = 3007
    MKDIR = 3008
    MV = 3009
    OPEN = 3010
    PING = 3011
    CHKPOINT = 3012
    READ = 3013
    RM = 3014
    RMDIR = 3015
    SYNC = 3016
    STAT = 3017
    SET = 3018
    WRITE = 3019
    FATTR = 3020
    PREPARE = 3021
    STATX = 3022
    ENDSESS = 3023
    BIND = 3024
    READV = 3025
    PGWRITE = 3026
    LOCATE = 3027
    TRUNCATE = 3028
    SIGVER = 3029
    PGREAD = 3030
    WRITEV = 3031
    CLONE = 3032


class Status(IntEnum):
    """Response status codes."""

    OK = 0
    OKSOFAR = 4000
    ATTN = 4001
    AUTHMORE = 4002
    ERROR = 4003
    REDIRECT = 4004
    WAIT = 4005
    WAITRESP = 4006
    STATUS = 4007


class Error(IntEnum):
    """Error numbers that the tests name."""

    ARG_INVALID = 3000
    ARG_MISSING = 3001
    ARG_TOO_LONG = 3002
    FILE_LOCKED = 3003
    FILE_NOT_OPEN = 3004
    FS_ERROR = 3005
    INVALID_REQUEST = 3006
    IO_ERROR = 3007
    NO_MEMORY = 3008
    NO_SPACE = 3009
    NOT_AUTHORIZED = 3010
    NOT_FOUND = 3011
    SERVER_ERROR = 3012
    UNSUPPORTED = 3013
    NO_SERVER = 3014
    NOT_FILE = 3015
    IS_DIRECTORY = 3016
    CHECKSUM = 3019
    OVERLOADED = 3024
    READ_ONLY = 3025
    AUTH_FAILED = 3030
    TIMED_OUT = 3034
    TIMER_EXPIRED = 3035


class Query(IntEnum):
    """Kinds of kXR_query."""

    STATS = 1
    CHECKSUM = 3
    XATTR = 4
    SPACE = 5
    CONFIG = 7
    OPAQUE = 16


# Flags of the protocol reply.
IS_SERVER = 0x1
IS_MANAGER = 0x2
ATTR_CACHE = 0x80
ATTR_PROXY = 0x200
PERSISTS_ON_CLOSE = 0x100000
PAGE_IO = 0x200000
HAVE_TLS = 0x80000000
GOTO_TLS = 0x40000000

# Flag of a stat text: the file counts as cached.
CACHED = 0x200

# Options of open.
OPEN_READ = 0x0010
OPEN_UPDATE = 0x0020
OPEN_NEW = 0x0008
OPEN_DELETE = 0x0002
OPEN_APPEND = 0x0200
OPEN_WRITE_ONLY = 0x8000
OPEN_AS_XRDCP = 0x0450

ASYNC_RESPONSE = 5008


class ProtocolViolation(AssertionError):
    """A peer sent bytes that the protocol does not allow."""


def request(stream_id: bytes, code: int, params: bytes = b"", payload: bytes = b"") -> bytes:
    """One request frame; `params` is padded to its 16 bytes."""
    return stream_id + struct.pack(">H16sI", code, params, len(payload)) + payload


def response(stream_id: bytes, status: int, body: bytes = b"") -> bytes:
    """One ordinary response frame."""
    return stream_id + struct.pack(">HI", status, len(body)) + body


def error_body(code: int, text: str) -> bytes:
    """The body of an error response."""
    return struct.pack(">i", code) + text.encode() + b"\0"


def async_response(stream_id: bytes, status: int, body: bytes = b"") -> bytes:
    """An answer promised by waitresp: a whole response inside an attn frame."""
    return response(b"\0\0", Status.ATTN, struct.pack(">ii", ASYNC_RESPONSE, 0) + response(stream_id, status, body))


def page_lengths(offset: int, length: int) -> Iterator[int]:
    """Lengths of the pages of a range: page boundaries lie at file offsets that are multiples of 4096."""
    end = offset + length
    while offset < end:
        step = min(PAGE - offset % PAGE, end - offset)
        yield step
        offset += step


def encode_pages(offset: int, data: bytes) -> bytes:
    """Each page preceded by its CRC-32C."""
    out = bytearray()
    position = 0
    for length in page_lengths(offset, len(data)):
        page = data[position : position + length]
        out += struct.pack(">I", crc32c(page)) + page
        position += length
    return bytes(out)


def page_frame(stream_id: bytes, offset: int, pages: bytes, *, final: bool) -> bytes:
    """One kXR_status frame of a pgread answer, its own CRC included; `pages` is already encoded."""
    covered = stream_id + struct.pack(">BB4xIq", Request.PGREAD - 3000, 0 if final else 1, len(pages), offset)
    head = stream_id + struct.pack(">HI", Status.STATUS, 4 + len(covered))
    return head + struct.pack(">I", crc32c(covered)) + covered + pages


@dataclass(frozen=True)
class PageFrame:
    """A decoded kXR_status frame of pgread."""

    offset: int
    final: bool
    data: bytes = field(repr=False)
    page_sizes: list[int] = field(repr=False)


def decode_page_frame(stream_id: bytes, body: bytes, trailing: bytes) -> PageFrame:
    """Checks every rule of the frame and of its pages."""
    if len(body) != 24:
        raise ProtocolViolation(f"status body of {len(body)} bytes")
    (announced,) = struct.unpack(">I", body[:4])
    if crc32c(body[4:]) != announced:
        raise ProtocolViolation("CRC of the status frame")
    inner_id, code, kind, reserved, length, offset = struct.unpack(">2sBB4sIq", body[4:])
    if inner_id != stream_id or code != Request.PGREAD - 3000 or reserved != b"\0\0\0\0" or kind not in (0, 1):
        raise ProtocolViolation(f"status frame for {inner_id!r}, request {code}, type {kind}")
    if length != len(trailing):
        raise ProtocolViolation(f"{len(trailing)} bytes of pages, {length} announced")
    data, sizes, position, at = bytearray(), [], 0, offset
    while position < len(trailing):
        size = min(PAGE - at % PAGE, len(trailing) - position - 4)
        if size <= 0:
            raise ProtocolViolation("a page without data")
        (checksum,) = struct.unpack_from(">I", trailing, position)
        page = trailing[position + 4 : position + 4 + size]
        if crc32c(page) != checksum:
            raise ProtocolViolation(f"CRC of the page at {at}")
        data += page
        sizes.append(size)
        position += 4 + size
        at += size
    return PageFrame(offset, kind == 0, bytes(data), sizes)
