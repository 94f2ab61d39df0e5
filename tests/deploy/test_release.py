"""The directory of a release: its checksums, the same bytes again elsewhere, and the same files in all packages."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.ground import REPOSITORY, Ground, program
from harness.machine import Machine

from .conftest import BUILD_ALL, Release, plugin_library

UNITS = [f"usr/lib/systemd/system/forebay.{kind}" for kind in ("service", "socket")]
DOCUMENT = "usr/share/doc/forebay/sbom.cdx.json"
# Another user's environment: modes of new files, language, time zone, and directory for temporary files.
ELSEWHERE = 'umask 077; TMPDIR=$1 LC_ALL=C TZ=Pacific/Auckland exec "$2" "$3" "$4" "$5"'


@pytest.fixture(scope="module")
def unpacked(ground: Ground, release: Release) -> dict[str, Path]:
    """The root directory in each package."""
    roots = {kind: ground.directory(kind) for kind in ("rpm", "deb", "tarball")}
    archive = subprocess.run([str(program("rpm2cpio")), str(release.rpm)], check=True, stdout=subprocess.PIPE).stdout
    extract = [str(program("cpio")), "--extract", "--quiet", "--make-directories"]
    subprocess.run(extract, cwd=roots["rpm"], check=True, input=archive)
    subprocess.run(["dpkg-deb", "--extract", str(release.deb), str(roots["deb"])], check=True)
    tar = ["tar", "--extract", "--strip-components=2", "--directory", str(roots["tarball"])]
    subprocess.run([*tar, "--file", str(release.tarball)], check=True)
    return roots


@pytest.fixture
def machine(ground: Ground) -> Iterator[Machine]:
    """A machine without Forebay."""
    with Machine(ground) as machine:
        yield machine


def test_all_files_have_checksums(release: Release) -> None:
    lines = [line.split("  ") for line in release.checksums.splitlines()]
    assert sorted(name for _, name in lines) == sorted(path.name for path in release.packages)
    for checksum, name in lines:
        assert hashlib.sha256((release.directory / name).read_bytes()).hexdigest() == checksum


def test_packages_are_the_same_elsewhere_at_another_time(ground: Ground, release: Release) -> None:
    again = ground.directory("again")
    command = ["sh", "-c", ELSEWHERE, "sh", str(ground.directory("elsewhere")), str(BUILD_ALL)]
    subprocess.run([*command, str(ground.forebay), str(plugin_library()), str(again)], check=True)
    assert (again / "SHA256SUMS").read_text() == release.checksums


def test_time_in_the_packages_is_that_of_the_commit(ground: Ground, release: Release) -> None:
    output = ground.directory("later")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run([str(REPOSITORY / "deploy/rpm/build-plugin-source.sh"), str(output)], check=True, env=environment)
    (later,) = output.iterdir()
    query = [str(program("rpm")), "--query", "--package", "--queryformat", "%{BUILDTIME} %{BUILDHOST}", str(later)]
    assert subprocess.run(query, check=True, capture_output=True, text=True).stdout == "1700000000 reproducible"
    assert later.read_bytes() != release.source.read_bytes()


def test_units_and_documents_are_the_same_in_all_packages(release: Release, unpacked: dict[str, Path]) -> None:
    for unit in UNITS:
        source = (REPOSITORY / "deploy/systemd" / Path(unit).name).read_bytes()
        assert {kind for kind, root in unpacked.items() if (root / unit).read_bytes() == source} == set(unpacked)
    documents = {(root / DOCUMENT).read_bytes() for root in unpacked.values()}
    assert documents == {release.document.read_bytes()}
    (document,) = documents
    (digest,) = json.loads(document)["metadata"]["component"]["hashes"]
    for root in unpacked.values():
        assert hashlib.sha256((root / "usr/bin/forebay").read_bytes()).hexdigest() == digest["content"]


def test_units_of_the_rpm_are_understood_without_a_warning(machine: Machine, release: Release) -> None:
    machine.done("rpm", "--install", "--nodeps", machine.take(release.rpm))
    assert machine.done("systemd-analyze", "verify", *(f"/{unit}" for unit in UNITS)) == ""
