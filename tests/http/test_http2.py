"""HTTP/2: the same answers as over HTTP/1.1, on the same port; streams that are slow, given up, or too many."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import pytest

from harness import xrootd
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, program
from harness.http_client import Reply, ask, parts_of
from harness.pki import Credential, Grid

from .conftest import FILE, FILES

CONTENT = FILES[FILE].all()
SECONDS = 30.0
STREAMS_MAX = 100
GOAWAY = bytes([0, 0, 8, 7, 0, 0, 0, 0, 0])
"""The header of the frame that announces the end of a connection."""


@pytest.fixture
def over_tls(serve: Callable[..., Forebay], grid: Grid, host: Credential) -> Callable[..., Forebay]:
    """Starts servers with a certificate."""

    def start(export: Mapping[str, Any], **tables: object) -> Forebay:
        files = {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)}
        return serve({"export": [{"path": "/", **export}], "tls": files, **tables})

    return start


@pytest.fixture
def exported(over_tls: Callable[..., Forebay], http_data: Path) -> Forebay:
    """The files without a cache."""
    return over_tls({"directory": str(http_data)})


class Client:
    """One connection of HTTP/2."""

    def __init__(self, server: Forebay, grid: Grid) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(capath=str(grid.directory))
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection((server.host, server.port), SECONDS)
        self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1")
        assert self.socket.selected_alpn_protocol() == "h2"
        self.session = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.session.initiate_connection()
        self.flush()
        self.events: list[h2.events.Event] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def flush(self) -> None:
        """Sends what waits."""
        self.socket.sendall(self.session.data_to_send())

    def ask(self, method: str, path: str, fields: Mapping[str, str] | None = None) -> int:
        """Sends a request; returns its stream."""
        stream = self.session.get_next_available_stream_id()
        pseudo = {":method": method, ":scheme": "https", ":authority": "cache.test", ":path": path}
        self.session.send_headers(stream, [*pseudo.items(), *(fields or {}).items()], end_stream=True)
        self.flush()
        return stream

    def next_events(self) -> list[h2.events.Event]:
        """The events of the next bytes, which may have none."""
        received = self.socket.recv(64 << 10)
        if not received:
            raise EOFError
        events: list[h2.events.Event] = self.session.receive_data(received)
        self.flush()
        return events

    def reply(self, stream: int) -> Reply:
        """The answer of a stream, to its end. Other streams wait."""
        reply, ended = Reply(0, {}, b""), False
        pending, self.events = self.events, []
        while not ended:
            for event in pending:
                if getattr(event, "stream_id", None) != stream:
                    self.events.append(event)
                elif isinstance(event, h2.events.ResponseReceived):
                    assert event.headers is not None
                    reply.fields = {str(name): str(value) for name, value in event.headers}
                    reply.status = int(reply.fields.pop(":status"))
                elif isinstance(event, h2.events.DataReceived):
                    assert event.data is not None
                    reply.body += event.data
                    if event.flow_controlled_length:
                        self.session.acknowledge_received_data(event.flow_controlled_length, stream)
                elif isinstance(event, h2.events.TrailersReceived):
                    reply.trailer = {str(name): str(value) for name, value in event.headers or []}
                elif isinstance(event, h2.events.StreamEnded):
                    ended = True
                elif isinstance(event, h2.events.StreamReset):
                    raise ConnectionError(event.error_code)
            if not ended:
                self.flush()
                pending = self.next_events()
        return reply


@pytest.fixture
def client(exported: Forebay, grid: Grid) -> Iterator[Client]:
    """A connection to the files."""
    with Client(exported, grid) as opened:
        yield opened


def curl(grid: Grid, *arguments: str | Path, status: int = 0) -> bytes:
    """Runs curl with HTTP/2 to its end."""
    flags = ["--http2", "--silent", "--show-error", "--max-time", "60", "--capath", str(grid.directory)]
    done = subprocess.run([program("curl"), *flags, *arguments], capture_output=True, check=False)
    assert done.returncode == status, done.stderr.decode()
    return done.stdout


def test_curl_gets_files_and_ranges_cold_and_warm(
    over_tls: Callable[..., Forebay], http_origin: xrootd.Origin, grid: Grid, ground: Ground
) -> None:
    cache = over_tls({"origins": [http_origin.url]})
    url = f"https://{cache.address}{FILE}"
    target = ground.directory("http2") / "copy"
    for temperature in ("cold", "warm"):
        version = curl(grid, "--fail", "--write-out", "%{http_version}", "--output", target, url)
        assert version == b"2"
        assert_same(target.read_bytes(), CONTENT, temperature)
        assert_same(curl(grid, "--fail", "--range", "70000-", url), CONTENT[70_000:], temperature)
        target.write_bytes(CONTENT[:100_000])
        curl(grid, "--fail", "--continue-at", "-", "--output", target, url)
        assert_same(target.read_bytes(), CONTENT, f"resumed {temperature}")
    cache.settled_metrics()
    # Many requests over one connection at the same time.
    urls = [argument for _ in range(20) for argument in ("--output", "/dev/null", url)]
    numbers = curl(grid, "--fail", "--parallel", "--write-out", "%{size_download} %{num_connects}\n", *urls).decode()
    assert [line.split()[0] for line in numbers.splitlines()] == [str(len(CONTENT))] * 20


REQUESTS: list[tuple[str, str, dict[str, str]]] = [
    ("GET", FILE, {}),
    ("GET", FILE, {"range": "bytes=5-70000"}),
    ("GET", FILE, {"range": f"bytes=0-0,{2 * BLOCK}-{3 * BLOCK},7-8"}),
    ("GET", FILE, {"range": "bytes=999999999-"}),
    ("GET", FILE, {"range": "bytes=0-9", "if-range": '"other"'}),
    ("GET", FILE, {"if-match": '"other"'}),
    ("GET", "/data/empty.bin", {}),
    ("GET", "/data/a%20b%2520+%C3%A9.bin", {"range": "bytes=-100"}),
    ("GET", "/data/", {}),
    ("GET", "/data", {}),
    ("GET", "/data", {"accept": "application/json"}),
    ("GET", "/data/missing", {}),
    ("GET", FILE, {"expect": "something"}),
    ("HEAD", FILE, {"want-digest": "adler32"}),
    ("HEAD", "/data/missing", {}),
    ("HEAD", "/data/", {}),
    ("PROPFIND", FILE, {}),
    ("PROPFIND", "/data/", {"depth": "1"}),
    ("PROPFIND", "/data/", {"depth": "infinity"}),
    ("OPTIONS", "*", {"origin": "https://example.org", "access-control-request-method": "GET"}),
    ("PUT", FILE, {}),
    ("TRACE", FILE, {}),
    ("BREW", FILE, {}),
]


@pytest.mark.parametrize(("method", "path", "fields"), REQUESTS)
def test_answers_are_those_of_http_1(
    exported: Forebay, grid: Grid, client: Client, method: str, path: str, fields: dict[str, str]
) -> None:
    over_2 = client.reply(client.ask(method, path, fields))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=str(grid.directory))
    over_1 = ask(exported, method, path, fields, tls=context)
    unlike = {"date", "age", "connection", "transfer-encoding"}
    assert over_2.status == over_1.status
    assert {key: value for key, value in over_2.fields.items() if key not in unlike} == {
        key: value for key, value in over_1.fields.items() if key not in unlike
    }
    assert_same(over_2.body, over_1.body, path)


def test_a_long_file_that_is_not_in_memory_arrives_with_the_least_memory(
    over_tls: Callable[..., Forebay], grid: Grid, ground: Ground
) -> None:
    """A stream has memory of its connection: its reads must not wait for more of it."""
    directory, content = ground.directory("long-file"), Pattern(6 << 20, 76)
    content.write(directory / "long.bin")
    server = over_tls({"directory": str(directory)}, memory={"budget": "16MiB"})
    with (directory / "long.bin").open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert_same(curl(grid, "--fail", f"https://{server.address}/long.bin"), content.all(), "over HTTP/2")


def test_a_body_that_ends_with_the_connection_ends_with_a_message_of_tls(exported: Forebay, grid: Grid) -> None:
    """Without it a client cannot distinguish the end from a connection that was cut (RFC 9112, 9.8)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=str(grid.directory))
    plain = socket.create_connection((exported.host, exported.port), SECONDS)
    with context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as client:
        client.sendall(b"GET /data/ HTTP/1.0\r\n\r\n")
        # Raises an error if the connection ends without the message.
        received = b"".join(iter(lambda: client.recv(64 << 10), b""))
    assert received.rstrip().endswith(b"</html>")


