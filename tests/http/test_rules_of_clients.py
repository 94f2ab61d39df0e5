"""Rules that a client depends on. Each test is named after a client that fails when its rule is broken."""

from __future__ import annotations

import socket
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from crc32c import crc32c

from harness import forebay, xrootd
from harness.content import assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground
from harness.http_client import Connection, Reply, ask, parts_of
from harness.waiting import until

from .conftest import FILE, FILES

CONTENT = FILES[FILE].all()
DAV = "{DAV:}"


def test_01_xrdclhttp_compares_whole_words_of_allow(exported: Forebay) -> None:
    reply = ask(exported, "OPTIONS", "/")
    assert reply.status == 200
    assert "PROPFIND" in reply.fields["allow"].split(",")


def test_02_xrdclhttp_stats_by_propfind_without_a_depth(exported: Forebay) -> None:
    for target in ("/data", FILE):
        reply = ask(exported, "PROPFIND", target)
        assert (reply.status, reply.body.count(b"<D:response>")) == (207, 1)
    refused = ask(exported, "PROPFIND", "/data", {"Depth": "infinity"})
    assert (refused.status, b"<D:propfind-finite-depth/>" in refused.body) == (403, True)


def test_03_xrdclhttp_and_rucio_look_for_the_prefix_as_text(exported: Forebay) -> None:
    body = ask(exported, "PROPFIND", "/data", {"Depth": "1"}).body.decode()
    for name in ("multistatus", "response", "href", "propstat", "prop", "getcontentlength", "status", "resourcetype"):
        assert f"<D:{name}" in body
    assert body.count("xmlns") == 1


def test_04_davix_drops_the_first_entry_of_a_listing(exported: Forebay) -> None:
    responses = ElementTree.fromstring(ask(exported, "PROPFIND", "/data/", {"Depth": "1"}).body)
    hrefs = [response.findtext(f"{DAV}href", "") for response in responses]
    assert hrefs[0] == "/data/"
    assert responses[0].find(f".//{DAV}collection") is not None
    assert sorted(hrefs[1:]) == sorted(
        ["/data/file.bin", "/data/empty.bin", "/data/small.bin", "/data/a%20b%2520+%C3%A9.bin", "/data/sub/"]
    )


def test_05_xrdclhttp_fails_a_listing_with_an_empty_length(exported: Forebay) -> None:
    for response in ElementTree.fromstring(ask(exported, "PROPFIND", "/data/", {"Depth": "1"}).body):
        length = response.find(f".//{DAV}getcontentlength")
        if response.find(f".//{DAV}collection") is None:
            assert length is not None
            assert length.text is not None
        else:
            assert length is None
        assert response.findtext(f".//{DAV}getlastmodified", "").endswith("GMT")
        assert response.find(f".//{DAV}quota-used-bytes") is None


