"""HTTP servers of the distribution as origins: nginx, static or with WebDAV, and xrootd with its HTTP protocol."""

from __future__ import annotations

import socket
from pathlib import Path

from .ground import Ground, program
from .process import Process
from .waiting import until
from .xrootd import http as xrootd_http

NGINX = """
daemon off;
pid {directory}/pid;
error_log stderr warn;
{modules}
events {{}}
http {{
    access_log {directory}/access.log;
    client_body_temp_path {directory}/a; proxy_temp_path {directory}/b; fastcgi_temp_path {directory}/c;
    uwsgi_temp_path {directory}/d; scgi_temp_path {directory}/e;
    server {{
        listen 127.0.0.1:{port};
        root {data};
        {location}
    }}
}}
"""


class HttpOrigin:
    """A running HTTP server of the files under `data`."""

    def __init__(self, process: Process, port: int) -> None:
        self.process, self.port = process, port

    @property
    def url(self) -> str:
        """URL of the server without a path."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Ends it."""
        self.process.stop()


def nginx(ground: Ground, data: Path, *, webdav: bool) -> HttpOrigin:
    """A server of nginx with the directory as its root."""
    directory, port = ground.directory("nginx"), ground.free_port()
    module = "load_module modules/ngx_http_dav_ext_module.so;" if webdav else ""
    location = "location / { dav_ext_methods PROPFIND OPTIONS; }" if webdav else ""
    configuration = directory / "nginx.conf"
    text = NGINX.format(directory=directory, port=port, data=data, modules=module, location=location)
    configuration.write_text(text)
    argv = [str(program("nginx")), "-p", "/usr/share/nginx", "-c", str(configuration)]
    return _started(Process("nginx", argv, directory), port)


def xrootd(ground: Ground, data: Path) -> HttpOrigin:
    """XRootD's data server with its HTTP protocol."""
    process, port = xrootd_http(ground, data)
    return _started(process, port)


def _started(process: Process, port: int) -> HttpOrigin:
    def is_listening() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(is_listening, f"a server listens at port {port}")
    return HttpOrigin(process, port)
