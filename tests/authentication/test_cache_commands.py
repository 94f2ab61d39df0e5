"""Only clients with the right `admin` remove files from the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness import xrootd
from harness.forebay import Forebay
from harness.raw_client import RawClient
from harness.waiting import until
from harness.wire import Error, Request

PATH = "/sizes/many-blocks.bin"
OTHER = "/sizes/block.bin"


def command(client: RawClient, text: str) -> int | None:
    """Gives a command for the cache; the error, if it is refused."""
    return client.call(Request.SET, b"", f"cache {text}".encode()).error


@pytest.fixture
def cache(serve: Callable[[Mapping[str, Any]], Forebay], plain_origin: xrootd.Origin) -> Callable[..., Forebay]:
    """Starts caches with grants as given."""

    def start(*grants: dict[str, Any]) -> Forebay:
        return serve({"export": [{"origins": [plain_origin.url]}], "grant": list(grants)})

    return start


def test_right_admin_permits_removing_cached_files_of_a_path(cache: Callable[..., Forebay]) -> None:
    to_read = {"path": "/", "rights": ["read"]}
    to_administer = {"path": PATH, "rights": ["read", "admin"]}
    server = cache(to_read, to_administer)
    with server.client() as client:
        assert command(client, f"evict {PATH}") == Error.NOT_FOUND
        handles = {path: client.open(path) for path in (PATH, OTHER)}
        for handle in handles.values():
            client.read(handle, 0, 1000).ok()
        assert command(client, f"evict {PATH}") == Error.FILE_LOCKED
        for handle in handles.values():
            client.close_file(handle).ok()
        server.settled_metrics()
        assert command(client, f"evict {PATH}") is None
        until(lambda: command(client, f"evict {PATH}") == Error.NOT_FOUND, "the file has left the cache")
        handle = client.open(PATH)
        client.read(handle, 0, 1000).ok()
        assert command(client, f"fevict {PATH}") is None
        for refused in (f"evict {OTHER}", f"fevict {OTHER}", "evict /no/such/file"):
            assert command(client, refused) == Error.NOT_AUTHORIZED, refused
        assert command(client, f"pin {PATH}") == Error.ARG_INVALID


def test_without_grants_cache_commands_are_refused(cache: Callable[..., Forebay]) -> None:
    with cache().client() as client:
        client.read(client.open(PATH), 0, 1000).ok()
        assert command(client, f"fevict {PATH}") == Error.UNSUPPORTED