def test_a_status_follows_the_body_if_it_is_wished(client: Client) -> None:
    reply = client.reply(client.ask("GET", FILE, {"x-transfer-status": "true", "range": "bytes=0-9,20-29"}))
    assert (reply.status, reply.trailer) == (206, {"x-transfer-status": "200: OK"})
    assert [content for _, content in parts_of(reply)] == [CONTENT[:10], CONTENT[20:30]]
    assert "content-length" not in reply.fields


def test_bodies_of_requests_are_read_past(client: Client) -> None:
    body = b'<propfind xmlns="DAV:"><prop><displayname/></prop></propfind>'
    for _ in range(20):
        stream = client.session.get_next_available_stream_id()
        fields = [(":method", "PROPFIND"), (":scheme", "https"), (":authority", "cache.test"), (":path", FILE)]
        client.session.send_headers(stream, fields)
        client.session.send_data(stream, body * 150, end_stream=True)
        client.flush()
        assert client.reply(stream).status == 207


def test_a_stream_that_is_not_read_does_not_stop_others(client: Client) -> None:
    # The windows of the client let 64 KiB come, for all streams together.
    client.session.increment_flow_control_window(1 << 20)
    slow = client.ask("GET", FILE)
    for _ in range(10):
        assert_same(client.reply(client.ask("GET", FILE, {"range": "bytes=0-9999"})).body, CONTENT[:10_000], "other")
    client.session.increment_flow_control_window(len(CONTENT), slow)
    assert_same(client.reply(slow).body, CONTENT, "slow")


