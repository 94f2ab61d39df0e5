"""The distribution's servers: plain xrootd, xrootd with cmsd behind a redirector, and XCache."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .ground import Ground, MissingProgram, program
from .hosts import Host
from .pki import Credential
from .process import Process, give_to_service
from .tokens import ANY_AUDIENCE, TokenIssuer
from .voms import Organization
from .waiting import until

BLOCK = 65536


@dataclass(frozen=True)
class Release:
    """An XRootD release whose servers run: that of the distribution, or one below a prefix."""

    name: str
    prefix: Path | None = None

    def program(self, name: str) -> Path:
        """The full path of a program of it."""
        if self.prefix is None:
            return program(name)
        path = self.prefix / "bin" / name
        if not path.is_file():
            raise MissingProgram(f"{path} does not exist: see FOREBAY_XROOTD6_PREFIX in tests/README.md")
        return path

    def environment(self) -> dict[str, str]:
        """Variables with which its programs find its libraries."""
        return {} if self.prefix is None else {"LD_LIBRARY_PATH": str(self.prefix / "lib")}


DISTRIBUTION = Release("distribution")


def releases() -> list[Release]:
    """That of the distribution, and XRootD 6 if there is a prefix of it."""
    prefix = os.environ.get("FOREBAY_XROOTD6_PREFIX")
    return [DISTRIBUTION, Release("xrootd6", Path(prefix))] if prefix else [DISTRIBUTION]


@dataclass
class Origin:
    """A running server of files under `data`."""

    port: int
    data: Path
    processes: list[Process]

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """URL of the server without a path."""
        return f"root://{self.address}"

    def stop(self) -> None:
        """Stops every process of it."""
        for process in reversed(self.processes):
            process.stop()


def plain(ground: Ground, data: Path, *, writable: bool = False, port: int | None = None) -> Origin:
    """One xrootd serving a directory, with checksums; at a free port unless one is given."""
    lines = [
        "all.export /" if writable else "all.export / r/o",
        f"oss.localroot {data}",
        "xrootd.chksum max 2 adler32 crc32c",
    ]
    port = port or ground.free_port()
    return Origin(port, data, [_start(ground, "xrootd", "origin", port, lines)])


def http(ground: Ground, data: Path) -> tuple[Process, int]:
    """One xrootd serving a directory over HTTP too, and its port."""
    lines = [
        "all.export / r/o",
        f"oss.localroot {data}",
        "xrd.protocol http libXrdHttp.so",
        "http.listingdeny no",
        "xrootd.chksum max 2 adler32 crc32c",
    ]
    port = ground.free_port()
    return _start(ground, "xrootd", "http-origin", port, lines), port


def encrypted(ground: Ground, data: Path, host: Credential, authorities: Path, policy: str) -> Origin:
    """One xrootd serving a directory over TLS, by a policy (the arguments of `xrootd.tls`)."""
    lines = [
        "all.export / r/o",
        f"oss.localroot {data}",
        f"xrd.tls {host.certificate} {host.key}",
        f"xrd.tlsca certdir {authorities}",
        f"xrootd.tls {policy}",
    ]
    port = ground.free_port()
    return Origin(port, data, [_start(ground, "xrootd", "encrypted", port, lines)])


def guarded(
    ground: Ground,
    data: Path,
    security: list[str],
    rules: str = "",
    *,
    tls: tuple[Credential, Path] | None = None,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Origin:
    """One xrootd that requires a login by the protocols of `security` (lines of its configuration).

    It obeys `rules` (lines of an authorization database), if there are any. With `tls` (its credential and a directory
    of CAs) it is reached by TLS only.
    """
    directory = ground.directory("guarded")
    lines = ["all.export / r/o", f"oss.localroot {data}", "xrootd.seclib libXrdSec.so", *security]
    if rules:
        database = directory / "authdb"
        database.write_text(rules)
        lines += ["ofs.authorize 1", f"acc.authdb {database}"]
    if tls:
        host, authorities = tls
        lines += [f"xrd.tls {host.certificate} {host.key}", f"xrd.tlsca certdir {authorities}", "xrootd.tls all"]
    port = port or ground.free_port()
    return Origin(port, data, [_start(ground, "xrootd", "guarded", port, lines, environment=environment)])


def for_members(
    ground: Ground,
    data: Path,
    organization: Organization,
    authorities: Path,
    host: Credential,
    *,
    encrypted: bool = False,
) -> Origin:
    """One xrootd that gives its files to members of an organization only, known by their proxies."""
    gsi = f"-certdir:{authorities} -cert:{host.certificate} -key:{host.key} -crl:1 -gmapopt:0"
    return guarded(
        ground,
        data,
        [f"sec.protocol gsi {gsi} -vomsat:2 -vomsfun:default"],
        f"g /{organization.name} / rl\n",
        tls=(host, authorities) if encrypted else None,
        environment={"X509_VOMS_DIR": str(organization.vomsdir), "X509_CERT_DIR": str(authorities)},
    )


def for_bearers(
    ground: Ground, data: Path, issuer: TokenIssuer, host: Credential, authorities: Path, *, port: int | None = None
) -> Origin:
    """One xrootd that gives its files to bearers of an issuer's tokens only, over TLS."""
    directory = ground.directory("scitokens")
    settings = directory / "scitokens.cfg"
    ours = f"[Issuer test]\nissuer = {issuer.url}\nbase_path = /\n"
    settings.write_text(f"[Global]\naudience = {ANY_AUDIENCE}\n{ours}")
    # The stock library fetches keys of issuers from the web only, and caches them here.
    keys = {"expires": 4_000_000_000, "next_update": 4_000_000_000, "jwks": json.loads(issuer.keys.read_text())}
    cache = directory / "cache"
    (cache / "scitokens").mkdir(parents=True)
    with sqlite3.connect(cache / "scitokens" / "scitokens_cpp.sqllite") as database:
        database.execute("CREATE TABLE keycache (issuer text UNIQUE PRIMARY KEY NOT NULL, keys text NOT NULL)")
        database.execute("INSERT INTO keycache VALUES (?, ?)", (issuer.url, json.dumps(keys)))
    give_to_service(cache)
    return guarded(
        ground,
        data,
        ["sec.protocol ztn", "ofs.authorize 1", f"ofs.authlib libXrdAccSciTokens.so config={settings}"],
        tls=(host, authorities),
        environment={"XDG_CACHE_HOME": str(cache)},
        port=port,
    )


