"""An issuer of tokens for tests: a key, its JSON Web Key Set, and tokens signed with it."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from .ground import Ground
from .pki import Credential, openssl

EXPONENT = b"\x01\x00\x01"
"""That of the keys that openssl makes."""


ANY_AUDIENCE = "https://wlcg.cern.ch/jwt/v1/any"
"""The audience that stands for every service."""


class TokenIssuer:
    """An issuer that signs tokens with an RSA key."""

    def __init__(self, ground: Ground, url: str = "https://issuer.test/") -> None:
        self.url = url
        self._directory = ground.directory("token-issuer")
        self._directory.chmod(0o755)
        self.keys = self._directory / "keys.json"
        self._key_id = "none"
        self._public: list[dict[str, str]] = []
        self.rotate()

    def rotate(self) -> None:
        """Signs with a new key from now on; the old ones stay in the set."""
        self._key_id = f"key-{len(self._public)}"
        self._key = self._directory / f"{self._key_id}.pem"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self._key)
        modulus = openssl("rsa", "-in", self._key, "-noout", "-modulus").strip().removeprefix("Modulus=")
        key = {"kty": "RSA", "kid": self._key_id, "alg": "RS256", "use": "sig", "e": _encoded(EXPONENT)}
        self._public.append({**key, "n": _encoded(bytes.fromhex(modulus))})
        self.keys.write_text(json.dumps({"keys": self._public}))

    def token(self, **claims: object) -> str:
        """A token of the WLCG profile for an hour, with these claims in place of the usual ones."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": "ann", "aud": "https://wlcg.cern.ch/jwt/v1/any", "wlcg.ver": "1.0"}
        payload = {**usual, "iat": now, "nbf": now, "exp": now + 3600, "scope": "storage.read:/", **claims}
        head = _encoded(json.dumps({"alg": "RS256", "typ": "JWT", "kid": self._key_id}).encode())
        signed = f"{head}.{_encoded(json.dumps(payload).encode())}"
        argv = ["openssl", "dgst", "-sha256", "-sign", str(self._key)]
        signature = subprocess.run(argv, input=signed.encode(), capture_output=True, timeout=60, check=True).stdout
        return f"{signed}.{_encoded(signature)}"


class ServedIssuer(TokenIssuer):
    """An issuer that serves its keys over HTTPS at a port of this machine, until it is closed."""

    def __init__(self, ground: Ground, host: Credential) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(host.certificate, host.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        super().__init__(ground, f"https://127.0.0.1:{self._server.server_port}")
        self.documents = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"},
        }
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> ServedIssuer:
        return self

    def __exit__(
        self, _: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the issuer."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = issuer.documents.get(self.path)
                body = issuer.keys.read_bytes() if self.path == "/jwks" else json.dumps(found).encode()
                self.send_response(200 if found or self.path == "/jwks" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Tests read the server's log, not this one's."""

        return Handler


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token_file(ground: Ground, token: str) -> Path:
    """A file with a token that stock clients accept: private to its user."""
    path = ground.directory("token") / "token"
    path.touch(mode=0o600)
    path.write_text(token)
    return path