def test_streams_of_one_connection_are_limited(client: Client) -> None:
    streams = [client.ask("GET", FILE, {"range": "bytes=0-99"})]
    assert client.reply(streams[0]).status == 206
    settings = client.session.remote_settings
    assert settings.max_concurrent_streams == STREAMS_MAX
    assert settings.max_header_list_size == 128 << 10
    # Whole files, of which the windows let nothing more come.
    streams = [client.ask("GET", FILE) for _ in range(STREAMS_MAX)]
    with pytest.raises(h2.exceptions.TooManyStreamsError):
        client.ask("GET", FILE)
    client.session.reset_stream(streams.pop())
    client.flush()
    client.session.increment_flow_control_window(STREAMS_MAX * len(CONTENT))
    assert client.reply(client.ask("GET", FILE, {"range": "bytes=0-99"})).body == CONTENT[:100]


def test_a_client_that_resets_its_requests_in_a_flood_is_closed(exported: Forebay, client: Client) -> None:
    pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", "cache.test"), (":path", FILE)]
    for _ in range(1000):
        stream = client.session.get_next_available_stream_id()
        client.session.send_headers(stream, pseudo, end_stream=True)
        client.session.reset_stream(stream)
    # The server may close the connection before it has taken everything.
    with contextlib.suppress(OSError):
        client.flush()
        while client.socket.recv(64 << 10):
            pass
    exported.process.wait_for_line(r"connection closed .*HTTP/2: .*excessive load")


def test_a_header_above_the_limit_is_refused(client: Client) -> None:
    fields = {f"x-{number}": "y" * 15_000 for number in range(10)}
    assert client.reply(client.ask("GET", FILE, fields)).status == 431


def test_an_idle_connection_is_closed_in_time(over_tls: Callable[..., Forebay], http_data: Path, grid: Grid) -> None:
    server = over_tls({"directory": str(http_data)}, http={"idle_time_max": "4s"})
    with Client(server, grid) as client:
        assert client.reply(client.ask("GET", FILE, {"range": "bytes=0-0"})).status == 206
        # The client does not answer, and does not close its side.
        received = b"".join(iter(lambda: client.socket.recv(64 << 10), b""))
    assert GOAWAY in received


def test_a_failure_of_the_origin_resets_the_stream_only(
    over_tls: Callable[..., Forebay], ground: Ground, grid: Grid
) -> None:
    directory = ground.directory("http2-cut")
    (directory / "cut.bin").write_bytes(CONTENT)
    (directory / "good.bin").write_bytes(CONTENT)
    server = over_tls({"directory": str(directory)})
    with Client(server, grid) as client:
        cut = client.ask("GET", "/cut.bin")
        while not any(isinstance(event, h2.events.DataReceived) for event in client.events):
            client.events.extend(client.next_events())
        # The window has let 64 KiB come, and the rest of the file vanishes.
        (directory / "cut.bin").open("r+b").truncate(len(CONTENT) // 2)
        client.session.increment_flow_control_window(2 * len(CONTENT))
        client.session.increment_flow_control_window(len(CONTENT), cut)
        client.flush()
        with pytest.raises(ConnectionError):
            client.reply(cut)
        assert_same(client.reply(client.ask("GET", "/good.bin")).body, CONTENT, "good")


def test_http_2_can_be_switched_off(over_tls: Callable[..., Forebay], http_data: Path, grid: Grid) -> None:
    server = over_tls({"directory": str(http_data)}, http={"http2": False})
    answer = curl(grid, "--write-out", "%{http_version}", "--output", "/dev/null", f"https://{server.address}{FILE}")
    assert answer == b"1.1"


@pytest.fixture(scope="session")
def h2spec(ground: Ground) -> Path:
    """The conformance tests for HTTP/2."""
    module, built = Path(__file__).parent / "h2spec", ground.directory("h2spec") / "h2spec"
    argv: list[str | Path] = [program("go"), "build", "-o", built, "github.com/summerwind/h2spec/cmd/h2spec"]
    subprocess.run(argv, cwd=module, check=True, timeout=600)
    return built


def test_h2spec_finds_no_deviation_from_the_standard(exported: Forebay, h2spec: Path) -> None:
    flags = ["-t", "-k", "-h", exported.host, "-p", str(exported.port), "-P", FILE, "--timeout", "20"]
    done = subprocess.run([h2spec, *flags], capture_output=True, text=True, timeout=600, check=False)
    summary = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", done.stdout)
    assert summary is not None, done.stdout + done.stderr
    assert int(summary[2]) >= 144, done.stdout
    assert summary[4] == "0", done.stdout
