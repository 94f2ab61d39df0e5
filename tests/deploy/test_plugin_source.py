"""The source RPM of the client plug-in: its content, and a build of it with the XRootD of this system."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.ground import REPOSITORY, Ground, program

from .conftest import query

BUILD_SECONDS = 1200


@pytest.fixture(scope="module")
def source(ground: Ground) -> Path:
    """The source RPM."""
    output = ground.directory("source")
    subprocess.run([str(REPOSITORY / "deploy/rpm/build-plugin-source.sh"), str(output)], check=True)
    (package,) = output.iterdir()
    return package


def test_source_names_what_it_needs(source: Path) -> None:
    assert query(source, "--list").split() == [source.name.replace("-1.src.rpm", ".tar.xz"), "forebay-plugin.spec"]
    needed = {line.split()[0] for line in query(source, "--requires").splitlines()}
    assert {"cmake", "gcc-c++", "xrootd-devel", "xrootd-client-devel"} <= needed
    lint = subprocess.run([str(program("rpmlint")), str(source)], capture_output=True, text=True, check=False).stdout
    errors = [line.split(" E: ")[1] for line in lint.splitlines() if " E: " in line]
    # A package is signed by its publisher.
    assert errors == ["no-signature"], lint


@pytest.mark.timeout(BUILD_SECONDS)
def test_source_is_built_and_its_unit_tests_pass(ground: Ground, source: Path) -> None:
    program("cmake")
    top = ground.directory("top")
    # Debian's packages are not in the database of rpm, and its rpm has no tools for debug packages.
    define = ["--define", f"_topdir {top}", "--define", "debug_package %{nil}"]
    command = [str(program("rpmbuild")), "--nodeps", *define, "--rebuild", str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "100% tests passed" in built.stdout + built.stderr
    (package,) = top.glob("RPMS/*/forebay-plugin-*.rpm")
    files = query(package, "--list").split()
    assert sum(Path(file).name.startswith("libXrdClForebay-") for file in files) == 1, files
