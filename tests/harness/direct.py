"""Clients that see the store, and when files are left to them."""

from __future__ import annotations

from . import wire
from .forebay import Forebay
from .raw_client import RawClient
from .waiting import until

SEES_FILES = 0x01 | 0x40
"""Abilities: full URLs, local files."""
REDIRECTED_AMID_READS = 0x04


def logged_in(cache: Forebay, ability: int) -> RawClient:
    """A connection of a client with these abilities."""
    client = RawClient("127.0.0.1", cache.port, login=False)
    client.greet()
    client.login(ability=ability)
    return client


def until_complete(cache: Forebay, path: str) -> None:
    """Waits until the cache redirects opens to the file."""
    with logged_in(cache, SEES_FILES) as client:

        def is_left() -> bool:
            answer = client.try_open(path)
            if answer.status == wire.Status.REDIRECT:
                return True
            client.close_file(answer.ok()[:4])
            return False

        until(is_left, "the file is complete and left to clients", within=60)


def sent_bytes(cache: Forebay) -> int:
    """Bytes that the cache has sent to clients."""
    return sum(cache.settled_metrics().client_bytes().values())
