"""HTTP servers of the distribution as origins: nginx, Apache, and xrootd with its HTTP protocol."""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .ground import Ground, program
from .pki import Credential
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

APACHE = """
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
User www-data
Group www-data
PidFile {directory}/pid
ErrorLog {directory}/error.log
{modules}
DavLockDB {directory}/locks/db
DocumentRoot {data}
<Directory {data}>
    Dav On
    Require all granted
</Directory>
"""
APACHE_MODULES = ("mpm_event", "authz_core", "dir", "dav", "dav_fs")


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


def apache(ground: Ground, data: Path) -> HttpOrigin:
    """A server of Apache with WebDAV, with the directory as its root."""
    directory, port = ground.directory("apache"), ground.free_port()
    # Written by the user of the server, who is another one if root starts it.
    (directory / "locks").mkdir()
    (directory / "locks").chmod(0o777)
    load = "LoadModule {0}_module /usr/lib/apache2/modules/mod_{0}.so"
    modules = "\n".join(load.format(name) for name in APACHE_MODULES)
    configuration = directory / "apache.conf"
    configuration.write_text(APACHE.format(directory=directory, port=port, data=data, modules=modules))
    argv = [str(program("apache2")), "-D", "FOREGROUND", "-d", str(directory), "-f", str(configuration)]
    return _started(Process("apache", argv, directory), port)


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


class OneFile:
    """A server of one content under every path, with the validators that a test sets; over TLS with a credential."""

    def __init__(self, content: bytes, fields: dict[str, str], host: Credential | None = None) -> None:
        self.content, self.fields = content, fields
        self.status: int | None = None
        """Set if all requests are refused."""
        self.authorizations: list[str | None] = []
        """The credentials of all requests."""
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.scheme = "https" if host else "http"
        if host:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(host.certificate, host.key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    @property
    def url(self) -> str:
        """URL of the server without a path."""
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}"

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """Answers GET with at most one range, and HEAD."""

            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                """Answers with the content or a part of it."""
                content = b"" if origin.status else origin.content
                wanted = self.headers.get("Range")
                if wanted is None or origin.status:
                    self._head(200, len(content))
                    self.wfile.write(content)
                    return
                first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
                part = content[first : last + 1]
                fields = {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(content)}"}
                self._head(206, len(part), fields)
                self.wfile.write(part)

            def do_HEAD(self) -> None:
                """Answers with the head alone."""
                self._head(200, 0 if origin.status else len(origin.content))

            def _head(self, status: int, length: int, more: dict[str, str] | None = None) -> None:
                origin.authorizations.append(self.headers.get("Authorization"))
                self.send_response_only(origin.status or status)
                for name, value in {"Content-Length": str(length), **origin.fields, **(more or {})}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Says nothing."""

        return Handler


@contextmanager
def one_file(content: bytes, fields: dict[str, str], host: Credential | None = None) -> Iterator[OneFile]:
    """A server of `content`, with these fields in its answers."""
    origin = OneFile(content, fields, host)
    serving = threading.Thread(target=origin.server.serve_forever)
    serving.start()
    try:
        yield origin
    finally:
        origin.server.shutdown()
        serving.join()
        origin.server.server_close()
