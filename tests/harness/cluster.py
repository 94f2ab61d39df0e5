"""A stock redirector (xrootd and cmsd in role manager) and Forebay nodes that log in to it."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import forebay, xrootd
from .content import Pattern, assert_same
from .forebay import Forebay
from .ground import Ground
from .process import Process, give_to_service
from .raw_client import RawClient
from .waiting import until
from .wire import Status
from .xrootd import DISTRIBUTION, Origin, Release

# Nodes may take long to answer, on machines that have other work.
HOLD_MS = 10_000

PLACE_SECONDS_MAX = 60


@dataclass
class Manager:
    """A running redirector."""

    port: int
    node_port: int
    processes: list[Process]
    release: Release

    @property
    def url(self) -> str:
        """URL of the redirector without a path."""
        return f"root://127.0.0.1:{self.port}"

    def logins(self, port: int) -> int:
        """How often the node of a port has been accepted, according to the log of its `cmsd`."""
        return len(re.findall(rf"Protocol: Primary server.*:{port} logged in", self.processes[0].output()))

    def again(self, ground: Ground) -> Manager:
        """Starts a redirector at the same ports, after this one has ended."""
        return manager(ground, port=self.port, node_port=self.node_port, release=self.release)

    def kill(self) -> None:
        """SIGKILL."""
        for process in self.processes:
            process.kill()

    def stop(self) -> None:
        """Stops both programs."""
        for process in reversed(self.processes):
            process.stop()


def manager(
    ground: Ground,
    *,
    port: int | None = None,
    node_port: int | None = None,
    hold_ms: int = HOLD_MS,
    more: Sequence[str] = (),
    release: Release = DISTRIBUTION,
) -> Manager:
    """Starts a redirector, with more lines of configuration; at free ports unless they are given."""
    port, node_port = port or ground.free_port(), node_port or ground.free_port()
    # As docs/scale-out.md recommends, with shorter times.
    lines = [
        f"cms.delay startup 1 lookup 1 hold {hold_ms} service 1 servers 1 drop 2m suspend 1",
        "cms.fxhold noloc 60s 8h",
        "cms.ping 2 usage 2",
        *more,
    ]
    processes = xrootd.redirector(ground, port, node_port, lines, release)
    return Manager(port, node_port, processes, release)


class Cluster:
    """Nodes in front of one origin, which all know each other."""

    def __init__(self, ground: Ground, origin: Origin, managers: Sequence[Manager], nodes: int) -> None:
        self.ground, self.data, self.origin_url, self.managers = ground, origin.data, origin.url, managers
        self.ports = [ground.free_port() for _ in range(nodes)]
        self.stores: dict[int, Path] = {port: ground.directory("store") for port in self.ports}
        self.sockets: dict[int, Path] = {}
        self.nodes: dict[int, Forebay] = {}

    def host(self, port: int) -> str:
        """The address of a node. Each has its own, by which redirectors distinguish failed nodes from others."""
        return f"127.0.0.{2 + self.ports.index(port)}"

    def client(self, port: int) -> RawClient:
        """A connection to a node."""
        return RawClient(self.host(port), port)

    def read(self, redirector: RawClient, path: str, pattern: Pattern) -> int:
        """Reads a whole file where the redirector sends its client, checks it, and returns the port."""
        port, _ = place(redirector, path)
        self.read_at(port, path, pattern)
        return port

    def read_at(self, port: int, path: str, pattern: Pattern) -> None:
        """Reads a whole file at a node and checks it."""
        with self.client(port) as client:
            handle = client.open(path)
            assert_same(client.read(handle, 0, pattern.size).ok(), pattern.all(), path)
            client.close_file(handle).ok()

    def start(
        self, port: int, *, origin_url: str = "", members: Sequence[int] = (), alive: int | None = None
    ) -> Forebay:
        """Starts the node of a port, on its store, and waits until the managers and the live nodes know it."""
        arguments = [f"--cluster-manager=127.0.0.1:{manager.node_port}" for manager in self.managers]
        arguments += [f"--cluster-member={self.host(member)}:{member}" for member in members or self.ports]
        before = [(manager, manager.logins(port)) for manager in self.managers]
        store = self.stores[port]
        if port not in self.sockets:
            self.sockets[port] = give_to_service(self.ground.directory("admin")) / "admin.sock"
        arguments.append(f"--admin-socket={self.sockets[port]}")
        node = forebay.cache(
            self.ground,
            origin_url or self.origin_url,
            host=self.host(port),
            port=port,
            store=store,
            extra=arguments,
            name=f"node-{port}",
        )
        self.nodes[port] = node
        for manager, known in before:
            until(lambda m=manager, k=known: m.logins(port) > k, "it is logged in")  # type: ignore[misc]
        self.wait_for_members(len(self.nodes) if alive is None else alive)
        return node

    def start_all(self) -> None:
        """Starts every node."""
        for port in self.ports:
            self.start(port)

    def wait_for_members(self, count: int) -> None:
        """Waits until every node counts so many live members."""
        for node in self.nodes.values():
            until(lambda n=node: n.metrics().total("forebay_cluster_members") == count, f"{count} members are alive")  # type: ignore[misc]

    def origin_bytes(self) -> int:
        """Bytes that all nodes together have read from the origin since they started."""
        return sum(int(node.settled_metrics().origin_bytes) for node in self.nodes.values())

    def kill(self, port: int) -> None:
        """SIGKILL."""
        self.nodes.pop(port).process.kill()

    def stop(self) -> None:
        """Stops every node."""
        for node in self.nodes.values():
            node.stop()
        self.nodes.clear()


def place(redirector: RawClient, path: str) -> tuple[int, int]:
    """The port to which a client is redirected, and the seconds for which it had to wait before."""
    waited = 0
    while True:
        answer = redirector.try_open(path)
        if answer.status == Status.REDIRECT:
            return int(struct.unpack(">i", answer.body[:4])[0]), waited
        assert answer.status == Status.WAIT, f"{path}: {answer.error} {answer.error_text}"
        seconds = int(struct.unpack(">i", answer.body[:4])[0])
        assert waited < PLACE_SECONDS_MAX, f"{path}: still has to wait"
        time.sleep(seconds)
        waited += seconds


def places(redirector: RawClient, paths: Iterable[str]) -> dict[str, int]:
    """Where the redirector sends clients of each file."""
    return {path: place(redirector, path)[0] for path in paths}


def ready(manager: Manager) -> RawClient:
    """A connection to the redirector, which selects nodes by now."""
    client = RawClient("127.0.0.1", manager.port)
    place(client, "/cluster/warm")
    return client
