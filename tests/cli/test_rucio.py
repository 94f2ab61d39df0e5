"""`forebay rucio`: the complete files of a cache as a dump, and as messages of a volatile storage element."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Iterator

import pytest

from harness import forebay, xrootd
from harness.content import Pattern
from harness.forebay import BLOCK
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.process import give_to_service
from harness.stomp_broker import StompBroker
from harness.waiting import until

ATLAS = "rucio/mc23_13p6TeV/3f/a0/DAOD.1.root"
USER = "rucio/user/jdoe/00/ff/ntuple.root"
CMS = "store/mc/f.root"
SIZE = 20 * BLOCK
FILES = {ATLAS: Pattern(SIZE, 21), USER: Pattern(SIZE + 1, 22), CMS: Pattern(SIZE + 2, 23)}


class Site:
    """A cache of two exports, its admin socket, and a state file."""

    def __init__(self, ground: Ground, origin: xrootd.Origin) -> None:
        self._ground = ground
        directory = give_to_service(ground.directory("admin"))
        self.socket, self.state = directory / "admin.sock", ground.directory("state") / "sent.json"
        export = {"path": "/", "origins": [origin.url]}
        admin = {"socket": str(self.socket)}
        reading = {"fill": "on-demand-blocks", "enabled": False}
        self.cache = forebay.configured(ground, {"export": [export], "admin": admin, "read_ahead": reading})
        until(lambda: self._list().returncode == 0, "the index is in use")

    def read(self, path: str, length: int = 1 << 30) -> None:
        """Reads the begin of a file, and waits until it is in the index."""
        with self.cache.client() as client:
            handle = client.open(f"/{path}")
            client.read(handle, 0, length).ok()
            client.close_file(handle).ok()
        complete = length > FILES[path].size
        until(lambda: f"/{path}" in self.listed() and (not complete or self.listed()[f"/{path}"]), "it is listed")

    def listed(self) -> dict[str, bool]:
        """The files in the cache, and whether they are complete."""
        done = self._list()
        assert done.returncode == 0, done.stderr
        return {file["name"]: file["is_complete"] for file in map(json.loads, done.stdout.splitlines())}

    def _list(self) -> subprocess.CompletedProcess[str]:
        return forebay.run(self._ground, "ls", "--json", "--admin", str(self.socket), "/**")

    def rucio(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`forebay rucio`."""
        return forebay.run(self._ground, "rucio", *arguments, "--admin", str(self.socket))

    def announce(self, broker: StompBroker, *arguments: str) -> dict[str, int]:
        """Sends messages, and returns the numbers that the command prints."""
        known = ["--rse", "SITE_CACHE", "--broker", broker.address, "--state", str(self.state), "--json"]
        done = self.rucio("announce", *known, *arguments)
        assert done.returncode == 0, done.stderr
        numbers: dict[str, int] = json.loads(done.stdout)
        return numbers


@pytest.fixture(scope="module")
def origin(ground: Ground) -> Iterator[xrootd.Origin]:
    """An xrootd with files of two experiments."""
    data = ground.directory("rucio")
    for path, content in FILES.items():
        (data / path).parent.mkdir(parents=True)
        content.write(data / path)
    running = xrootd.plain(ground, data)
    yield running
    running.stop()


@pytest.fixture
def site(ground: Ground, origin: xrootd.Origin) -> Iterator[Site]:
    """A cache in which nothing is."""
    running = Site(ground, origin)
    yield running
    running.cache.stop()


def test_a_dump_has_the_complete_files(site: Site) -> None:
    site.read(ATLAS)
    site.read(USER, 1000)
    site.read(CMS)
    assert site.rucio("dump").stdout == "mc23_13p6TeV/3f/a0/DAOD.1.root\n"
    assert site.rucio("dump", "--format", "did").stdout == "mc23_13p6TeV:DAOD.1.root\n"
    site.read(USER)
    both = site.rucio("dump", "--format", "did", "--scope", "cms").stdout.splitlines()
    assert both == ["cms:/store/mc/f.root", "mc23_13p6TeV:DAOD.1.root", "user.jdoe:ntuple.root"]
    described = [json.loads(line) for line in site.rucio("dump", "--json").stdout.splitlines()]
    assert [(each["scope"], each["bytes"]) for each in described] == [("mc23_13p6TeV", SIZE), ("user.jdoe", SIZE + 1)]


