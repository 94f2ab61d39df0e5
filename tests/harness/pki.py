"""A grid of certificates for one test run: a root CA, a CA below it, hosts, users, proxies, revocation lists."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from .ground import Ground, program
from .process import give_to_service

KEY_BITS = 2048
"""The minimum that stock peers accept."""

KEYS = 8
"""Keys of a test process, which hosts, users and proxies have in turns: making one takes half a second."""

AUTHORITIES = ("root", "intermediate")
"""Sections of certificates of authorities."""

_made_keys: list[str] = []
_keys_taken = count()

_TEMPLATE = """\
[req]
distinguished_name = unused
[unused]
[root]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[intermediate]
basicConstraints = critical, CA:true, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
[host]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
{names}
[user]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
[proxy]
keyUsage = critical, digitalSignature, keyEncipherment
proxyCertInfo = critical, language:{language}{path_length}
[ca]
default_ca = authority
[authority]
database = {directory}/index.txt
crlnumber = {directory}/crlnumber
default_md = sha256
default_crl_days = {crl_days}
"""

INHERIT_ALL = "id-ppl-inheritAll"
LIMITED = "1.3.6.1.4.1.3536.1.1.1.9"


def openssl(*arguments: str | Path) -> str:
    """Runs the openssl program and returns its output."""
    command = [str(program("openssl")), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, f"{' '.join(command)}: {result.stderr}"
    return result.stdout


@dataclass(frozen=True)
class Credential:
    """A certificate and its key in PEM files."""

    certificate: Path
    """The certificate, followed by those that lead to its CA."""
    key: Path
    subject: str
    """The name as the grid writes it: `/DC=test/CN=somebody`."""

    def in_one_file(self) -> Path:
        """Certificate, key and the rest of the chain in one file that only its owner can read, as proxies are kept."""
        if self.key == self.certificate:
            return self.certificate
        path = self.certificate.with_suffix(".together.pem")
        first, *rest = self.certificate.read_text().split("-----END CERTIFICATE-----\n")
        end = "-----END CERTIFICATE-----\n"
        path.touch(mode=0o600)
        path.write_text(first + end + self.key.read_text() + end.join(rest))
        return path

    def for_service(self, ground: Ground, name: str = "credential") -> Credential:
        """A copy that only unprivileged servers can read."""
        directory = ground.directory(name)
        copied = [directory / file.name for file in (self.certificate, self.key)]
        for source, target in zip((self.certificate, self.key), copied, strict=True):
            shutil.copyfile(source, target)
            give_to_service(target)
        copied[1].chmod(0o400)
        return Credential(copied[0], copied[1], self.subject)


@dataclass
class Authority:
    """A CA with its files in a directory of its own."""

    directory: Path
    subject: str
    parent: Authority | None = None
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        (self.directory / "index.txt").touch()
        (self.directory / "crlnumber").write_text("01\n")
        section = "intermediate" if self.parent else "root"
        made = _make(self.parent or self, self.directory / "ca", self.subject, section, self_signed=not self.parent)
        self.certificate, self.key = made.certificate, made.key

    def chain(self) -> list[Path]:
        """The certificates of this CA and those above it but for the root, in this order."""
        return [self.certificate, *self.parent.chain()] if self.parent else []

    def host(self, common_name: str, *names: str, days: str = "30") -> Credential:
        """A host's credential for alternative names such as `DNS:origin.example` or `IP:127.0.0.1`."""
        return self._issue(f"/DC=test/DC=grid/OU=hosts/CN={common_name}", "host", names=names, days=days)

    def user(self, common_name: str, *, days: str = "30") -> Credential:
        """A person's credential."""
        return self._issue(f"/DC=test/DC=grid/OU=users/CN={common_name}", "user", days=days)

    def revoke(self, credential: Credential) -> None:
        """Puts a credential on the list of the revoked."""
        openssl("ca", "-config", self.configuration(), "-revoke", credential.certificate, *self._own())

    def revocation_list(self, *, days: int = 30) -> str:
        """The list of the revoked as PEM text; outdated at once with 0 days."""
        config = self.configuration(crl_days=days)
        lifetime = ["-crlsec", "1"] if days == 0 else []
        return openssl("ca", "-config", config, "-gencrl", *lifetime, *self._own())

    def hashes(self) -> str:
        """The name of this CA's files in a CA directory, without their suffix."""
        return openssl("x509", "-in", self.certificate, "-noout", "-subject_hash").strip()

    def configuration(
        self,
        names: Sequence[str] = (),
        language: str = INHERIT_ALL,
        path_length: int | None = None,
        crl_days: int = 30,
    ) -> Path:
        """A configuration file for the openssl program."""
        path = self.directory / f"openssl-{next(self._numbers)}.cnf"
        alternative = f"subjectAltName = {', '.join(names)}" if names else ""
        length = "" if path_length is None else f", pathlen:{path_length}"
        path.write_text(
            _TEMPLATE.format(
                names=alternative,
                language=language,
                path_length=length,
                directory=self.directory,
                crl_days=max(crl_days, 1),
            )
        )
        return path

    def _own(self) -> list[str | Path]:
        return ["-cert", self.certificate, "-keyfile", self.key]

    def _issue(self, subject: str, section: str, *, names: Sequence[str] = (), days: str = "30") -> Credential:
        stem = self.directory / f"{section}-{next(self._numbers)}"
        made = _make(self, stem, subject, section, names=names, days=days)
        with made.certificate.open("a") as file:
            file.writelines(path.read_text() for path in self.chain())
        return made

    def proxy(
        self, of: Credential, *, limited: bool = False, path_length: int | None = None, days: str = "1"
    ) -> Credential:
        """A proxy made by the owner of a credential, which may be a proxy itself."""
        number = next(self._numbers)
        stem = self.directory / f"proxy-{number}"
        signer = Authority.__new__(Authority)
        signer.directory, signer._numbers = self.directory, self._numbers
        signer.certificate, signer.key = of.certificate, of.key
        language = LIMITED if limited else INHERIT_ALL
        made = _make(
            signer,
            stem,
            f"{of.subject}/CN={1000 + number}",
            "proxy",
            days=days,
            config=self.configuration(language=language, path_length=path_length),
        )
        with made.certificate.open("a") as file:
            file.write(of.certificate.read_text())
        return made


