"""Restarts of a server whose sockets its service manager keeps: no client is refused, and those that read continue."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import forebay
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program, root_python
from harness.pausing import PausingClient
from harness.root_files import Sums
from harness.service_manager import ServiceManager, queued
from harness.waiting import until
from harness.xrootd import Origin

PATH = "/sizes/many-blocks.bin"
FRESH_CLIENTS = 3
"""Those that connect while no server runs."""
# A client whose login is cut by a kill waits for the rest of the window: shorter and more often than by default.
PATIENT = {"XRD_CONNECTIONWINDOW": "5", "XRD_CONNECTIONRETRY": "12"}


class Service:
    """A cache that a service manager restarts at one address."""

    def __init__(self, ground: Ground, origin: Origin, manager: ServiceManager) -> None:
        self.port = ground.free_port()
        self.store = ground.directory("store")
        self._ground, self._origin, self._manager = ground, origin, manager
        self.server = self.start()

    def start(self) -> Forebay:
        """Starts its next process."""
        self.server = forebay.cache(
            self._ground, self._origin.url, store=self.store, port=self.port, launch=self._manager.launch()
        )
        self._manager.read_notes()
        return self.server

    def end(self, how: str) -> None:
        """Ends the process: `stop` in order, or `kill`."""
        if how == "stop":
            assert self.server.stop() == 0
        else:
            self.server.process.kill()

    def url(self, path: str) -> str:
        """URL of a file given by its absolute path."""
        return f"root://127.0.0.1:{self.port}/{path}"


@pytest.fixture
def service(ground: Ground, plain_origin: Origin) -> object:
    """A running service."""
    with ServiceManager() as manager:
        running = Service(ground, plain_origin, manager)
        yield running
        running.server.stop()


def curl(url: str) -> bytes:
    # A server that is killed cannot finish the answer of a client that does not try again.
    patient = ["--retry", "5", "--retry-all-errors", "--retry-delay", "1", "--max-time", "100"]
    # curl truncates its output file before it tries again; it cannot truncate a pipe.
    with tempfile.NamedTemporaryFile() as file:
        command = [str(program("curl")), "--silent", "--show-error", "--fail", *patient, "--output", file.name, url]
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        return Path(file.name).read_bytes()


def get(client: str, ground: Ground, service: Service) -> bytes:
    """A whole file, by a program that begins now."""
    # The programs below try again after a refused connection; this does not.
    socket.create_connection(("127.0.0.1", service.port), 60).close()
    if client == "curl":
        return curl(f"http://127.0.0.1:{service.port}{PATH}")
    return fetch(client, ground, service.url(PATH), PATIENT)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_open_files_are_read_on_and_new_clients_wait_in_the_queue(
    end: str,
    ground: Ground,
    service: Service,
    patterns: dict[str, Pattern],
    tree_path: str,
    tree_sums: Sums,
) -> None:
    """Clients of 5.5 (PyROOT, xrdcp) and 6.2 (Python bindings) with open files, and clients that connect in between."""
    content = patterns[PATH].all()
    url = service.url(PATH)
    with (
        PausingClient(sys.executable, "pyxrootd_halves.py", url, env=PATIENT) as reader,
        PausingClient(root_python(), "pyroot_loop.py", service.url(tree_path), env=PATIENT) as analysis,
        ThreadPoolExecutor(FRESH_CLIENTS) as pool,
    ):
        reader.until_half()
        analysis.until_half()
        service.end(end)
        # The sockets of clients that are connected already are gone: those below wait for the next process.
        reader.go_on()
        analysis.go_on()
        fresh = [pool.submit(get, client, ground, service) for client in ("xrdcp", "pyxrootd", "curl")]
        until(lambda: queued(service.port) >= 2 * FRESH_CLIENTS, "clients wait in the queue of the socket")
        service.start()
        for copied in fresh:
            assert_same(copied.result(), content, "connected while no server ran")
        assert json.loads(reader.finish())["sha256"] == hashlib.sha256(content).hexdigest()
        assert sum(json.loads(analysis.finish())) == tree_sums.values


class Loop:
    """A client that is run again and again."""

    def __init__(self, run: Callable[[], bytes], content: bytes) -> None:
        self._run, self._content = run, content
        self._is_over = threading.Event()
        self.runs = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._is_over.is_set():
                assert_same(self._run(), self._content, "in a loop")
                self.runs += 1
        except BaseException as error:
            self.error = error

    def has_run_since(self, runs: int) -> bool:
        """Whether it has begun and finished a run since it counted `runs`."""
        if self.error:
            raise self.error
        # The first one may have begun before.
        return self.runs >= runs + 2

    def finish(self) -> None:
        """Waits for its last run."""
        self._is_over.set()
        self._thread.join()
        if self.error:
            raise self.error


def test_no_client_in_a_loop_fails_while_the_server_is_restarted(
    ground: Ground, service: Service, patterns: dict[str, Pattern]
) -> None:
    content = patterns[PATH].all()
    clients = ("xrdcp", "pyxrootd", "curl")
    loops = [Loop(lambda client=client: get(client, ground, service), content) for client in clients]  # type: ignore[misc]
    try:
        for end in ("stop", "kill", "stop", "kill"):
            before = [loop.runs for loop in loops]
            until(
                lambda: all(loop.has_run_since(runs) for loop, runs in zip(loops, before, strict=True)),  # noqa: B023
                "all clients have read",
                within=120,
            )
            service.end(end)
            service.start()
    finally:
        for loop in loops:
            loop.finish()


def listening(ground: Ground, address: str = "127.0.0.1") -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    opened = socket.socket(family)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind((address, ground.free_port()))
    opened.listen()
    return opened


def test_sockets_of_socket_units_serve_their_addresses(
    ground: Ground, plain_origin: Origin, patterns: dict[str, Pattern]
) -> None:
    """Also the one that systemd opens for `ListenStream=PORT`, which is for both families."""
    with ServiceManager() as manager, listening(ground, "::") as both, listening(ground) as of_http:
        manager.open("forebay-data.socket", both)
        manager.open("forebay-http.socket", of_http)
        port, http_port = both.getsockname()[1], of_http.getsockname()[1]
        configuration = {
            "server": {"listen": [f"0.0.0.0:{port}"]},
            "http": {"listen": [f"127.0.0.1:{http_port}"]},
            "export": [{"path": "/", "origins": [plain_origin.url]}],
        }
        with forebay.configured(ground, configuration, launch=manager.launch()) as server:
            assert_same(fetch("xrdcp", ground, f"root://127.0.0.1:{port}/{PATH}"), patterns[PATH].all(), "root")
            assert_same(curl(f"http://127.0.0.1:{http_port}{PATH}"), patterns[PATH].all(), "http")
            # They belong to the units, which pass them again.
            assert not [note for note in manager.read_notes() if "FDSTORE" in note]
            assert server.stop() == 0


def test_a_socket_that_no_address_uses_is_refused(ground: Ground, tmp_path: Path) -> None:
    with ServiceManager() as manager, listening(ground) as unused:
        manager.open("forebay-data.socket", unused)
        arguments = ["--listen", "127.0.0.1:0", "--export-dir", str(tmp_path)]
        launch = manager.launch()
        done = subprocess.run(
            [*launch.command, ground.forebay, "serve", *arguments],
            env={**launch.env, "PATH": "/usr/bin:/bin"},
            pass_fds=launch.descriptors,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert f":{unused.getsockname()[1]}" in done.stderr
        assert "`forebay-data.socket`" in done.stderr


def test_the_socket_of_an_address_that_is_not_configured_any_more_is_closed(
    ground: Ground, plain_origin: Origin
) -> None:
    with ServiceManager() as manager:
        first, second = ground.free_port(), ground.free_port()
        for port in (first, second):
            with forebay.cache(ground, plain_origin.url, port=port, launch=manager.launch()):
                manager.read_notes()
                assert list(manager.sockets) == [f"listener-127.0.0.1_{port}"]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first), 10)


def starts(server: Forebay) -> int:
    """How often it has reported that it is ready."""
    return len(re.findall("^ready root://", server.process.output(), re.MULTILINE))


def test_a_server_without_a_service_manager_restarts_in_place(
    ground: Ground, plain_origin: Origin, patterns: dict[str, Pattern]
) -> None:
    """SIGUSR2: the same process and sockets, a configuration that was read again, and no client that fails."""
    store, port, second = ground.directory("store"), ground.free_port(), ground.free_port()
    exports = {"export": [{"path": "/", "origins": [plain_origin.url]}]}
    configuration = {**exports, "server": {"listen": [f"127.0.0.1:{port}"]}}
    with forebay.configured(ground, configuration, store=store) as server:
        content = patterns[PATH].all()
        url = f"root://127.0.0.1:{port}/{PATH}"
        file = Path(server.process.argv[-1])
        with PausingClient(sys.executable, "pyxrootd_halves.py", url, env=PATIENT) as reader:
            reader.until_half()
            for number, listen in ((2, [port]), (3, [port, second])):
                addresses = {"server": {"listen": [f"127.0.0.1:{each}" for each in listen]}}
                file.write_text(
                    forebay.write_configuration(ground, forebay.complete({**exports, **addresses}, store)).read_text()
                )
                server.process.signal(signal.SIGUSR2)
                assert_same(fetch("xrdcp", ground, url, PATIENT), content, "begun during the restart")
                until(lambda n=number: starts(server) == n, "it has restarted", within=60)  # type: ignore[misc]
            assert json.loads(reader.finish())["sha256"] == hashlib.sha256(content).hexdigest()
        assert_same(fetch("xrdcp", ground, f"root://127.0.0.1:{second}/{PATH}", PATIENT), content, "a new address")
        file.write_text("[server\n")
        server.process.signal(signal.SIGUSR2)
        until(lambda: "not restarted" in server.process.output(), "the mistake is logged")
        assert_same(fetch("xrdcp", ground, url, PATIENT), content, "still the one before")
        assert starts(server) == 3
        assert server.stop() == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 10)
