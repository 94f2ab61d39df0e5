"""Writes the bill of materials of a binary, CycloneDX 1.5 as JSON: sbom.py BINARY OUTPUT.

It lists the parts of the binary: crates, the standard library of Rust, and OpenSSL if the binary contains it. Needs
cargo and binutils, but no network. SOURCE_DATE_EPOCH sets its time; the same binary and commit give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT_CRATE = "forebay"
CRATE = re.compile(r"(\d+)(\S+) v(\S+)(?: \((?P<place>/[^)]*)\))?\t(?P<license>[^\t]*)\t")
RUST_LICENSE = "MIT OR Apache-2.0"
OPENSSL_LICENSE = "Apache-2.0"


@dataclass
class Component:
    """A part of the binary, and the references of the parts that it uses."""

    name: str
    version: str
    license: str
    purl: str
    sha256: str | None = None
    uses: set[str] = field(default_factory=set)

    def as_json(self, kind: str = "library") -> dict[str, Any]:
        """The component as CycloneDX has it; its reference is its package URL."""
        hashes = {"hashes": [{"alg": "SHA-256", "content": self.sha256}]} if self.sha256 else {}
        return {
            "type": kind,
            "bom-ref": self.purl,
            "name": self.name,
            "version": self.version,
            **hashes,
            "licenses": [{"expression": self.license}],
            "purl": self.purl,
        }


def main() -> None:
    """Reads the arguments, and writes the document."""
    binary, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.write_text(json.dumps(document(binary), indent=1) + "\n")


def document(binary: Path) -> dict[str, Any]:
    """The bill of materials of a binary."""
    has_openssl = contains_openssl(binary)
    lock = locked()
    root, *others = crates(has_openssl, lock)
    root.sha256 = hashlib.sha256(binary.read_bytes()).hexdigest()
    rust = rust_version(binary)
    standard = Component("std", rust, RUST_LICENSE, f"pkg:generic/rust-std@{rust}")
    root.uses.add(standard.purl)
    others.append(standard)
    if has_openssl:
        others.append(openssl(lock, others))
    others.sort(key=lambda component: component.purl)
    time = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    content = {
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": root.as_json("application")},
        "components": [component.as_json() for component in others],
        "dependencies": [{"ref": part.purl, "dependsOn": sorted(part.uses)} for part in (root, *others)],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content))
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{serial}", **content}


def contains_openssl(binary: Path) -> bool:
    """Whether OpenSSL is in the binary, and not a library of the system."""
    return "libssl" not in output_of("objdump", "--private-headers", str(binary))


def rust_version(binary: Path) -> str:
    """The version of the compiler, and with it of the standard library."""
    found = re.search(r"rustc version (\S+)", output_of("readelf", "--string-dump=.comment", str(binary)))
    if found is None:
        sys.exit(f"sbom.py: {binary} does not name its compiler: rustc writes it to the section .comment")
    return found[1]


def locked() -> dict[tuple[str, str], str | None]:
    """The checksums in Cargo.lock by name and version. Crates of the workspace have none."""
    packages = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    return {(package["name"], package["version"]): package.get("checksum") for package in packages}


def crates(has_openssl: bool, lock: dict[tuple[str, str], str | None]) -> list[Component]:
    """The crates that are linked, with those that they use. The first is that of the binary."""
    features = ["--features", "bundled-openssl"] if has_openssl else []
    # Procedural macros run in the compiler; nothing of them is in the binary.
    edges = ["--edges", "normal,no-proc-macro", "--target", f"{platform.machine()}-unknown-linux-gnu"]
    form = ["--prefix", "depth", "--format", "{p}\t{l}\t"]
    tree = output_of("cargo", "tree", "--locked", "--offline", "--package", ROOT_CRATE, *features, *edges, *form)
    return list(linked(tree.splitlines(), lock))


def linked(lines: Iterable[str], lock: dict[tuple[str, str], str | None]) -> Iterable[Component]:
    """Interprets cargo's tree: each line has the depth of a crate, which the last line of a smaller depth uses."""
    found: dict[str, Component] = {}
    path: list[Component] = []
    for line in lines:
        crate = CRATE.match(line)
        if crate is None:
            sys.exit(f"sbom.py: cargo printed a line that is not understood: {line}")
        depth, name, version = int(crate[1]), crate[2], crate[3]
        # Crates of the workspace are not published: another crate of this name may be.
        kind = "generic" if crate["place"] else "cargo"
        purl = f"pkg:{kind}/{name}@{quote(version)}"
        license_ = re.sub(r" ?/ ?", " OR ", crate["license"])
        component = found.setdefault(purl, Component(name, version, license_, purl, lock[name, version]))
        del path[depth:]
        if path:
            path[-1].uses.add(purl)
        path.append(component)
    return found.values()


def openssl(lock: dict[tuple[str, str], str | None], users: Iterable[Component]) -> Component:
    """OpenSSL as the crate openssl-src has it; the checksum is that of the crate."""
    ((version, checksum),) = [
        (version, checksum) for (name, version), checksum in lock.items() if name == "openssl-src"
    ]
    number = version.partition("+")[2]
    component = Component("openssl", number, OPENSSL_LICENSE, f"pkg:generic/openssl@{number}", checksum)
    for user in users:
        if user.name == "openssl-sys":
            user.uses.add(component.purl)
    return component


def output_of(*command: str) -> str:
    """The output of a program that must succeed."""
    return subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
