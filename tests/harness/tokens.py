"""An issuer of tokens for tests: a key, its JSON Web Key Set, and tokens signed with it."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path

from .ground import Ground
from .pki import openssl

EXPONENT = b"\x01\x00\x01"
"""That of the keys that openssl makes."""


class TokenIssuer:
    """Somebody who signs tokens with an RSA key."""

    def __init__(self, ground: Ground, url: str = "https://issuer.test/") -> None:
        self.url = url
        self._directory = ground.directory("token-issuer")
        self._directory.chmod(0o755)
        self._key = self._directory / "key.pem"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self._key)
        modulus = openssl("rsa", "-in", self._key, "-noout", "-modulus").strip().removeprefix("Modulus=")
        key = {"kty": "RSA", "kid": "test", "alg": "RS256", "use": "sig", "e": _encoded(EXPONENT)}
        self.keys = self._directory / "keys.json"
        self.keys.write_text(json.dumps({"keys": [{**key, "n": _encoded(bytes.fromhex(modulus))}]}))

    def token(self, **claims: object) -> str:
        """A token of the WLCG profile for an hour, with these claims in place of the usual ones."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": "ann", "aud": "https://wlcg.cern.ch/jwt/v1/any", "wlcg.ver": "1.0"}
        payload = {**usual, "iat": now, "nbf": now, "exp": now + 3600, "scope": "storage.read:/", **claims}
        head = _encoded(json.dumps({"alg": "RS256", "typ": "JWT", "kid": "test"}).encode())
        signed = f"{head}.{_encoded(json.dumps(payload).encode())}"
        argv = ["openssl", "dgst", "-sha256", "-sign", str(self._key)]
        signature = subprocess.run(argv, input=signed.encode(), capture_output=True, timeout=60, check=True).stdout
        return f"{signed}.{_encoded(signature)}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token_file(ground: Ground, token: str) -> Path:
    """A file with a token that stock clients accept: nobody else can read it."""
    path = ground.directory("token") / "token"
    path.touch(mode=0o600)
    path.write_text(token)
    return path
