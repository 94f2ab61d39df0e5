"""A virtual organization of the tests: its server's certificate, and proxies that carry its attributes."""

from __future__ import annotations

import os
import subprocess
from itertools import count
from pathlib import Path

from .ground import Ground, program
from .pki import Authority, Credential


class Organization:
    """A virtual organization without a running server: `voms-proxy-fake` signs with its key."""

    def __init__(self, ground: Ground, authority: Authority, name: str) -> None:
        self.name = name
        self._directory = ground.directory(f"voms-{name}")
        self._numbers = count()
        self.server = authority.host("voms.test", "DNS:voms.test")
        self.vomsdir = ground.directory(f"vomsdir-{name}")
        self.vomsdir.chmod(0o755)
        (self.vomsdir / name).mkdir(mode=0o755)
        (self.vomsdir / name / "voms.test.lsc").write_text(f"{self.server.subject}\n{authority.subject}\n")

    def proxy(self, user: Credential, *fqans: str, environment: dict[str, str], limited: bool = False) -> Credential:
        """A proxy of the user with these attributes."""
        out = self._directory / f"proxy-{next(self._numbers)}.pem"
        argv: list[str | Path] = [program("voms-proxy-fake"), "-rfc", "-bits", "2048", "-quiet"]
        argv += ["-cert", user.certificate, "-key", user.key, "-certdir", environment["X509_CERT_DIR"]]
        argv += ["-hostcert", self.server.certificate, "-hostkey", self.server.key]
        argv += ["-voms", self.name, "-uri", "voms.test:15000", "-out", out]
        argv += ["-limited"] if limited else []
        for fqan in fqans:
            argv += ["-fqan", fqan]
        made = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, timeout=60, check=False)
        if made.returncode != 0:
            raise AssertionError(f"voms-proxy-fake ended with {made.returncode}: {made.stdout!r} {made.stderr!r}")
        return Credential(out, out, user.subject)
