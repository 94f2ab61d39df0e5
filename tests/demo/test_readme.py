"""The README: its commands and examples, run as written on the hosts that they name."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uproot

from harness.document import Block, sections
from harness.ground import REPOSITORY, Ground, root_python
from harness.hosts import Hosts
from harness.named_host import NamedHost
from harness.pki import Grid
from harness.plugin import client_plugin
from harness.process import Process
from harness.tokens import TokenIssuer
from harness.xrootd import on_host

README = (REPOSITORY / "README.md").read_text()
CONFIGURATION = "/etc/forebay/forebay.toml"
DATA = "store/data/events.root"
MUONS = 2500
INSTALL = {"Quick start", "Install"}
"""Sections whose commands install programs: `make test` itself, and the tests of the package."""
XCACHE = """\
all.export /
oss.localroot /var/cache/xcache
ofs.osslib libXrdPss.so
pss.cachelib libXrdFileCache.so
pss.origin origin.example.org:1094
xrd.port 1094
all.adminpath /run/xrootd
"""
RUN_IN_ROOT = """
import sys, ROOT
ROOT.gROOT.SetBatch(True)
for line in sys.argv[1].splitlines():
    ROOT.gROOT.ProcessLine(line)
print(ROOT.events.GetSelectedRows())
"""


SECTIONS = sections(REPOSITORY / "README.md")


class Site:
    """The hosts of the README, and the server that runs on the cache."""

    def __init__(self, ground: Ground, hosts: Hosts, data: Path) -> None:
        stores = {"/var/cache": ground.directory("var-cache"), "/var/tmp": ground.directory("var-tmp")}
        origins = {"origin-1": "origin", "origin-2": "origin"}
        self.cache = NamedHost(ground, hosts["cache"], hosts, stores, origins)
        self.client = NamedHost(ground, hosts["client"], hosts, {"/opt/forebay": client_plugin().parent})
        self.origin = on_host(ground, hosts["origin"], data)
        self.server: Process | None = None

    def run(self, section: str) -> list[str]:
        """Runs the blocks of a section in their order; returns what they print."""
        return [self._run(block) for block in SECTIONS[section]]

    def _run(self, block: Block) -> str:
        match block.kind:
            case "toml":
                self.cache.run("tee", "--append", CONFIGURATION, text=block.text)
                return ""
            case "python":
                return self.client.run(sys.executable, "-c", block.text)
            case "cpp":
                return self.client.run(root_python(), "-c", RUN_IN_ROOT, block.text)
            case "sh client":
                return self.client.type(f"rm -f events.root\n{block.text}")
            case "sh cache" if "forebay serve" not in block.text:
                return self.cache.type(block.text)
            case "sh cache":
                self.stop_server()
                self.server = self.cache.serve(block.text)
                return ""
        raise AssertionError(f"the README has a block that is not run: {block}")

    def stop_server(self) -> None:
        """As Ctrl-C does."""
        if self.server:
            self.server.signal(signal.SIGINT)
            assert self.server.wait() == 0, self.server.tail()
        self.server = None

    def close(self) -> None:
        """Stops all servers."""
        self.stop_server()
        self.origin.stop()


@pytest.fixture(scope="module")
def data(ground: Ground) -> Path:
    """The file of the README, on the origin."""
    directory = ground.directory("readme-data")
    (directory / DATA).parent.mkdir(parents=True)
    with uproot.recreate(directory / DATA) as file:
        file.mktree("Events", {"Muon_pt": "float64"}).extend(
            {"Muon_pt": np.random.default_rng(1).exponential(20, MUONS)}
        )
    return directory


@pytest.fixture
def site(ground: Ground, data: Path) -> Iterator[Site]:
    """The hosts, an origin, and no cache yet."""
    with Hosts("client", "cache", "origin") as hosts:
        site = Site(ground, hosts, data)
        yield site
        site.close()


def test_every_block_is_run() -> None:
    plain = {section for section, blocks in SECTIONS.items() for block in blocks if not block.kind}
    assert plain == INSTALL, "others name the host that they are for"
    assert SECTIONS.keys() >= {"Start", "Read through the cache", "Watch"}


def test_every_make_target_exists() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"`make ([a-z-]+)", README))
    assert targets >= {"demo", "test"}
    assert not [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


def test_cache_is_started_read_and_watched(site: Site) -> None:
    site.run("Start")
    *_, counted, selected, from_forebay = site.run("Read through the cache")
    assert counted == f"{MUONS} events\n"
    assert selected.strip() == str(MUONS)
    assert "events.root" in from_forebay
    metrics_and_blocks = site.run("Watch")[-1]
    assert 'outcome="hit"' in metrics_and_blocks


def test_quoted_error_is_the_one_that_is_reported(site: Site) -> None:
    quoted = re.search(r"`(forebay\.toml:6:12: .*?)`\. ", README.replace("\n", " "))
    configuration = SECTIONS["Start"][1].text.replace('["root://', '["ftp://')
    site.cache.run("tee", "forebay.toml", text=configuration)
    said = site.cache.type("forebay check-config forebay.toml 2>&1 || true")
    assert quoted, "the README quotes an error"
    assert quoted[1].split(": ", 1)[1] in said
    assert ":6:12: " in said


def test_origins_are_named_by_clients(site: Site) -> None:
    site.run("Origins named by the client")
    assert site.cache.type("find /var/cache/forebay -name events.root").strip()


def test_xcache_is_replaced(site: Site) -> None:
    site.cache.type("mkdir -p /etc/xrootd /var/cache/xcache /etc/forebay")
    # The package has one, and `forebay adopt` changes no file.
    site.cache.type("touch /etc/forebay/forebay.toml")
    site.cache.run("tee", "/etc/xrootd/xrootd-cache.cfg", text=XCACHE)
    site.run("Replace an XCache")
    site.cache.type("forebay check-config")


def test_tokens_open_a_secured_cache(site: Site, grid: Grid, ground: Ground) -> None:
    issuer = TokenIssuer(ground, "https://cms-auth.cern.ch/")
    host = grid.issuer.host("cache.example.org", "DNS:cache.example.org")
    for machine in (site.cache, site.client):
        machine.type(f"mkdir -p /etc/grid-security; ln -sfn {grid.directory} /etc/grid-security/certificates")
    site.cache.type(
        f"cp {host.certificate} /etc/grid-security/hostcert.pem; cp {host.key} /etc/grid-security/hostkey.pem"
    )
    site.cache.type(
        f"mkdir -p /run/forebay; cp {host.in_one_file()} /run/forebay/x509up; chmod 600 /run/forebay/x509up"
    )
    site.client.run("tee", "token", text=issuer.token())
    site.client.type("chmod 600 token")
    configuration, secured = SECTIONS["Start"][1].text, SECTIONS["Secure"][0].text
    # The issuer's server cannot be reached from here: its keys come from a file.
    vo = 'vo = "cms"\n'
    secured = secured.replace(vo, f'{vo}keys = "{issuer.keys}"\n', 1)
    site.cache.run("tee", CONFIGURATION, text=configuration + secured)
    site.server = site.cache.serve("forebay serve")
    *_, copied, explained = SECTIONS["Secure"]
    site.client.type(copied.text)
    assert "allowed by rule 1" in site.cache.type(explained.text)
    without = site.client.type(
        "rm token; xrdcp root://cache.example.org//store/data/events.root second.root 2>&1 || true"
    )
    assert "Auth failed" in without