def cluster(ground: Ground, data: Path) -> Origin:
    """A redirector (xrootd and cmsd, role manager) and one data server (xrootd and cmsd); the port is the redirector's.

    An xrootd finds its cmsd through their common admin path, and asks again only every 10 s: the cmsd starts first.
    """
    front, manager, behind, behind_manager = (ground.free_port() for _ in range(4))
    shared = ["all.export / r/o", f"all.manager 127.0.0.1:{manager}", "cms.delay startup 1 servers 1 lookup 1 full 1"]
    boss = [*shared, "all.role manager"]
    worker = [*shared, "all.role server", f"oss.localroot {data}", "cms.space 1 1"]
    boss_admin, worker_admin = ground.directory("manager"), ground.directory("worker")
    processes = [
        _start(ground, "cmsd", "manager-cmsd", manager, boss, boss_admin),
        _start(ground, "xrootd", "manager", front, boss, boss_admin),
        _start(ground, "cmsd", "worker-cmsd", behind_manager, worker, worker_admin),
        _start(ground, "xrootd", "worker", behind, worker, worker_admin),
    ]
    # An earlier client is asked to wait 10 s.
    processes[1].wait_for_line("cms_setStatus: .* resumed")
    until(lambda: _knows(front, _some_file(data)), "the redirector knows its data server", within=60)
    return Origin(front, data, processes)


