"""Disk caching on the fly: three machines that Puppet has set up, and a stock client that knows nothing of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.content import Pattern
from harness.ground import Ground, package
from harness.machine import Machine
from harness.metrics import Metrics, scrape
from harness.plugin import client_plugin
from harness.process import Process, give_to_service
from harness.provisioning import CONFIGURATION, ENVIRONMENT, puppet
from harness.waiting import until
from harness.xrootd import Origin

pytestmark = pytest.mark.timeout(900)
UNIT = "/usr/lib/systemd/system/forebay.service"
PATH = "/sizes/many-blocks.bin"
OTHER = "/sizes/block-and-one.bin"
AS_THE_UNIT = ["setpriv", "--reuid=forebay", "--regid=forebay", "--clear-groups", "--inh-caps=-all"]


class Site:
    """A client, a manager and a filler, and the file system that they share."""

    def __init__(self, ground: Ground, origin: Origin, machines: ExitStack) -> None:
        self._ground, self._origin = ground, origin
        self._cluster = give_to_service(ground.directory("cluster"))
        self.store = self._cluster / "cache"
        ports = {role: ground.free_port() for role in ("manager", "filler")}
        address = origin.url.removeprefix("root://")
        self._parameters: dict[str, Any] = {
            **{role: f"root://127.0.0.1:{port}" for role, port in ports.items()},
            "allow": [address],
            "store": str(self.store),
            "budget": "1GiB",
            "fill": "to-end",
            "metrics": "127.0.0.1:0",
            "uid": 931,
            "manage_service": False,
        }
        self._machines = machines
        self.filler, self.filler_metrics = self._server("filler", ports["filler"])
        self.manager, self.manager_metrics = self._server("manager", ports["manager"])
        self._client = self._machine({"role": "client", "plugin": str(self._plugin())})

    def _plugin(self) -> Path:
        return client_plugin().with_name("libXrdClForebay-5.so")

    def _machine(self, parameters: dict[str, Any]) -> Machine:
        machine = self._machines.enter_context(Machine(self._ground, self._cluster))
        if parameters["role"] == "client":
            parameters["plugin"] = machine.take(Path(parameters["plugin"]))
        else:
            parameters["package"] = machine.take(package())
        status, _, output = puppet(machine, {**self._parameters, **parameters})
        assert status == 0, output
        return machine

    def _server(self, role: str, port: int) -> tuple[Process, str]:
        machine = self._machine({"role": role, "port": port})
        # Tests listen on loopback only.
        machine.write(CONFIGURATION, machine.read(CONFIGURATION).replace('"[::]:', '"127.0.0.1:'))
        (start,) = re.findall(r"^ExecStart=(.*)$", machine.read(UNIT), flags=re.MULTILINE)
        server = machine.start(self._ground, role, [*AS_THE_UNIT, *start.split()])
        server.wait_for_line(r"^ready root://")
        return server, server.wait_for_line(r"^admin (http://\S+)$")[1]

    def sent_to_files(self) -> int:
        """Opens that the manager has sent to files."""
        return int(scrape(self.manager_metrics).total("forebay_manager_opens_total", to="file"))

    def filled(self) -> Metrics:
        """The counters of the filler."""
        return scrape(self.filler_metrics)

    def is_open_to_others(self, path: str) -> bool:
        """Whether the cache has left a file to clients."""
        named = ["-type", "f", "-name", Path(path).name]
        return self._client.done("find", str(self.store), *named, "-perm", "-004") != ""

    def read(self, path: str) -> str:
        """The digest of a file read by a stock client on the client machine, in a login shell."""
        script = f'. {ENVIRONMENT} && xrdcp --force --nopbar "$1" /tmp/read && sha256sum /tmp/read'
        printed = self._client.done("sh", "-c", script, "sh", f"{self._origin.url}/{path}")
        return str(re.findall(r"^[0-9a-f]{64}", printed, flags=re.MULTILINE)[0])


@pytest.fixture
def site(ground: Ground, plain_origin: Origin) -> Iterator[Site]:
    """The three machines."""
    with ExitStack() as machines:
        running = Site(ground, plain_origin, machines)
        yield running
        running.manager.stop()
        running.filler.stop()


def test_client_reads_through_the_filler_then_the_file_itself_and_without_both_the_origin(
    site: Site, patterns: dict[str, Pattern]
) -> None:
    expected = {path: hashlib.sha256(patterns[path].all()).hexdigest() for path in (PATH, OTHER)}
    assert site.read(PATH) == expected[PATH]
    assert site.sent_to_files() == 0
    assert site.filled().origin_bytes == patterns[PATH].size, "fetched once, by the filler"
    until(lambda: site.is_open_to_others(PATH), "the filler leaves the complete file to clients")
    given = sum(site.filled().client_bytes().values())
    assert site.read(PATH) == expected[PATH]
    assert site.sent_to_files() == 1
    assert sum(site.filled().client_bytes().values()) == given, "no byte through a server"
    assert (site.filler.stop(), site.manager.stop()) == (0, 0)
    for path, digest in expected.items():
        assert site.read(path) == digest, "from the origin"
