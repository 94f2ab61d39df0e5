"""Separate roles: a manager redirects clients to complete files of a filler's store, also without the filler."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import forebay, xrootd
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import REPOSITORY, Ground, program
from harness.process import SERVICE_USER, give_to_service
from harness.raw_client import RawClient
from harness.waiting import until

PATH = "/sizes/many-blocks.bin"
OTHER = "/sizes/block-and-one.bin"
OPENS = "forebay_manager_opens_total"
LONG_AGO = 1_600_000_000


class Site:
    """A shared store, the filler that fills it, and the manager that sends clients there."""

    def __init__(self, ground: Ground, origin_url: str, access: Mapping[str, str] | None = None, **export: str) -> None:
        self._access = dict(access or {})
        self._ground = ground
        self._started: list[Forebay] = []
        self.store = give_to_service(ground.directory("shared-store"))
        self.store.chmod(0o755)
        self._sockets = ground.directory("admin")
        self._export = {"origins": [origin_url], "direct": "complete", **export}
        self.filler = self.start("filler")
        self.manager = self.start("manager")
        self.wait_for_filler()

    def configuration(self, role: str) -> dict[str, Any]:
        """The configuration of a server of the site."""
        common = {
            "server": {"role": role},
            "export": [self._export],
            "store": {"path": str(self.store)},
            "direct": self._access,
        }
        return {**common, "admin": {"socket": str(self.socket(role))}}

    def socket(self, role: str) -> Path:
        """The admin socket of a role."""
        return self._sockets / f"{role}.sock"

    def status(self) -> str:
        """How the manager says it is."""
        return forebay.run(self._ground, "status", "--admin", str(self.socket("manager"))).stdout

    def start(self, role: str) -> Forebay:
        """Starts a server of the site."""
        server = forebay.configured(self._ground, self.configuration(role), store=self.store)
        self._started.append(server)
        return server

    def refused(self, role: str) -> str:
        """The error of a server that does not start."""
        configuration = forebay.complete(self.configuration(role), self.store)
        if os.geteuid() == 0:
            # Root is refused on the store of another user before anything else.
            configuration["server"] = {**configuration["server"], "user": SERVICE_USER}
        path = forebay.write_configuration(self._ground, configuration)
        argv = [str(self._ground.forebay), "serve", "--config", str(path)]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode != 0
        return ended.stderr

    def wait_for_filler(self, count: int = 1) -> None:
        """Waits until the manager has found the filler, so many times in all."""
        port = f"the filler answers endpoint=127.0.0.1:{self.filler.port}"
        until(lambda: self.manager.process.output().count(port) >= count, "the manager finds the filler")

    def wait_until_filler_answers(self) -> None:
        """Waits until clients are sent to it: after a slow answer to a ping they are sent to the origin for seconds."""
        until(lambda: f"filler 127.0.0.1:{self.filler.port} answers" in self.status(), "the filler answers")

    def wait_for_end_of_filler(self) -> None:
        """Waits until the manager knows that the filler is gone."""
        until(lambda: "does not answer" in self.manager.process.output(), "the manager misses the filler", within=60)

    def opens(self, to: str) -> float:
        """Opens that the manager has sent to one place."""
        return self.manager.metrics().total(OPENS, to=to)

    def fill(self, path: str, pattern: Pattern) -> None:
        """Reads a file through the manager; when this is over, it is complete and open to others."""
        self.wait_until_filler_answers()
        assert_same(fetch("xrdcp", self._ground, self.manager.file_url(path)), pattern.all(), "cold")
        file = self.store / path[1:]

        def is_open() -> bool:
            # A client that was sent to the origin may have read before the filler has begun.
            return file.exists() and file.stat().st_mode & 0o044 == 0o044

        until(is_open, "the filler opens the file to others", within=60)

    def stop(self) -> None:
        """Stops whatever runs."""
        for server in self._started:
            server.stop()


@pytest.fixture
def sites(ground: Ground) -> Iterator[Callable[..., Site]]:
    """Makes sites; their servers are stopped when the test ends."""
    made: list[Site] = []

    def make(origin_url: str, access: Mapping[str, str] | None = None, **export: str) -> Site:
        made.append(Site(ground, origin_url, access, **export))
        return made[-1]

    yield make
    for site in made:
        site.stop()


@pytest.fixture
def site(sites: Callable[..., Site], plain_origin: xrootd.Origin) -> Site:
    """A site before the stock origin."""
    return sites(plain_origin.url)


def time_ms() -> int:
    """The time in the format of records."""
    return int(time.time() * 1000)


def sent_bytes(server: Forebay) -> int:
    """Bytes that a server has sent to clients."""
    return sum(server.settled_metrics().client_bytes().values())


def test_cold_files_come_from_the_filler_and_warm_ones_from_the_disk(
    site: Site, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    site.fill(PATH, patterns[PATH])
    assert site.opens("filler") == 1
    sent = sent_bytes(site.filler)
    assert sent == patterns[PATH].size
    for number, client in enumerate(["xrdcp", "xrdfs-cat", "pyxrootd"], start=1):
        assert_same(fetch(client, ground, site.manager.file_url(PATH)), patterns[PATH].all(), client)
        assert site.opens("file") == number
    assert (sent_bytes(site.filler), sent_bytes(site.manager)) == (sent, 0), "neither has sent a byte of it"


def test_questions_are_answered_by_the_filler(site: Site, patterns: dict[str, Pattern]) -> None:
    def ask(*words: str) -> str:
        ended = run_client([program("xrdfs"), site.manager.url, *words])
        return (ended.stdout + ended.stderr).decode(errors="replace")

    assert f"Size:   {patterns[PATH].size}" in ask("stat", PATH)
    assert PATH in ask("ls", "/sizes")
    site.wait_until_filler_answers()
    assert f"127.0.0.1:{site.filler.port} Server Read" in ask("locate", PATH)
    assert "adler32" in ask("query", "checksum", PATH)
    assert ask("query", "config", "role").strip() == "manager"
    for words in [("stat", "/missing"), ("locate", "/missing"), ("ls", "/missing")]:
        assert "no such file" in ask(*words).lower(), words
    with RawClient("127.0.0.1", site.manager.port) as client:
        assert client.flags & 0x3 == 0x2, "a manager, and no server"


def test_the_filler_may_die_and_come_back(
    site: Site, plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    site.fill(PATH, patterns[PATH])
    with RawClient("127.0.0.1", site.filler.port) as client:
        handle = client.open(OTHER)
        assert_same(client.read(handle, 0, BLOCK).ok(), patterns[OTHER].read(0, BLOCK), "a part")
        site.filler.settled_metrics()
        client.close_file(handle)
    record = site.store / ".forebay" / "filler"
    assert record.exists()
    site.wait_until_filler_answers()
    site.filler.process.kill()
    site.wait_for_end_of_filler()
    silent = f"filler 127.0.0.1:{site.filler.port} does not answer"
    until(lambda: silent in site.status(), "the manager says so")
    for path, to in [(PATH, "file"), (OTHER, "origin")]:
        before = site.opens(to)
        assert_same(fetch("xrdcp", ground, site.manager.file_url(path)), patterns[path].all(), path)
        assert site.opens(to) == before + 1, f"{path} came from the {to}"
    missing = run_client([program("xrdcp"), "--nopbar", site.manager.file_url("/missing"), "-"])
    assert missing.returncode != 0
    assert b"no such file" in missing.stderr.lower()

    site.filler = site.start("filler")
    site.wait_for_filler()
    site.fill(OTHER, patterns[OTHER])
    assert site.filler.metrics().client_bytes()["missed"] <= patterns[OTHER].size
    assert_same(fetch("xrdcp", ground, site.manager.file_url(PATH)), patterns[PATH].all(), "still shown")
    site.filler.stop()
    assert not record.exists(), "an orderly end takes the record away"


def test_the_manager_may_die_and_come_back(site: Site, ground: Ground, patterns: dict[str, Pattern]) -> None:
    site.fill(PATH, patterns[PATH])
    site.manager.process.kill()
    site.manager = site.start("manager")
    assert_same(fetch("xrdcp", ground, site.manager.file_url(PATH)), patterns[PATH].all(), "at once")
    assert site.opens("file") == 1
    site.wait_until_filler_answers()
    assert_same(fetch("xrdcp", ground, site.manager.file_url(OTHER)), patterns[OTHER].all(), "through the filler")
    assert site.opens("filler") == 1


def test_a_store_has_one_filler(site: Site) -> None:
    for role in ("filler", "cache"):
        assert "another forebay process uses this store" in site.refused(role)
    record = site.store / ".forebay" / "filler"
    text = until(lambda: record.exists() and record.read_text(), "the filler's record is there")
    site.filler.stop()
    elsewhere = {**json.loads(text), "boot_id": "another", "instance": "another", "renewed_ms": time_ms() + 60_000}
    record.write_text(json.dumps(elsewhere))
    give_to_service(record)
    assert f"is filled by root://127.0.0.1:{site.filler.port}" in site.refused("filler")
    record.write_text(json.dumps({**elsewhere, "renewed_ms": time_ms() - 31_000}))
    site.filler = site.start("filler")
    site.wait_for_filler()

    def is_over() -> bool:
        record.write_text(json.dumps({**elsewhere, "renewed_ms": time_ms() + 60_000}))
        return not site.filler.process.is_running()

    until(is_over, "a filler leaves a store that was taken over", within=60)
    assert "another filler has taken over the store" in site.filler.process.output()
    assert json.loads(record.read_text())["instance"] == "another", "the record is the other's"


def test_files_that_a_manager_redirected_to_are_kept_for_the_lease(
    site: Site, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    site.fill(PATH, patterns[PATH])
    file = site.store / PATH[1:]
    os.utime(file, (LONG_AGO, file.stat().st_mtime))
    assert_same(fetch("xrdcp", ground, site.manager.file_url(PATH)), patterns[PATH].all(), "sent there")
    assert site.opens("file") == 1
    assert file.stat().st_atime > LONG_AGO
    evict = ("evict", PATH, "--admin", str(site.socket("filler")))
    assert "open" in forebay.run(ground, *evict).stderr
    assert file.exists()
    with file.open("rb") as reader:
        os.utime(file, (LONG_AGO, file.stat().st_mtime))
        until(lambda: (forebay.run(ground, *evict), not file.exists())[1], "it may be evicted", within=60)
        assert_same(reader.read(), patterns[PATH].all(), "an open file is read to its end")
    assert_same(fetch("xrdcp", ground, site.manager.file_url(PATH)), patterns[PATH].all(), "again")


def test_a_changed_file_is_not_given_beyond_its_policy(
    sites: Callable[..., Site], ground: Ground, data: Path, patterns: dict[str, Pattern]
) -> None:
    directory = ground.directory("changing")
    path = "/file.bin"
    old, new = Pattern(3 * BLOCK, 21), Pattern(3 * BLOCK, 22)

    def put(content: Pattern, mtime: int) -> None:
        written = content.write(directory / "new")
        os.utime(written, (mtime, mtime))
        written.rename(directory / path[1:])

    put(old, LONG_AGO)
    origin = xrootd.plain(ground, directory)
    try:
        site = sites(origin.url, validity="each-open")
        site.fill(path, old)
        put(new, LONG_AGO + 1000)
        for _ in range(2):
            site.wait_until_filler_answers()
            assert_same(fetch("xrdcp", ground, site.manager.file_url(path)), new.all(), "the new content")
        assert site.opens("file") == 0, "each time the filler was asked"
    finally:
        origin.stop()


def test_a_miss_may_lead_to_the_origin_while_the_filler_fetches(
    sites: Callable[..., Site], plain_origin: xrootd.Origin, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    site = sites(plain_origin.url, miss="redirect")
    site.fill(PATH, patterns[PATH])
    assert sent_bytes(site.filler) == 0, "the client has read it at the origin"
    assert_same(fetch("xrdcp", ground, site.manager.file_url(PATH)), patterns[PATH].all(), "warm")
    assert site.opens("file") == 1


def test_a_manager_knows_the_proof_that_a_client_sees_the_store(
    sites: Callable[..., Site], plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    site = sites(plain_origin.url, {"probe": "client"})
    site.fill(PATH, patterns[PATH])
    token = (site.store / ".forebay-probe").read_text().strip()

    def sent(path: str) -> bytes:
        with RawClient("127.0.0.1", site.manager.port) as client:
            return client.try_open(path).body

    until(lambda: sent(f"{PATH}?forebay.probe={token}")[4:].startswith(b"file://"), "the proof is good", within=60)
    site.wait_until_filler_answers()
    for unproven in (PATH, f"{PATH}?forebay.probe={token[::-1]}"):
        assert sent(unproven)[:4] == site.filler.port.to_bytes(4), "to the filler"


def test_staged_files_are_there_before_they_are_read(site: Site, ground: Ground, patterns: dict[str, Pattern]) -> None:
    site.wait_until_filler_answers()
    staged = run_client([program("xrdfs"), site.manager.url, "prepare", "-s", PATH])
    assert staged.returncode == 0, staged.stderr
    file = site.store / PATH[1:]
    until(lambda: file.exists() and file.stat().st_mode & 0o044, "the filler has fetched the file", within=60)
    assert_same(fetch("xrdcp", ground, site.manager.file_url(PATH)), patterns[PATH].all(), "warm")
    assert site.opens("file") == 1


def test_the_examples_are_good_configurations(ground: Ground) -> None:
    directory = give_to_service(ground.directory("cluster"))
    for role in ("filler", "manager"):
        text = (REPOSITORY / "deploy" / "roles" / f"{role}.toml").read_text()
        path = ground.directory("example") / f"{role}.toml"
        path.write_text(text.replace("/mnt/cluster/cache", str(directory)))
        checked = forebay.run(ground, "check-config", str(path))
        assert checked.returncode == 0, checked.stderr
