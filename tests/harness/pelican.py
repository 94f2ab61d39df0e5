"""A federation of Pelican in one process: its document, and a director that names the servers of each path."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from .pki import Credential

DOCUMENT = "/.well-known/pelican-configuration"
OF_ORIGINS = "/api/v1.0/director/origin"
OF_CACHES = "/api/v1.0/director/object"


class Federation:
    """A running federation with one namespace. Its servers may change at any time."""

    def __init__(self, host: Credential, namespace: str) -> None:
        self.namespace = namespace
        self.origins: list[str] = []
        """URLs of origins, in order of preference; a path follows each."""
        self.caches: list[str] = []
        self.collections = ""
        """URL of the server that lists directories."""
        self.issuer = ""
        """Set if a token of it is required."""
        self.asked: list[tuple[str, str | None]] = []
        """Targets of requests, and tokens in them."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(host.certificate, host.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._serving = threading.Thread(target=self._server.serve_forever)
        self._serving.start()

    @property
    def authority(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """URL of the federation."""
        return f"pelican://{self.authority}"

    def count(self, service: str) -> int:
        """How often a service was asked."""
        return sum(target.startswith(service) for target, _ in self.asked)

    def stop(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._serving.join()
        self._server.server_close()

    def _answer(self, target: str) -> tuple[int, dict[str, str], bytes]:
        path = urlsplit(target).path
        if path == DOCUMENT:
            return 200, {}, json.dumps({"director_endpoint": f"https://{self.authority}"}).encode()
        servers = self.origins if path.startswith(OF_ORIGINS) else self.caches
        path = path.removeprefix(OF_ORIGINS).removeprefix(OF_CACHES)
        if not path.startswith(self.namespace) or not servers:
            return 404, {}, json.dumps({"status": "error", "msg": "no server has it"}).encode()
        # The order in the field is not that of preference.
        links = [
            f'<{server}{path}>; rel="duplicate"; pri={number}; depth={self.namespace.count("/")}'
            for number, server in reversed(list(enumerate(servers, 1)))
        ]
        requires = "true" if self.issuer else "false"
        fields = {
            "Location": f"{servers[0]}{path}",
            "Link": ", ".join(links),
            "X-Pelican-Namespace": f"namespace={self.namespace}, require-token={requires}, "
            f"collections-url={self.collections or servers[-1]}",
        }
        if self.issuer:
            fields["X-Pelican-Authorization"] = f"issuer={self.issuer}"
            fields["X-Pelican-Token-Generation"] = f"issuer={self.issuer}, max-scope-depth=3, strategy=OAuth2"
        return 307, fields, b""

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        federation = self

        class Handler(BaseHTTPRequestHandler):
            """Answers requests of every method alike."""

            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                """Answers with a document or with servers."""
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                federation.asked.append((self.path, self.headers.get("Authorization")))
                status, fields, body = federation._answer(self.path)
                self.send_response_only(status)
                for name, value in {**fields, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_PROPFIND = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        return Handler
