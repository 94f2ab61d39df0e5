"""Refusals, limits and the raw protocol of the dCap front."""

from __future__ import annotations

import contextlib
import errno
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import records, xrootd
from harness.clients import run_client
from harness.content import assert_same
from harness.dcap import Door, Reader, dcap_url, received_all
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.waiting import until

from .conftest import FILE, FILES

ACK, FIN, DATA, READ, CLOSE, SEEK_READ = 6, 7, 8, 2, 4, 11


@pytest.fixture
def guarded(serve: Callable[..., Forebay], dcap_origin: xrootd.Origin, dcap_listen: str) -> Forebay:
    """A cache with a part that is closed."""
    return serve(
        {
            "export": [{"path": "/", "origins": [dcap_origin.url]}],
            "dcap": {"listen": [dcap_listen]},
            "grant": [{"path": "/data", "rights": ["read", "stat"], "host": "127.0.0.1"}],
        }
    )


def test_rights_count(guarded: Forebay, reader: Callable[..., Reader]) -> None:
    url = dcap_url(guarded)
    client = reader()
    assert client.call("open", url + "/closed/secret.bin") == (-1, errno.EACCES)
    assert client.call("open", url + "/closed/missing.bin") == (-1, errno.EACCES)
    # libdcap 2.47 reports all failures of a stat as a missing file.
    assert client.call("size", url + "/closed/secret.bin") == (-1, errno.ENOENT)
    with Door(guarded) as door:
        door.greet()
        assert door.ask('1 0 client stat "dcap://host/closed/secret.bin"').endswith(" EACCES")
    assert client.call("open", url + "/data/../closed/secret.bin")[0] == -1
    assert client.call("open", url + FILE)[0] > 0


def test_missing_files_and_writes_are_refused(
    dcap_cache: Forebay, reader: Callable[..., Reader], ground: Ground
) -> None:
    url = dcap_url(dcap_cache)
    client = reader()
    assert client.call("open", url + "/data/none") == (-1, errno.ENOENT)
    assert client.call("open", url + "/data") == (-1, errno.EISDIR)
    assert client.call("open", url + "/data/a?b=c") == (-1, errno.EINVAL)
    assert client.call("openw", url + "/data/new") == (-1, errno.EROFS)
    assert client.call("unlink", url + FILE) == (-1, errno.EROFS)
    source = FILES["/data/one-byte.bin"].write(ground.directory("upload") / "file")
    upload = run_client([program("dccp"), source, url + "/data/new"])
    assert upload.returncode != 0
    assert b"Read-only" in upload.stderr
    assert client.call("size", url + FILE) == (FILES[FILE].size, 0)


def test_a_path_names_its_origin(
    serve: Callable[..., Forebay], dcap_origin: xrootd.Origin, dcap_listen: str, ground: Ground
) -> None:
    server = serve({"forwarding": {"allow": ["127.0.0.1:*"]}, "dcap": {"listen": [dcap_listen]}})
    copy = ground.directory("forwarded") / "copy"
    done = run_client([program("dccp"), f"{dcap_url(server)}/{dcap_origin.url}/{FILE}", copy])
    assert done.returncode == 0, done.stderr
    assert_same(copy.read_bytes(), FILES[FILE].all(), FILE)


def test_dccp_stages_a_file(dcap_cache: Forebay, reader: Callable[..., Reader]) -> None:
    url = dcap_url(dcap_cache) + FILE
    done = run_client([program("dccp"), "-P", url])
    assert done.returncode == 0, done.stderr
    client = reader()
    until(lambda: client.call("check", url)[0] == 0, "the file is on disk")


def test_requests_may_be_sent_without_waiting(dcap_cache: Forebay) -> None:
    content = FILES[FILE]
    reads = [(500_000, 2000), (0, 1), (content.size - 10, 100)]
    requests = b"".join(struct.pack(">iiqiq", 24, SEEK_READ, offset, 0, count) for offset, count in reads)
    expected = b""
    for offset, count in reads:
        data = content.read(offset, count)
        expected += struct.pack(">iiiiii", 12, ACK, SEEK_READ, 0, 4, DATA)
        expected += struct.pack(">i", len(data)) + data + struct.pack(">i", -1)
        expected += struct.pack(">iiii", 12, FIN, SEEK_READ, 0)
    expected += struct.pack(">iiii", 12, ACK, CLOSE, 0)
    with Door(dcap_cache) as door:
        door.greet()
        connection = door.data(door.open(3, FILE) + requests + struct.pack(">ii", 4, CLOSE))
        assert_same(received_all(connection), expected, "the answers")
        assert door.hear() == "3 0 client ok"