def test_06_fsspec_asks_for_a_file_and_closes_after_the_header(
    cache_of: Callable[..., Forebay], ground: Ground
) -> None:
    size = 256 << 20
    directory = ground.directory("long")
    with (directory / "long.bin").open("wb") as long:
        long.truncate(size)
    with forebay.export(ground, directory) as origin:
        cache = cache_of(origin.url)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            client.connect((cache.host, cache.port))
            client.sendall(b"GET /long.bin HTTP/1.1\r\nHost: test\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        fetched = cache.settled_metrics().origin_bytes
    # The socket of the server takes some MiB, and the cache reads ahead.
    assert 0 < fetched < 32 << 20


def test_07_xrdclhttp_reads_beyond_the_end_first(exported: Forebay) -> None:
    reply = ask(exported, "GET", FILE, {"Range": f"bytes=1000-{len(CONTENT) + 5_000_000}"})
    assert (reply.status, reply.fields["content-range"]) == (206, f"bytes 1000-{len(CONTENT) - 1}/{len(CONTENT)}")
    assert_same(reply.body, CONTENT[1000:], "clipped")


def test_08_aiohttp_and_rclone_accept_gzip_but_count_plain_bytes(exported: Forebay) -> None:
    fields = {"Accept-Encoding": "gzip, deflate, br"}
    for wanted in ({}, {"Range": "bytes=0-99"}):
        reply = ask(exported, "GET", FILE, {**fields, **wanted})
        assert "content-encoding" not in reply.fields
        assert_same(reply.body, CONTENT[:100] if wanted else CONTENT, "plain")
    assert "content-encoding" not in ask(exported, "GET", "/data/", fields).fields


@pytest.mark.parametrize("separator", [",", ", "])
def test_09_rcurlconnection_and_uproot_find_parts_by_their_position(exported: Forebay, separator: str) -> None:
    spans = [(5 * BLOCK, 5 * BLOCK + 9), (0, 99), (100, 199), (250, 260), (0, 0)]
    asked = separator.join(f"{first}-{last}" for first, last in spans)
    reply = ask(exported, "GET", FILE, {"Range": f"bytes={asked}"})
    assert reply.status == 206
    assert parts_of(reply) == [(f"{first}-{last}/{len(CONTENT)}", CONTENT[first : last + 1]) for first, last in spans]


def test_10_xrdclhttp_does_not_strip_quotes_of_the_boundary(exported: Forebay) -> None:
    reply = ask(exported, "GET", FILE, {"Range": "bytes=0-0,5-5"})
    kind, boundary = reply.fields["content-type"].split("; boundary=")
    assert kind == "multipart/byteranges"
    assert boundary.replace("-", "").isalnum()
    assert reply.body.startswith(b"\r\n--" + boundary.encode())
    assert reply.body.count(b"Content-Range: bytes ") == 2
    assert int(reply.fields["content-length"]) == len(reply.body)


def test_11_tcurlfile_halves_its_ranges_on_400_only(exported: Forebay) -> None:
    def status(count: int, *, length: int = 1) -> int:
        spans = ",".join(f"{index}-{index + length - 1}" for index in range(count))
        return ask(exported, "GET", FILE, {"Range": f"bytes={spans}"}).status

    assert status(4096) == 206
    assert status(4097) == 400
    assert ask(exported, "GET", FILE, {"X-Long": "x" * (128 << 10)}).status == 400


def test_12_jsroot_appends_parameters_that_are_not_of_the_name(exported: Forebay) -> None:
    query = "?stamp=17&xrdclhttp.timeout=9s500ms&cks.type=adler32&pelican.timeout=9s&directread&xrd.wantprot=unix"
    assert_same(ask(exported, "GET", FILE + query).body, CONTENT, "with parameters")
    assert ask(exported, "HEAD", FILE + query).fields["content-length"] == str(len(CONTENT))


def test_13_pelicanfs_sends_none_as_its_token(exported: Forebay) -> None:
    for method in ("GET", "HEAD", "PROPFIND"):
        assert ask(exported, method, FILE, {"Authorization": "Bearer None"}).status in (200, 207)


def test_14_gowebdav_sends_properties_in_chunks(exported: Forebay) -> None:
    body = b'<propfind xmlns="DAV:"><prop><x:y xmlns:x="z"/><displayname/></prop></propfind>'
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with Connection(exported) as connection:
        for fields, sent in (
            ({"Transfer-Encoding": "chunked"}, chunked),
            ({"Content-Length": "0"}, b""),
            ({"Content-Length": str(len(body))}, body),
        ):
            reply = connection.ask("PROPFIND", FILE, {"Depth": "0", **fields}, sent)
            assert (reply.status, b"<D:displayname>file.bin<" in reply.body) == (207, True)


def test_15_davix_does_not_trim_the_digest(exported: Forebay) -> None:
    wanted = {"Want-Digest": "NotSupported, ADLER32;q=0.9, crc32c;q=0.1"}
    assert ask(exported, "HEAD", FILE, wanted).fields["digest"] == f"adler32={zlib.adler32(CONTENT):08x}"
    crc = ask(exported, "HEAD", FILE, {"Want-Digest": "crc32c"}).fields["digest"]
    assert crc == f"crc32c={crc32c(CONTENT):08x}"
    structured = ask(exported, "HEAD", FILE, {"Want-Repr-Digest": "adler=3"}).fields["repr-digest"]
    assert structured.startswith("adler=:")
    assert "digest" not in ask(exported, "HEAD", FILE, {"Want-Digest": "unknown"}).fields


def test_16_rclone_takes_32_digits_for_an_md5(
    cache: Forebay, cache_of: Callable[..., Forebay], http_origin: xrootd.Origin
) -> None:
    other = cache_of(http_origin.url)
    tags = {ask(server, "GET", FILE, {"Range": "bytes=0-0"}).fields["etag"] for server in (cache, other)}
    tags.add(ask(cache, "HEAD", FILE).fields["etag"])
    assert len(tags) == 1
    (tag,) = tags
    assert tag.startswith('"')
    assert "-" in tag


def test_17_curl_notices_a_body_that_is_cut_short(
    serve: Callable[..., Forebay], ground: Ground, http_data: Path
) -> None:
    impatient = {"connect_timeout": "1s", "deadline": "1s", "attempts": 1, "read_attempts": 1}
    with forebay.export(ground, http_data) as origin:
        cache = serve({"origin": impatient, "export": [{"path": "/", "origins": [origin.url]}]})
        ask(cache, "GET", FILE, {"Range": "bytes=0-99"})
        cache.settled_metrics()
    with Connection(cache) as connection:
        connection.send("GET", FILE)
        answer = connection.received.read()
    head, body = answer.split(b"\r\n\r\n", 1)
    # The beginning is here, the rest of the file is not.
    assert head.startswith((b"HTTP/1.1 200 OK", b"HTTP/1.1 5"))
    if head.startswith(b"HTTP/1.1 200 OK"):
        assert len(body) < len(CONTENT)
        assert_same(body, CONTENT[: len(body)], "the bytes before the failure")
    fields = {"X-Transfer-Status": "true", "TE": "trailers"}
    reply = ask(cache, "GET", FILE, fields)
    assert reply.status in (200, 502, 504)
    if reply.status == 200:
        assert reply.trailer["x-transfer-status"].startswith("500: ")


def test_18_clients_pay_for_connections_that_errors_close(exported: Forebay) -> None:
    with Connection(exported) as connection:
        for method, target, fields, status in (
            ("GET", "/data/missing", {}, 404),
            ("GET", FILE, {"Range": "bytes=99999999-"}, 416),
            ("GET", FILE, {"If-Match": '"x"'}, 412),
            ("PUT", FILE, {"Content-Length": "3"}, 405),
            ("BREW", FILE, {}, 501),
            ("GET", "/data/../x", {}, 403),
            ("GET", FILE, {}, 200),
        ):
            reply = connection.ask(method, target, fields, b"abc" if method == "PUT" else b"")
            assert reply.status == status, (method, target)
        assert_same(reply.body, CONTENT, "after the errors")


def test_19_the_pelican_director_reads_age_as_a_whole_file_here(cache: Forebay) -> None:
    def has_age(method: str, fields: dict[str, str]) -> bool:
        return "age" in ask(cache, method, FILE, fields).fields

    assert not has_age("HEAD", {})
    assert not has_age("GET", {"Range": "bytes=0-9"})
    cache.settled_metrics()
    assert not has_age("HEAD", {})
    ask(cache, "GET", FILE)
    cache.settled_metrics()
    assert has_age("HEAD", {})
    assert has_age("GET", {"Range": "bytes=0-9"})


class Links(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes a link."""
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def test_20_fsspec_and_rclone_take_every_link_for_an_entry(exported: Forebay) -> None:
    page = Links()
    page.feed(ask(exported, "GET", "/data/").body.decode())
    assert sorted(page.links) == sorted(["file.bin", "empty.bin", "small.bin", "a%20b%2520+%C3%A9.bin", "sub/"])
    assert ask(exported, "GET", "/data").fields["location"] == "/data/"


def test_requests_that_are_pipelined_are_answered_in_order(cache: Forebay) -> None:
    for _ in ("cold", "warm"):
        with Connection(cache) as connection:
            for index in range(40):
                connection.send("GET", FILE, {"Range": f"bytes={index * BLOCK}-{index * BLOCK + 9}"})
            replies: list[Reply] = [connection.reply() for _ in range(40)]
        for index, reply in enumerate(replies):
            assert reply.body == CONTENT[index * BLOCK : index * BLOCK + 10]


def test_the_state_of_the_cache_is_in_its_status(cache: Forebay) -> None:
    def status(span: str) -> str:
        return ask(cache, "GET", FILE, {"Range": f"bytes={span}"}).fields["cache-status"].split("; ", 1)[1]

    assert status("0-9") == "fwd=uri-miss; stored"
    cache.settled_metrics()
    assert status("0-9") == "hit"
    assert status(f"0-9,{20 * BLOCK}-{20 * BLOCK + 9}") == "fwd=partial; stored"
    assert ask(cache, "GET", "/data/small.bin", {"Cache-Control": "only-if-cached"}).status == 504


def test_a_status_follows_the_body_for_clients_that_ask_for_it(cache: Forebay) -> None:
    for temperature in ("cold", "warm"):
        for wanted in ({}, {"Range": "bytes=5-99"}, {"Range": "bytes=0-0,7-9"}):
            fields = {"X-Transfer-Status": "true", "TE": "trailers", **wanted}
            reply = ask(cache, "GET", FILE, fields)
            assert reply.trailer == {"x-transfer-status": "200: OK"}, temperature
            if not wanted:
                assert_same(reply.body, CONTENT, temperature)
    # davix sends this field only.
    assert "transfer-encoding" not in ask(cache, "GET", FILE, {"TE": "trailers"}).fields


def test_browsers_of_listed_sites_may_read(serve: Callable[..., Forebay], http_data: Path) -> None:
    export = {"path": "/", "directory": str(http_data)}
    server = serve({"http": {"cors_origins": ["https://root.cern"]}, "export": [export]})
    origin = {"Origin": "https://root.cern"}
    reply = ask(server, "GET", FILE, {**origin, "Range": "bytes=0-0"})
    assert reply.fields["access-control-allow-origin"] == "https://root.cern"
    assert "Content-Range" in reply.fields["access-control-expose-headers"].split(",")
    preflight = ask(server, "OPTIONS", FILE, {**origin, "Access-Control-Request-Method": "GET"})
    assert (preflight.status, "Range" in preflight.fields["access-control-allow-headers"]) == (200, True)
    other = ask(server, "GET", FILE, {"Origin": "https://example.org"})
    assert "access-control-allow-origin" not in other.fields
    assert other.fields["vary"] == "Origin"


def test_a_client_may_have_a_copy_compared_with_its_origin(serve: Callable[..., Forebay], ground: Ground) -> None:
    directory = ground.directory("changing")
    changing = directory / "f"
    changing.write_bytes(b"old")
    with forebay.export(ground, directory) as origin:
        server = serve({"export": [{"path": "/", "origins": [origin.url], "validity": "1h"}]})
        assert ask(server, "GET", "/f").body == b"old"
        changing.write_bytes(b"newer")
        assert ask(server, "GET", "/f").body == b"old"
        # At most once in some seconds for each file.
        until_checked(server)
    assert ask(server, "GET", "/f").body == b"newer"


def until_checked(server: Forebay) -> None:
    """Repeats the wish until the copy is old enough."""
    until(lambda: ask(server, "GET", "/f", {"Cache-Control": "no-cache"}).body == b"newer", "the copy is compared")


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /data/file.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /data/file.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /data/file.bin HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        b"GET /data/file.bin HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n",
        b"GET /data/file.bin HTTP/1.1\nHost: a\n\n",
        b"GET /data/file.bin HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        b"GET /data/file.bin HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /data/file.bin HTTP/1.1\r\n\r\n",
    ],
)
def test_ambiguous_requests_end_the_connection(exported: Forebay, request_line: bytes) -> None:
    with Connection(exported) as connection:
        connection.socket.sendall(request_line + b"GET /data/small.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = connection.received.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close\r\n" in answer


def test_long_listings_are_sent_as_they_are_made(ground: Ground) -> None:
    directory = ground.directory("many")
    names = {f"{index:04}-{'x' * 40}" for index in range(2000)}
    for name in names:
        (directory / name).touch()
    with forebay.export(ground, directory) as server:
        listed = ask(server, "PROPFIND", "/", {"Depth": "1"})
        assert listed.fields["transfer-encoding"] == "chunked"
        hrefs = {element.text for element in ElementTree.fromstring(listed.body).iter(f"{DAV}href")}
        assert hrefs == {"/", *(f"/{name}" for name in names)}
        lines = ask(server, "GET", "/", {"Accept": "application/json"}).body.splitlines()
        assert len(lines) == len(names)
        # A client of HTTP/1.0 gets all until the connection ends.
        with Connection(server) as old:
            old.socket.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = old.received.read()
        assert (answer.count(b"<a href="), b"chunked" in answer) == (len(names), False)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_two_slashes_before_a_directory_name_no_other_host(exported: Forebay, method: str) -> None:
    reply = ask(exported, method, "//data")
    assert (reply.status, reply.fields["location"]) == (301, "/data/")


@pytest.mark.parametrize(
    ("request_line", "fields", "body", "status"),
    [
        (f"PUT {FILE}", "Content-Length: 100000", b"a" * 100_000, 405),
        ("PROPFIND /data", "Transfer-Encoding: chunked", b"10000\r\n" + b"a" * 65536 + b"\r\n1\r\na\r\n0\r\n\r\n", 207),
    ],
)
def test_a_body_that_is_not_read_past_gets_one_answer(
    exported: Forebay, request_line: str, fields: str, body: bytes, status: int
) -> None:
    with socket.create_connection((exported.host, exported.port), 30) as client:
        client.sendall(f"{request_line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n".encode() + body)
        received = b"".join(iter(lambda: client.recv(64 << 10), b""))
    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    assert received.count(b"\r\nDate: ") == 1


def test_only_what_is_cached_is_sent_also_of_a_file_that_is_open(cache: Forebay) -> None:
    with Connection(cache) as connection:
        assert connection.ask("GET", FILE, {"Range": "bytes=0-9"}).status == 206
        missing = {"Range": f"bytes={30 * BLOCK}-{30 * BLOCK + 9}"}
        assert connection.ask("GET", FILE, {**missing, "Cache-Control": "only-if-cached"}).status == 504
        assert connection.ask("GET", FILE, missing).status == 206


def test_the_right_to_list_is_enough_for_a_page(serve: Callable[..., Forebay], http_data: Path) -> None:
    grant = {"path": "/data", "rights": ["list"], "host": "127.0.0.1"}
    server = serve({"export": [{"path": "/", "directory": str(http_data)}], "grant": [grant]})
    page = ask(server, "GET", "/data/")
    assert (page.status, b"file.bin" in page.body) == (200, True)
    assert ask(server, "GET", FILE).status == 403
