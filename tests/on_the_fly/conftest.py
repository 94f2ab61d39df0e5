"""Four hosts: client, manager, filler, origin; one directory that the first three share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import xrootd
from harness.content import Pattern
from harness.forebay import write_configuration
from harness.ground import Ground
from harness.hosts import Host, Hosts
from harness.process import Process
from harness.root_files import Sums

PORT = 1094
BLOCK_SIZE = "64KiB"


class Sent:
    """Bytes that hosts had sent at some time."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._then = self._now()

    def until_now(self) -> dict[str, int]:
        """The bytes sent by each host since."""
        return {name: sent - self._then[name] for name, sent in self._now().items()}

    def _now(self) -> dict[str, int]:
        return {host.name: host.sent_bytes for host in self._hosts}


class Site:
    """The servers of a site, each on a host of its own."""

    def __init__(self, ground: Ground, hosts: Hosts, store: Path) -> None:
        self.ground = ground
        self.hosts = hosts
        self.store = store
        self.large: Pattern
        self.sums: Sums
        self.logs = ground.directory("logs")
        self.running: list[Process] = []

    @property
    def client(self) -> Host:
        """Where jobs run."""
        return self.hosts["client"]

    @property
    def origin_url(self) -> str:
        """URL of the origin without a path."""
        return f"root://{self.hosts['origin'].address}:{PORT}"

    @property
    def manager_url(self) -> str:
        """URL of the manager: all that clients know of the site."""
        return f"root://{self.hosts['manager'].address}:{PORT}"

    def start_origin(self, data: Path) -> Process:
        """The distribution's xrootd."""
        return self._keep(xrootd.on_host(self.ground, self.hosts["origin"], data))

    def start(self, role: str) -> Process:
        """A server in the role of the host's name."""
        host = self.hosts[role]
        configuration = {
            "server": {"role": role, "listen": [f"{host.address}:{PORT}"]},
            "admin": {"listen": "127.0.0.1:9094"},
            "store": {"path": str(self.store), "block_size": BLOCK_SIZE},
            "purge": {"budget": "1GiB"},
            "forwarding": {"allow": ["10.77.0.*"], "direct": "complete", "fill": "while-open"},
            "direct": {"clients": ["10.77.0.*"], "file_mode": "0644"},
        }
        if role == "manager":
            configuration["manager"] = {"filler": f"root://{self.hosts['filler'].address}:{PORT}"}
            del configuration["purge"]
        path = write_configuration(self.ground, configuration)
        argv = host.command(self.ground.forebay, "serve", "--config", path)
        process = Process(role, argv, self.ground.directory(role), keep_root=True)
        process.wait_for_line(r"^ready root://")
        return self._keep(process)

    def log(self, name: str) -> str:
        """The log of XRootD's client in a job."""
        return (self.logs / name).read_text(errors="replace")

    def sent_bytes(self) -> Sent:
        """The bytes sent by each host so far."""
        return Sent(self.hosts)

    def stop(self) -> None:
        """Stops every server."""
        for process in reversed(self.running):
            process.stop()
        self.running.clear()

    def _keep(self, process: Process) -> Process:
        self.running.append(process)
        return process


@pytest.fixture
def site(ground: Ground) -> Iterator[Site]:
    """Hosts without servers yet."""
    store = ground.directory("shared")
    store.chmod(0o755)
    with Hosts("client", "manager", "filler", "origin") as hosts:
        site = Site(ground, hosts, store)
        yield site
        site.stop()