def redirector(ground: Ground, port: int, node_port: int, lines: list[str], release: Release) -> list[Process]:
    """A redirector (cmsd and xrootd, role manager) for nodes that log in at `node_port`."""
    shared = ["all.role manager", f"all.manager 127.0.0.1:{node_port}", "all.export / stage r/o", *lines]
    admin = ground.directory("redirector")
    cmsd = _start(ground, "cmsd", "redirector-cmsd", node_port, shared, admin, release=release)
    return [cmsd, _start(ground, "xrootd", "redirector", port, shared, admin, release=release)]


def cmsd_beside(ground: Ground, data_port: int, store: Path, manager_port: int, release: Release) -> Process:
    """A `cmsd` (role server) that logs in for the server of another program, whose files lie in `store`."""
    lines = [
        "all.role server",
        f"all.manager 127.0.0.1:{manager_port}",
        "all.export / stage r/o",
        f"oss.localroot {store}",
        f"cms.altds xroot {data_port} monitor",
        "cms.space min 1m 2m",
    ]
    admin = ground.directory("cmsd-beside")
    return _start(ground, "cmsd", "cmsd-beside", ground.free_port(), lines, admin, release=release)


def on_host(ground: Ground, host: Host, data: Path) -> Process:
    """A server of the directory at the usual port of a host."""
    directory = ground.directory("origin")
    configuration = directory / "xrootd.cfg"
    lines = ["all.export / r/o", f"oss.localroot {data}", f"all.adminpath {directory}", f"all.pidpath {directory}"]
    configuration.write_text("\n".join(lines) + "\n")
    command = host.command(program("xrootd"), "-c", configuration, "-p", "1094")
    process = Process("origin", command, directory, keep_root=True)
    process.wait_for_line("xrootd .* initialization completed", within=60)
    return process


def xcache(ground: Ground, store: Path, origin_address: str) -> Origin:
    """The stock disk cache on a store directory, in front of an origin."""
    give_to_service(store)
    lines = [
        "all.export /",
        "ofs.osslib libXrdPss.so",
        "pss.cachelib libXrdPfc.so",
        f"pss.origin {origin_address}",
        f"oss.localroot {store}",
        f"pfc.blocksize {BLOCK}",
        "pfc.ram 1g",
        "pfc.prefetch 0",
        "pfc.diskusage 0.9998 0.9999",
        "pfc.flush 100",
    ]
    port = ground.free_port()
    return Origin(port, store, [_start(ground, "xrootd", "xcache", port, lines)])


def configured(ground: Ground, configuration: Path, port: int, *, instance: str) -> Origin:
    """An xrootd with a configuration of its own, as a site runs it: under an instance name."""
    admin = ground.directory("admin")
    command: list[str | os.PathLike[str]] = [program("xrootd"), "-c", configuration, "-n", instance]
    command += ["-p", str(port), "-a", admin, "-s", admin / "pid"]
    process = Process(f"xrootd-{instance}", command, admin)
    process.wait_for_line(r"xrootd \S+ initialization completed", within=30)
    return Origin(port, configuration.parent, [process])


def _start(
    ground: Ground,
    executable: str,
    name: str,
    port: int,
    lines: list[str],
    admin: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    release: Release = DISTRIBUTION,
) -> Process:
    directory = ground.directory(name)
    configuration = directory / f"{executable}.cfg"
    paths = [f"all.adminpath {admin or directory}", f"all.pidpath {admin or directory}"]
    configuration.write_text("\n".join([*lines, *paths]) + "\n")
    command = [str(release.program(executable)), "-c", str(configuration), "-p", str(port)]
    process = Process(name, command, directory, env={**release.environment(), **(environment or {})})
    process.wait_for_line(rf"{executable} \S+ initialization completed", within=30)
    return process


def _some_file(data: Path) -> str:
    return next(f"/{path.relative_to(data)}" for path in data.rglob("*.bin") if path.is_file())


def _knows(port: int, path: str) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        command = [str(program("xrdfs")), f"127.0.0.1:{port}", "stat", path]
        return subprocess.run(command, capture_output=True, timeout=15, check=False).returncode == 0
    return False
