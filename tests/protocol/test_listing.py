"""dirlist and locate: the exact bytes that clients test for."""

from __future__ import annotations

import pytest

from harness.forebay import Forebay
from harness.raw_client import RawClient
from harness.wire import Error

from .conftest import FILE

DSTAT, DCKSM = 2, 4
MARKER = b".\n0 0 0 0\n"


def test_plain_listing_separates_by_newline_and_ends_with_nul(client: RawClient, listed_names: set[str]) -> None:
    body = client.dirlist("/sizes").ok()
    assert body.endswith(b"\0")
    assert body.count(b"\0") == 1
    assert set(body[:-1].decode().split("\n")) == listed_names


def test_listing_with_stat_starts_with_its_marker(client: RawClient, listed_names: set[str]) -> None:
    body = client.dirlist("/sizes", DSTAT).ok()
    assert body.startswith(MARKER)
    assert body.endswith(b"\0")
    lines = body[len(MARKER) : -1].decode().split("\n")
    assert set(lines[::2]) == listed_names
    for name, text in zip(lines[::2], lines[1::2], strict=True):
        size = int(client.stat(f"/sizes/{name}").ok().split(b" ")[1])
        assert int(text.split(" ")[1]) == size


def test_listing_with_checksums_names_one_for_each_entry(client: RawClient) -> None:
    lines = client.dirlist("/sizes", DSTAT | DCKSM).ok()[len(MARKER) : -1].decode().split("\n")
    for text in lines[1::2]:
        words, _, checksum = text.partition(" [ ")
        assert len(words.split(" ")) == 9
        assert checksum.endswith(" ]")
        assert ":" in checksum


def test_empty_directory_lists_as_nothing(client: RawClient) -> None:
    assert client.dirlist("/empty-folder").ok() == b""


@pytest.mark.parametrize("path", ["/nowhere", FILE])
def test_listing_of_a_file_is_an_error(client: RawClient, path: str) -> None:
    assert client.dirlist(path, DSTAT).error is not None


@pytest.mark.parametrize("prefix", ["", "*"])
def test_locate_names_an_endpoint_that_the_client_can_reach(server: Forebay, client: RawClient, prefix: str) -> None:
    items = client.locate(prefix + FILE).ok().rstrip(b"\0").decode().split(" ")
    assert items
    for item in items:
        assert item[:2] in ("Sr", "Sw")
        host, _, port = item[2:].rpartition(":")
        assert int(port) == server.port
        assert host.strip("[]").removeprefix("::ffff:").removeprefix("::") == "127.0.0.1"


def test_locate_of_a_star_names_the_server_itself(server: Forebay, client: RawClient) -> None:
    assert client.locate("*").ok().rstrip(b"\0").endswith(f":{server.port}".encode())


def test_locate_of_a_missing_file_is_not_found(client: RawClient) -> None:
    assert client.locate("/nowhere/nothing").error == Error.NOT_FOUND
