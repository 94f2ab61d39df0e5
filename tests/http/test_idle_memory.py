"""Connections that wait for their next request hold little memory, and no open file that another one needs."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.forebay import Forebay
from harness.http_client import Connection
from harness.waiting import until

from .conftest import FILE, FILES

IDLE = 2000
BYTES_MAX = 12 << 10
"""For each connection, within the server. 5 to 9 KiB were seen: memory of closed files may stay with the process."""
READ_LEN = 4096


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Room for the sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * IDLE
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"{wanted} descriptors are needed, and {hard} permitted"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def roomy(serve: Callable[..., Forebay], http_data: Path) -> Forebay:
    """A server that lets one client have all of the connections, and an open file on each."""
    limits = {"connections_per_address_max": 4 * IDLE, "handles_per_address_max": 4 * IDLE}
    return serve({"server": limits, "export": [{"path": "/", "directory": str(http_data)}]})


def resident(server: Forebay) -> int:
    """Bytes of the server in memory."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["VmRSS"].split()[0]) * 1024


def test_an_idle_connection_holds_little_memory(descriptors: None, roomy: Forebay) -> None:
    start = (17 << 10) + 5
    expected = FILES[FILE].read(start, READ_LEN)
    with ExitStack() as held:

        def served(count: int) -> list[Connection]:
            connections = [held.enter_context(Connection(roomy)) for _ in range(count)]
            for connection in connections:
                reply = connection.ask("GET", FILE, {"Range": f"bytes={start}-{start + READ_LEN - 1}"})
                assert (reply.status, reply.body) == (206, expected)
            return connections

        # Tables of the server, and its buffers, grow with the first ones.
        served(IDLE // 10)
        before = resident(roomy)
        clients = served(IDLE)

        # Open files are closed after five seconds.
        until(
            lambda: resident(roomy) - before < IDLE * BYTES_MAX,
            f"less than {BYTES_MAX} bytes of each idle connection",
            within=30.0,
        )
        last = clients[-1].ask("GET", FILE, {"Range": f"bytes={start}-{start + READ_LEN - 1}"})
        assert (last.status, last.body) == (206, expected)


def test_connections_that_wait_leave_open_files_to_others(serve: Callable[..., Forebay], http_data: Path) -> None:
    limits = {"handles_per_address_max": 4}
    server = serve({"server": limits, "export": [{"path": "/", "directory": str(http_data)}]})
    with ExitStack() as held:
        for _ in range(12):
            reply = held.enter_context(Connection(server)).ask("GET", FILE, {"Range": "bytes=5-99"})
            assert (reply.status, reply.body) == (206, FILES[FILE].read(5, 95))