def _make(
    signer: Authority,
    stem: Path,
    subject: str,
    section: str,
    *,
    names: Sequence[str] = (),
    days: str = "30",
    self_signed: bool = False,
    config: Path | None = None,
) -> Credential:
    certificate, key, request = (Path(f"{stem}.{suffix}") for suffix in ("pem", "key", "csr"))
    config = config or signer.configuration(names)
    # Certificates name the key of their issuer: each authority needs its own.
    _write_key(key, is_new=section in AUTHORITIES)
    openssl("req", "-new", "-config", config, "-key", key, "-subj", subject, "-out", request)
    by: list[str | Path] = ["-signkey", key] if self_signed else ["-CA", signer.certificate, "-CAkey", signer.key]
    serial = str(secrets.randbits(63))
    openssl(
        *("x509", "-req", "-in", request, *by, "-set_serial", serial, "-days", days, "-sha256"),
        *("-extfile", config, "-extensions", section, "-out", certificate),
    )
    return Credential(certificate, key, subject)


def _write_key(path: Path, *, is_new: bool) -> None:
    """Writes a new key, or one of the few that take turns."""
    if is_new or len(_made_keys) < KEYS:
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", f"rsa_keygen_bits:{KEY_BITS}", "-out", path)
        if not is_new:
            _made_keys.append(path.read_text())
    else:
        path.write_text(_made_keys[next(_keys_taken) % KEYS])
    path.chmod(0o600)


class Grid:
    """A root CA, a CA below it that issues, an untrusted CA, and the directory of the trusted."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.root = Authority(ground.directory("root-ca"), "/DC=test/DC=grid/CN=Test Root CA")
        self.issuer = Authority(ground.directory("issuing-ca"), "/DC=test/DC=grid/CN=Test Grid CA", self.root)
        self.stranger = Authority(ground.directory("stranger-ca"), "/DC=test/DC=elsewhere/CN=Stranger CA")
        self.directory = ca_directory(ground, self.root, self.issuer)

    def host(self, *names: str) -> Credential:
        """The credential of the hosts that tests run on, unless other names are given; servers can read it."""
        names = names or ("DNS:localhost", "IP:127.0.0.1", "DNS:127.0.0.1")
        return self.issuer.host("localhost", *names).for_service(self._ground, "host-credential")

    def environment(self, credential: Credential | None = None) -> dict[str, str]:
        """The environment of a stock client that trusts this grid, with its credential."""
        own = {"X509_USER_PROXY": str(credential.in_one_file())} if credential else {}
        # The stock GSI client knows the hosts of loopback addresses by no name that a certificate could have.
        return {"X509_CERT_DIR": str(self.directory), "XrdSecGSISRVNAMES": "*", **own}


def ca_directory(ground: Ground, *authorities: Authority, lists: bool = True) -> Path:
    """A directory of trusted CAs in the layout of the grid: hashed names, signing policies, revocation lists."""
    directory = ground.directory("certificates")
    for authority in authorities:
        name = authority.hashes()
        shutil.copyfile(authority.certificate, directory / f"{name}.0")
        policy = [f"access_id_CA X509 '{authority.subject}'", "pos_rights globus CA:sign"]
        policy.append("cond_subjects globus '\"/DC=test/*\"'\n")
        (directory / f"{name}.signing_policy").write_text("\n".join(policy))
        if lists:
            (directory / f"{name}.r0").write_text(authority.revocation_list())
    return directory
