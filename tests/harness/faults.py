"""Misbehaviour for the scripted origin, each a rule's action."""

from __future__ import annotations

import struct
import threading

from . import wire
from .scripted import Action, Exchange
from .wire import Status


def stay_silent(_: Exchange) -> None:
    """Never answers."""


def die(exchange: Exchange) -> None:
    """Resets the connection."""
    exchange.die()


def die_after(sent_bytes: int) -> Action:
    """Announces a whole answer to a read, sends part of it, then resets the connection."""

    def action(exchange: Exchange) -> None:
        content = exchange.origin.content(exchange)
        if content is None:
            return
        offset, length = exchange.asked.range
        data = content.read(offset, length)
        stream_id = exchange.asked.stream_id
        if exchange.asked.code == wire.Request.PGREAD:
            frame = wire.page_frame(stream_id, offset, wire.encode_pages(offset, data), final=True)
        else:
            frame = wire.response(stream_id, Status.OK, data)
        exchange.send(frame[:sent_bytes])
        exchange.die()

    return action


def fail_with(code: int, text: str = "scripted failure") -> Action:
    """Answers with an error."""
    return lambda exchange: exchange.error(code, text)


def end_early(kept_bytes: int) -> Action:
    """Ends a read early, as if the file ended there."""

    def action(exchange: Exchange) -> None:
        content = exchange.origin.content(exchange)
        if content is None:
            return
        offset, length = exchange.asked.range
        data = content.read(offset, min(length, kept_bytes))
        if exchange.asked.code == wire.Request.PGREAD:
            frame = wire.page_frame(exchange.asked.stream_id, offset, wire.encode_pages(offset, data), final=True)
            exchange.send(frame)
        else:
            exchange.reply(data)

    return action


def corrupt_page(index: int) -> Action:
    """Flips one bit in a page of a pgread answer, after its CRC was computed."""

    def action(exchange: Exchange) -> None:
        content = exchange.origin.content(exchange)
        if content is None:
            return
        offset, length = exchange.asked.range
        pages = bytearray(wire.encode_pages(offset, content.read(offset, length)))
        at = min(index * (wire.PAGE + 4) + 4 + 17, len(pages) - 1)
        pages[at] ^= 0x10
        exchange.send(wire.page_frame(exchange.asked.stream_id, offset, bytes(pages), final=True))

    return action


def ask_to_wait(seconds: int, text: bytes = b"") -> Action:
    """Answers wait: the same request is to come again."""
    return lambda exchange: exchange.reply(struct.pack(">i", seconds) + text, Status.WAIT)


def promise(seconds: int) -> Action:
    """Answers waitresp, and soon after the usual answer inside an attn. For requests answered by one frame."""

    def action(exchange: Exchange) -> None:
        exchange.reply(struct.pack(">i", seconds), Status.WAITRESP)
        inner = _Captured(exchange)
        exchange.origin.answer(inner)
        timer = threading.Timer(0.3, lambda: exchange.send(inner.inside_attn()))
        timer.daemon = True
        timer.start()

    return action


def redirect(text: str, port: int) -> Action:
    """Answers with a redirect."""
    return lambda exchange: exchange.reply(struct.pack(">i", port) + text.encode(), Status.REDIRECT)


def delay(seconds: float) -> Action:
    """Answers as usual, but late, without blocking the connection."""

    def action(exchange: Exchange) -> None:
        timer = threading.Timer(seconds, exchange.as_usual)
        timer.daemon = True
        timer.start()

    return action


class _Captured(Exchange):
    """Collects the frames of the usual answer."""

    def __init__(self, original: Exchange) -> None:
        self.origin = original.origin
        self.asked = original.asked
        self._frames = b""

    def send(self, data: bytes) -> None:
        self._frames += data

    def inside_attn(self) -> bytes:
        """The collected frame, as asynresp."""
        body = struct.pack(">ii", wire.ASYNC_RESPONSE, 0) + self._frames
        return wire.response(b"\0\0", Status.ATTN, body)