def test_a_thousand_files_on_one_line(dcap_cache: Forebay) -> None:
    with Door(dcap_cache) as door:
        door.greet()
        connections = [door.data(door.open(number, FILE)) for number in range(1, 1001)]
        refused = door.ask(f'7 0 client open "dcap://host{FILE}" r host 1')
        assert refused.startswith("7 0 client failed 5 "), refused
        for connection in connections:
            connection.sendall(struct.pack(">iiq", 12, READ, 10))
        for connection in connections:
            answer = connection.recv(28 + 10)
            assert answer[28:] == FILES[FILE].read(0, 10)
            connection.close()
        assert door.ask("1 2 client ping") == "1 2 server pong"


def test_refused_opens_cost_no_task_each(dcap_cache: Forebay) -> None:
    with Door(dcap_cache) as door:
        door.greet()
        with door.data(door.open(7, FILE)):
            opens = memoryview(f'7 0 client open "dcap://host{FILE}" r host 1\n'.encode() * 50_000)
            door.socket.setblocking(False)
            # A server that sends each refusal before it takes the next line takes no more of them at some time.
            with contextlib.suppress(BlockingIOError):
                while opens:
                    opens = opens[door.socket.send(opens) :]
            door.socket.setblocking(True)
            assert door.hear().startswith("7 0 client failed 5 ")
            assert dcap_cache.metrics().total("forebay_tasks") < 1000


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"enc MTIz\n", "tunnel"),
        (b"1 0 client ping\n", "hello"),
        (b"1 0\n", "too few words"),
        (b"9" * 20_000, "longer than"),
        (struct.pack(">ii", 1, 8) + b"guessed!", "no open"),
        (struct.pack(">ii", 1, 1 << 20), "challenge"),
    ],
    ids=["tunnel", "no-hello", "words", "long-line", "challenge", "long-challenge"],
)
def test_other_connections_are_closed(first: bytes, reason: str, dcap_cache: Forebay) -> None:
    with Door(dcap_cache) as door:
        assert received_all(door.data(first)) == b""
    until(lambda: reason in dcap_cache.process.output(), "the log has the reason")


def test_a_challenge_is_of_one_session_and_counts_once(dcap_cache: Forebay) -> None:
    with Door(dcap_cache) as door:
        door.greet()
        greeting = door.open(4, FILE)
        other_session = struct.pack(">i", 5) + greeting[4:]
        assert received_all(door.data(other_session)) == b""
        # The challenge is used up, and the open has failed.
        assert door.hear().startswith("4 0 client failed 33 ")
        assert received_all(door.data(greeting)) == b""


def test_a_data_connection_that_never_comes_fails_the_open(
    serve: Callable[..., Forebay], dcap_origin: xrootd.Origin, dcap_listen: str
) -> None:
    dcap = {"listen": [dcap_listen], "data_connection_time_max": "3s", "request_time_max": "3s"}
    server = serve({"export": [{"path": "/", "origins": [dcap_origin.url]}], "dcap": dcap})
    with Door(server) as door:
        door.greet()
        door.open(1, FILE)
        refusal = door.hear()
        assert refusal.startswith("1 0 client failed 33 "), refusal
        assert refusal.endswith(" EIO")
        until(lambda: server.metrics().total("forebay_open_handles") == 0, "the file is closed")
        # Half a request, and half a line.
        connection = door.data(door.open(2, FILE) + b"\0\0")
        assert received_all(connection) == b""
        door.socket.sendall(b"3 0 cl")
        assert door.hear() == ""
    with Door(server) as silent:
        assert silent.hear() == ""


def test_access_log_metrics_and_records_have_the_reads(
    serve: Callable[..., Forebay], dcap_origin: xrootd.Origin, dcap_listen: str, ground: Ground
) -> None:
    directory = ground.directory("records")
    server = serve(
        {
            "export": [{"path": "/", "origins": [dcap_origin.url]}],
            "dcap": {"listen": [dcap_listen]},
            "records": {"path": str(directory)},
        }
    )
    size = FILES[FILE].size
    for number in (1, 2):
        done = run_client([program("dccp"), dcap_url(server) + FILE, Path("/dev/null")])
        assert done.returncode == 0, done.stderr
        # A period of use ends with its close.
        records.closes(directory, number)
        # A block that is not on the disk yet is not a hit.
        server.settled_metrics()
    sent = server.metrics().client_bytes()
    assert sum(sent.values()) == 2 * size
    assert size <= sent["hit"] < 2 * size
    requests = server.metrics().by("forebay_client_requests_total", "kind")
    assert (requests["open"], requests["close"]) == (2, 2)
    assert requests["read"] >= 2
    cold, warm = records.closes(directory, 2)
    assert {cold["protocol"], warm["protocol"]} == {"dcap"}
    assert (warm["file_lfn"], warm["client_ip"]) == (FILE, "127.0.0.1")
    server.stop()
    lines = [line for line in server.process.output().splitlines() if FILE in line and "closed" in line]
    assert len(lines) == 2
    assert f"hit_bytes={size}" in lines[1]