def test_new_and_removed_files_are_announced_once(site: Site, ground: Ground) -> None:
    with StompBroker() as broker:
        site.read(ATLAS)
        assert site.announce(broker) == {"added": 1, "removed": 0, "files": 1}
        destination, body = broker.message()
        assert destination == "/topic/rucio.cache"
        assert {key: body[key] for key in ("operation", "rse", "vo", "lifetime")} == {
            "operation": "add_replicas",
            "rse": "SITE_CACHE",
            "vo": "def",
            "lifetime": 48 * 3600,
        }
        (file,) = body["files"]
        assert (file["scope"], file["name"], file["bytes"]) == ("mc23_13p6TeV", "DAOD.1.root", SIZE)
        assert site.announce(broker) == {"added": 0, "removed": 0, "files": 1}
        assert broker.is_empty
        site.read(USER)
        evicted = forebay.run(ground, "evict", "--yes", "--admin", str(site.socket), f"/{ATLAS}")
        assert evicted.returncode == 0, evicted.stderr
        until(lambda: f"/{ATLAS}" not in site.listed(), "it is gone")
        assert site.announce(broker) == {"added": 1, "removed": 1, "files": 1}
        removed, added = broker.message()[1], broker.message()[1]
        assert removed == {
            "operation": "delete_replicas",
            "rse": "SITE_CACHE",
            "vo": "def",
            "files": [{"scope": "mc23_13p6TeV", "name": "DAOD.1.root"}],
        }
        assert [file["scope"] for file in added["files"]] == ["user.jdoe"]
        # Rucio does not acknowledge: now and then everything is sent again.
        assert site.announce(broker, "--full-every", "0") == {"added": 1, "removed": 0, "files": 1}
        assert broker.message()[1]["operation"] == "add_replicas"


def test_a_broker_may_want_certificates_and_a_password(
    site: Site, ground: Ground, grid: Grid, host: Credential
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(grid.root.certificate))
    context.load_verify_locations(str(grid.issuer.certificate))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(host.certificate, host.key)
    client = grid.issuer.user("cache")
    client.key.chmod(0o600)
    password = ground.directory("secrets") / "password"
    password.write_text("secret\n")
    login = ["--user", "cache", "--password-file", str(password)]
    encrypted = ["--tls", "--ca-dir", str(grid.directory)]
    certificate = ["--certificate", str(client.certificate), "--key", str(client.key)]
    site.read(ATLAS)
    with StompBroker(context, login=("cache", "secret")) as broker:
        assert site.announce(broker, *encrypted, *certificate, *login)["added"] == 1
        assert broker.message()[1]["operation"] == "add_replicas"
        peer = broker.peers[-1]
        assert peer
        assert (("commonName", "cache"),) in peer["subject"]
    with StompBroker(login=("cache", "other")) as broker:
        known = ["--rse", "R", "--broker", broker.address]
        refused = site.rucio("announce", *known, *login)
        assert refused.returncode == 1
        assert "Bad CONNECT: access refused" in refused.stderr
    unreachable = site.rucio("announce", "--rse", "R", "--broker", f"127.0.0.1:{ground.free_port()}")
    assert unreachable.returncode == 3, unreachable.stderr


def test_messages_are_repeated_until_the_command_is_interrupted(site: Site, ground: Ground) -> None:
    with StompBroker() as broker:
        site.read(ATLAS)
        command = [
            str(ground.forebay),
            "rucio",
            "announce",
            "--rse",
            "R",
            "--broker",
            broker.address,
            "--interval",
            "1",
        ]
        command += ["--state", str(site.state), "--admin", str(site.socket)]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            assert broker.message()[1]["files"][0]["scope"] == "mc23_13p6TeV"
            site.read(USER)
            assert broker.message()[1]["files"][0]["scope"] == "user.jdoe"
        finally:
            running.send_signal(2)
        assert running.wait(timeout=60) == 130
    assert len(json.loads(site.state.read_text())["files"]) >= 1
