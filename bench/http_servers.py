"""Servers for `http_compare.py`: Forebay, XCache with XrdHttp, nginx, and the origin of the caches."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

FILE_LEN = 256 << 20
WHOLE_LEN = 16 << 20
COLD_FILES = 16
COLD_LEN = 16 << 20
"""Files that no cache has before they are measured."""
USER = 1
"""`daemon`: xrootd refuses to run as root."""

NGINX = """
worker_processes 2;
worker_rlimit_nofile 16384;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600s;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/f;
  uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
  proxy_cache_path {place}/slices keys_zone=z:10m max_size=2g;
  ssl_certificate {place}/cert.pem; ssl_certificate_key {place}/key.pem; ssl_protocols TLSv1.3;
  server {{ listen 127.0.0.1:28081; listen 127.0.0.1:28181 ssl http2; root {data}; }}
  server {{ listen 127.0.0.1:28082; listen 127.0.0.1:28182 ssl http2; location / {{
    slice 1m; proxy_cache z; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range;
    proxy_cache_valid 200 206 1h; proxy_http_version 1.1; proxy_pass http://127.0.0.1:28081; }} }}
}}
"""

ORIGIN = """
all.export / r/o
oss.localroot {data}
all.adminpath {place}/origin
all.pidpath {place}/origin
"""

XCACHE = """
all.export /
xrd.protocol http:28083 libXrdHttp.so
xrd.tls {place}/xcache-cert.pem {place}/xcache-key.pem
xrd.tlsca noverify
http.selfhttps2http no
ofs.osslib libXrdPss.so
pss.cachelib libXrdPfc.so
pss.origin 127.0.0.1:28090
oss.localroot {place}/xcache
pfc.ram 1g
pfc.prefetch 0
all.adminpath {place}/xcache-admin
all.pidpath {place}/xcache-admin
"""

FOREBAY = """
[server]
listen = ["127.0.0.1:28080"]
[tls]
certificate = "{place}/cert.pem"
key = "{place}/key.pem"
policy = "capable"
[store]
path = "{place}/forebay"
[[export]]
path = "/"
origins = ["root://127.0.0.1:28090"]
"""


@dataclass
class Server:
    """A running server."""

    name: str
    port: int
    tls_port: int
    pids: list[int] = field(default_factory=list)

    def processor_ns(self) -> int:
        """Processor time of all threads."""
        total = 0
        for pid in self.pids:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                # A thread may end meanwhile.
                with suppress(FileNotFoundError):
                    total += int((thread / "schedstat").read_text().split()[0])
        return total

    def memory(self) -> int:
        """Bytes that are its own."""
        found = [
            re.search(r"Private_Dirty:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text()) for pid in self.pids
        ]
        return sum(int(match[1]) << 10 for match in found if match)


def certificates(place: Path) -> None:
    """A P-256 certificate for all servers; xrootd wants files of its own."""
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    files = ["-subj", "/CN=localhost", "-keyout", str(place / "key.pem"), "-out", str(place / "cert.pem")]
    subprocess.run([*argv, *files], check=True, capture_output=True)
    for kind in ("cert", "key"):
        copy = place / f"xcache-{kind}.pem"
        shutil.copy(place / f"{kind}.pem", copy)
        copy.chmod(0o400)
        as_daemon(copy)


def as_daemon(path: Path) -> None:
    """Gives a file or directory to the user of xrootd."""
    if os.geteuid() == 0:
        os.chown(path, USER, USER)


def started(argv: Sequence[str | Path], port: int, log: Path, *, is_xrootd: bool = False) -> subprocess.Popen[bytes]:
    """A process that listens."""
    user = {"user": USER, "group": USER} if is_xrootd and os.geteuid() == 0 else {}
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out, **user)  # type: ignore[call-overload]
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return process  # type: ignore[no-any-return]
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise TimeoutError(log.read_text())


def workers_of(pid: int) -> list[int]:
    """The workers of nginx. The loader of its cache ends after a minute."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if b"worker process" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextmanager
def servers(place: Path, binary: Path) -> Iterator[list[Server]]:
    """All servers, and the origins of the caches."""
    data = place / "data"
    data.mkdir()
    (data / "file").write_bytes(os.urandom(1 << 20) * (FILE_LEN >> 20))
    (data / "whole").write_bytes(os.urandom(1 << 20) * (WHOLE_LEN >> 20))
    for number in range(COLD_FILES):
        (data / f"cold-{number}").write_bytes(os.urandom(1 << 20) * (COLD_LEN >> 20))
    certificates(place)
    for name in ("origin", "xcache", "xcache-admin"):
        (place / name).mkdir()
        as_daemon(place / name)
    for name, text in {"nginx": NGINX, "origin": ORIGIN, "xcache": XCACHE, "forebay": FOREBAY}.items():
        (place / f"{name}.conf").write_text(text.format(place=place, data=data))
    processes = []
    try:
        nginx: list[str | Path] = ["nginx", "-c", place / "nginx.conf", "-p", place, "-g", "daemon off;"]
        processes.append(started(nginx, 28081, place / "nginx.log"))
        origin: list[str | Path] = ["xrootd", "-c", place / "origin.conf", "-p", "28090"]
        processes.append(started(origin, 28090, place / "origin.log", is_xrootd=True))
        xcache: list[str | Path] = ["xrootd", "-c", place / "xcache.conf", "-p", "28093"]
        processes.append(started(xcache, 28083, place / "xcache.log", is_xrootd=True))
        forebay: list[str | Path] = [binary, "serve", "--config", place / "forebay.conf"]
        processes.append(started(forebay, 28080, place / "forebay.log"))
        workers = workers_of(processes[0].pid)
        yield [
            Server("forebay", 28080, 28080, [processes[3].pid]),
            Server("xcache", 28083, 28083, [processes[2].pid]),
            Server("nginx slice", 28082, 28182, workers),
            Server("nginx static", 28081, 28181, workers),
        ]
    finally:
        for process in reversed(processes):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
