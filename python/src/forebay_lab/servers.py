"""The servers that are compared: an origin, the distribution's XCache, and Forebay."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from . import network
from .errors import LabError
from .process import Process, Usage, free_port, service_directory
from .programs import Programs, distribution

MEMORY_XCACHE, MEMORY_FOREBAY = "1g", "1GiB"
COPY_SECONDS = 3600
COPY_BATCH = 64
"""Files of one xrdcp, which takes longer to start than to copy a short file."""
QUIET_S, QUIET_CPU_S = 0.3, 0.02
DIRECT_SECONDS = 180.0
SERVED_SHARE_MAX = 0.1
"""A server that has read less than this share of a file has not served it."""

SETTLE_SECONDS = 120.0
START_ATTEMPTS = 3


@dataclass(frozen=True)
class Server:
    """A running server, and the names its files are known by."""

    kind: str
    address: str
    process: Process
    dcap_address: str = ""
    """Of Forebay, if it speaks dCap."""

    def url(self, path: str) -> str:
        """URL of a file given by its absolute path."""
        return f"root://{self.address}/{path}"

    def dcap_url(self, path: str) -> str:
        """URL of a file over dCap."""
        return f"dcap://{self.dcap_address}{path}"

    def usage(self) -> Usage:
        """Resources used so far."""
        return self.process.usage()


@dataclass(frozen=True)
class Work:
    """Directories for servers: for their files and cold stores, and in memory for warm data."""

    disk: Path
    warm: Path


class Servers:
    """Starts servers below one directory, for one path between client and origin."""

    def __init__(
        self, programs: Programs, work: Work, path: network.Path | None = None, *, xcache: str = "lab"
    ) -> None:
        self.programs = programs
        self.path = path or network.loopback()
        self.xcache_settings = xcache
        self.warm_directory = service_directory(work.warm)
        self._directory = service_directory(work.disk)
        self._numbers = count()

    @contextmanager
    def origin(self, data: Path) -> Iterator[Server]:
        """The distribution's file server, at the far end."""
        with self._xrootd("origin", self.path.far, ["all.export / r/o", f"oss.localroot {data}"]) as server:
            yield server

    @contextmanager
    def xcache(self, origin: Server, *, direct: bool = False, warm: bool = False) -> Iterator[Server]:
        """The distribution's XCache with an empty store, near; with `direct` clients are sent to complete files.

        With `warm` the store is in memory.
        """
        with self._directory_of("xcache-store", warm=warm) as store:
            lines = [
                "all.export / r/o",
                "ofs.osslib libXrdPss.so",
                "pss.cachelib libXrdPfc.so",
                f"pss.origin {origin.address}",
                f"oss.localroot {store}",
                f"pfc.ram {MEMORY_XCACHE}",
                "pfc.diskusage 0.9998 0.9999",
            ]
            lines += ["pfc.prefetch 0"] if self.xcache_settings == "lab" else []
            lines += ["pss.dca world"] if direct else []
            with self._xrootd("xcache", self.path.near, lines) as server:
                yield server

    @contextmanager
    def forebay(
        self, origin: Server, *, direct: bool = False, warm: bool = False, dcap: bool = False
    ) -> Iterator[Server]:
        """Forebay with an empty store, at the near end; with `direct` clients are sent to complete files.

        With `warm` the store is in memory.
        """
        with self._directory_of("forebay-store", warm=warm) as store:
            lines = _cache_settings(origin, store, self.path.near.address, direct=direct)
            with self._forebay("forebay", self.path.near, lines, dcap=dcap) as server:
                yield server

    @contextmanager
    def dcap_server(self, data: Path) -> Iterator[Server]:
        """A file server that speaks dCap, at the far end: Forebay with an exported directory."""
        lines = ["[[export]]", f"directory = {json.dumps(str(data))}"]
        with self._forebay("dcap-server", self.path.far, lines, dcap=True) as server:
            yield server

    def fill(self, server: Server, path: str) -> None:
        """Reads a whole file through a cache, and waits until the cache has stopped working on it."""
        self.copy(server, path)
        settle(server)

    def copy(self, server: Server, path: str) -> None:
        """Reads a whole file from a server."""
        self._copy([server.url(path)], "-", server)

    def copy_all(self, server: Server, paths: Sequence[str]) -> None:
        """Reads many whole files from a server, some of them by one process."""
        for batch in (paths[start : start + COPY_BATCH] for start in range(0, len(paths), COPY_BATCH)):
            with self._directory_of("copies") as copies:
                self._copy([server.url(path) for path in batch], copies, server)

    def fill_direct(self, server: Server, path: str, size: int) -> None:
        """Fills a cache with a file, and waits until the cache sends clients to it instead of serving it."""
        deadline = time.monotonic() + DIRECT_SECONDS
        self.fill(server, path)
        while True:
            before = server.usage()
            self.fill(server, path)
            if server.usage().bytes_since(before) < size * SERVED_SHARE_MAX:
                return
            if time.monotonic() > deadline:
                raise LabError(f"{server.kind} serves {path} instead of redirecting clients to the file")

    def _copy(self, urls: Sequence[str], to: Path | str, server: Server) -> None:
        command = [*self.path.near.enter, str(distribution("xrdcp")), "-f", "-s", *urls, str(to)]
        with open(os.devnull, "wb") as nowhere:
            done = subprocess.run(
                command, stdout=nowhere, stderr=subprocess.PIPE, text=True, timeout=COPY_SECONDS, check=False
            )
        if done.returncode != 0:
            raise LabError(f"xrdcp of {urls[0]} failed: {done.stderr.strip()[-1000:]}; log: {server.process.log}")

    @contextmanager
    def _forebay(self, kind: str, place: network.Place, lines: list[str], *, dcap: bool) -> Iterator[Server]:
        with self._directory_of(kind) as directory:
            settings = directory / "forebay.toml"
            # libdcap does not connect to the ports that a system assigns.
            dcap_address = f"{place.address}:{free_port()}" if dcap else ""
            listen = [f"[dcap]\nlisten = [{json.dumps(dcap_address)}]"] if dcap else []
            text = ["[server]", f'listen = ["{place.address}:0"]', *listen, *lines, ""]
            settings.write_text("\n".join(text))
            argv: list[str | Path] = [self.programs.forebay, "serve", "--config", settings]
            with Process(kind, argv, directory, before=place.enter, keep_user=True) as process:
                port = process.wait_for_line(r"^ready root://.*:(\d+)$")[1]
                yield Server(kind, f"{place.address}:{port}", process, dcap_address)

    @contextmanager
    def _xrootd(self, kind: str, place: network.Place, lines: list[str]) -> Iterator[Server]:
        with self._directory_of(kind) as directory:
            process, port = self._start_xrootd(kind, place, directory, lines)
            with process:
                yield Server(kind, f"{place.address}:{port}", process)

    def _start_xrootd(self, kind: str, place: network.Place, directory: Path, lines: list[str]) -> tuple[Process, int]:
        """The server cannot report a port of its choice, so it gets one that was free a moment ago."""
        for attempt in range(START_ATTEMPTS):
            port = free_port()
            settings = directory / "xrootd.cfg"
            settings.write_text("\n".join([*lines, f"all.adminpath {directory}", f"all.pidpath {directory}", ""]))
            argv: list[str | Path] = [distribution("xrootd"), "-c", settings, "-p", str(port)]
            process = Process(kind, argv, directory, before=place.enter)
            try:
                process.wait_for_line(r"xrootd \S+ initialization completed")
                return process, port
            except BaseException as error:
                process.stop()
                if attempt + 1 == START_ATTEMPTS or not isinstance(error, LabError):
                    raise
        raise LabError("no attempt to start xrootd was made")

    @contextmanager
    def _directory_of(self, name: str, *, warm: bool = False) -> Iterator[Path]:
        parent = self.warm_directory if warm else self._directory
        directory = service_directory(parent / f"{next(self._numbers)}-{name}")
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def settle(*servers: Server) -> None:
    """Waits until servers are idle for a moment, so that work after their answers is done."""
    deadline = time.monotonic() + SETTLE_SECONDS
    before = [server.usage() for server in servers]
    while True:
        time.sleep(QUIET_S)
        after = [server.usage() for server in servers]
        if all(now.cpu_since(then) < QUIET_CPU_S for now, then in zip(after, before, strict=True)):
            return
        if time.monotonic() > deadline:
            raise LabError(f"not at rest after {SETTLE_SECONDS:.0f} s: {', '.join(server.kind for server in servers)}")
        before = after


def _cache_settings(origin: Server, store: Path, address: str, *, direct: bool) -> list[str]:
    lines = [
        "[store]",
        f"path = {json.dumps(str(store))}",
        "[memory]",
        f'budget = "{MEMORY_FOREBAY}"',
        "[[export]]",
        f'origins = ["root://{origin.address}"]',
    ]
    if direct:
        lines += ['direct = "complete"', "[direct]", 'file_mode = "0644"', f'clients = ["{address}"]']
    return lines
