"""The bill of materials in the packages: its form, the crates of the binary, and their licences."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from harness.ground import REPOSITORY, Ground, program

SBOM = REPOSITORY / "deploy/package/sbom.py"
TIME = {"SOURCE_DATE_EPOCH": "1700000000"}
# The crate in both forms of mangled names: _ZN5tokio7runtime and _RNvNtCs4fqI2P2rA04_5tokio7runtime.
CRATE_IN_SYMBOL = re.compile(r"\b_(?:ZN|R\w*?Cs[0-9A-Za-z]*_)(\d+)(\w+)")
# A crate is named openssl as well.
NOT_CRATES = re.compile(r"pkg:generic/(rust-std|openssl)@")
PURL = re.compile(r"pkg:(cargo|generic)/[a-z0-9_-]+@[0-9A-Za-z.%-]+")


@pytest.fixture(scope="module")
def sbom(ground: Ground) -> dict[str, Any]:
    """The bill of materials of the binary under test."""
    output = ground.directory("sbom") / "sbom.json"
    subprocess.run(
        [sys.executable, str(SBOM), str(ground.forebay), str(output)], check=True, env={**os.environ, **TIME}
    )
    document: dict[str, Any] = json.loads(output.read_text())
    return document


def components(sbom: dict[str, Any]) -> list[dict[str, Any]]:
    """The binary and its parts."""
    return [sbom["metadata"]["component"], *sbom["components"]]


def locked() -> dict[tuple[str, str], str | None]:
    """The checksums of Cargo.lock."""
    packages = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    return {(package["name"], package["version"]): package.get("checksum") for package in packages}


def crates_in(symbols: str) -> set[str]:
    """The crates that mangled names begin with; `-` is `_` there."""
    return {rest[: int(length)] for length, rest in CRATE_IN_SYMBOL.findall(symbols)}


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression without parentheses can be met by allowed licences."""
    assert "(" not in expression, f"{expression}: parentheses are not interpreted"
    return any(all(part in allowed for part in option.split(" AND ")) for option in expression.split(" OR "))


def test_document_has_the_form_of_cyclonedx(sbom: dict[str, Any]) -> None:
    assert (sbom["bomFormat"], sbom["specVersion"], sbom["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", sbom["serialNumber"])
    assert sbom["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert sbom["metadata"]["component"]["type"] == "application"
    for component in components(sbom):
        assert PURL.fullmatch(component["purl"]), component
        assert component["name"]
        assert component["version"]
        assert component["licenses"][0]["expression"]
        for digest in component.get("hashes", []):
            assert digest["alg"] == "SHA-256"
            assert re.fullmatch("[0-9a-f]{64}", digest["content"])


def test_references_are_unique_and_resolved(sbom: dict[str, Any]) -> None:
    references = [component["bom-ref"] for component in components(sbom)]
    assert len(set(references)) == len(references)
    edges = {entry["ref"]: entry["dependsOn"] for entry in sbom["dependencies"]}
    assert sorted(edges) == sorted(references)
    reached, pending = set(), [sbom["metadata"]["component"]["bom-ref"]]
    while pending:
        reference = pending.pop()
        if reference not in reached:
            reached.add(reference)
            pending += edges[reference]
    assert reached == set(references), "every part is used"


def test_every_crate_in_the_binary_is_listed_with_the_checksum_of_the_lock_file(
    ground: Ground, sbom: dict[str, Any]
) -> None:
    lock = locked()
    crates = [part for part in components(sbom) if not NOT_CRATES.match(part["purl"])]
    listed = {(part["name"], part["version"]) for part in crates}
    assert listed <= set(lock)
    for component in components(sbom):
        checksum = lock.get((component["name"], component["version"]))
        if component["purl"].startswith("pkg:cargo/"):
            assert component["hashes"][0]["content"] == checksum, component
    symbols = subprocess.run(
        [str(program("nm")), str(ground.forebay)], check=True, capture_output=True, text=True
    ).stdout
    known = {name.replace("-", "_") for name, _ in lock}
    linked = crates_in(symbols) & known
    assert {"tokio", "forebay_engine", "openssl"} <= linked, "names of crates are read from symbols"
    assert linked - {name.replace("-", "_") for name, _ in listed} == set()


def test_licences_are_those_that_the_rules_for_dependencies_allow(sbom: dict[str, Any]) -> None:
    allowed = set(tomllib.loads((REPOSITORY / "deny.toml").read_text())["licenses"]["allow"])
    for component in components(sbom):
        assert is_allowed(component["licenses"][0]["expression"], allowed), component
    assert not is_allowed("GPL-3.0 OR MIT AND Zlib", allowed)
    assert is_allowed("GPL-3.0 OR MIT AND Unicode-3.0", allowed)
