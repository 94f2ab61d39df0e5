"""A site on one machine: a host for the cache on which packages are installed, a client, and an origin."""

from __future__ import annotations

from pathlib import Path

from . import systemctl
from .content import Pattern
from .ground import Ground
from .hosts import Hosts
from .machine import Machine
from .named_host import NamedHost
from .waiting import until
from .xrootd import on_host

HOME = "/root"
SERVICES = ["forebay", "xrootd@cache"]
XCACHE_FILE = "/etc/xrootd/xrootd-cache.cfg"
XCACHE_DIRECTORY = "/data/xcache"
XCACHE_BLOCK = 128 << 10
XCACHE = f"""\
all.export /store
ofs.osslib libXrdPss.so
pss.cachelib libXrdPfc.so
pss.origin origin.example.org:1094
oss.localroot {XCACHE_DIRECTORY}
xrd.port 1094
pfc.ram 1g
pfc.blocksize 128k
pfc.prefetch 0
pfc.diskusage 0.98 0.99
"""


class Site:
    """The hosts of a document. No init runs on the cache: harness/systemctl.py stands in for `systemctl` there."""

    def __init__(self, ground: Ground, hosts: Hosts, data: Path) -> None:
        self.cache = Machine(ground, host=hosts["cache"])
        self.client = NamedHost(ground, hosts["client"], hosts, {})
        self._origin = hosts["origin"]
        self._server = on_host(ground, self._origin, data)
        names = "".join(f"{host.address} {host.name}.example.org\n" for host in hosts)
        self.cache.done("tee", "--append", "/etc/hosts", text=names)
        self.cache.done("mv", "/usr/bin/systemctl", systemctl.REAL)
        self.cache.write("/usr/bin/systemctl", Path(systemctl.__file__).read_text())
        # Root works on the cache: sudo may not be installed, or ask for a terminal.
        self.cache.write("/usr/bin/sudo", '#!/bin/sh\nexec "$@"\n')
        self.cache.done("chmod", "755", "/usr/bin/systemctl", "/usr/bin/sudo")

    @property
    def origin_sent_bytes(self) -> int:
        """Bytes that have left the origin, with all headers."""
        return self._origin.sent_bytes

    def take(self, file: Path, directory: str = HOME) -> None:
        """Copies a file to the cache."""
        self.cache.done("mkdir", "-p", directory)
        self.cache.write_bytes(f"{directory}/{file.name}", file.read_bytes())

    def set_up_xcache(self) -> None:
        """A stock XCache as a service, with its files below one directory."""
        self.cache.write(XCACHE_FILE, XCACHE)
        self.cache.done("install", "-d", "-o", "xrootd", "-g", "xrootd", XCACHE_DIRECTORY, "/run/xrootd")
        self.cache.done("systemctl", "start", "xrootd@cache")

    def wait_until_recorded(self, path: str, content: Pattern) -> None:
        """Waits until XCache's record has every block of a file."""
        counted = f"n_downloaded {-(-content.size // XCACHE_BLOCK)},"
        record = f"{XCACHE_DIRECTORY}{path}.cinfo"
        until(lambda: counted in self.cache.run("xrdpfc_print", record).stdout, f"XCache records {path}", within=60)

    def type(self, block: str) -> str:
        """Runs a block in a shell of the cache, and returns its output."""
        return self.cache.done("bash", "-c", f"set -eu\ncd {HOME}\n{block}")

    def close(self) -> None:
        """Stops all servers."""
        self.cache.run("systemctl", "stop", *SERVICES)
        self._server.stop()
        self.cache.__exit__()
