"""The RPM and the tarball: what is in them, installed, removed; and the check of what a portable binary needs.

They are packed with the binary under test. Only `make release` builds the portable binary that they are meant for.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from harness.ground import REPOSITORY, Ground, program
from harness.machine import Machine

from .conftest import Release, query

DEPLOY = REPOSITORY / "deploy"
CONFIGURATION = "/etc/forebay/forebay.toml"
OWNERS = [
    "/var/cache/forebay 750 forebay:forebay",
    "/var/lib/forebay 700 forebay:forebay",
    "/var/log/forebay 750 forebay:forebay",
]
OF_EVERY_PACKAGE = {
    "/usr/bin/forebay",
    CONFIGURATION,
    "/usr/lib/systemd/system/forebay.service",
    "/usr/lib/systemd/system/forebay.socket",
    "/usr/share/man/man1/forebay-serve.1.gz",
    "/usr/share/man/man5/forebay.toml.5.gz",
    "/usr/share/doc/forebay/troubleshooting.md",
    "/usr/share/doc/forebay/sbom.cdx.json",
    "/usr/share/zsh/site-functions/_forebay",
}


@pytest.fixture
def machine(ground: Ground) -> Iterator[Machine]:
    """A machine without Forebay."""
    with Machine(ground) as machine:
        yield machine


def installed(machine: Machine) -> None:
    """The state after an installation by any package."""
    assert machine.done("stat", "--format=%n %a %U:%G", *(line.split()[0] for line in OWNERS)).splitlines() == OWNERS
    assert machine.done("getent", "group", "forebay-admin")
    assert machine.done("forebay", "--version").startswith("forebay ")
    as_user = ["setpriv", "--reuid=forebay", "--regid=forebay", "--clear-groups"]
    machine.done(*as_user, "forebay", "check-config", CONFIGURATION)


def test_rpm_has_all_files_and_no_errors(release: Release) -> None:
    rpm = release.rpm
    assert set(query(rpm, "--list").splitlines()) >= OF_EVERY_PACKAGE
    assert query(rpm, "--configfiles").split() == [CONFIGURATION]
    assert "systemd" in query(rpm, "--requires")
    lint = subprocess.run([str(program("rpmlint")), str(rpm)], capture_output=True, text=True, check=False).stdout
    errors = [line.split(" E: ")[1] for line in lint.splitlines() if " E: " in line]
    # A package is signed by its publisher.
    assert errors == ["no-signature"], lint


def test_rpm_is_installed_upgraded_and_removed(machine: Machine, release: Release) -> None:
    place = machine.take(release.rpm)
    # The packages that it requires are those of another distribution.
    machine.done("rpm", "--install", "--nodeps", place)
    installed(machine)
    machine.write(CONFIGURATION, machine.read(CONFIGURATION) + "# edited\n")
    machine.done("rpm", "--upgrade", "--force", "--nodeps", place)
    assert "# edited" in machine.read(CONFIGURATION)
    machine.done("rpm", "--erase", "forebay")
    assert not machine.has("/usr/bin/forebay")
    assert machine.has("/var/cache/forebay")
    assert machine.has(f"{CONFIGURATION}.rpmsave")


def test_tarball_is_installed_upgraded_and_removed(machine: Machine, release: Release) -> None:
    place = machine.take(release.tarball)
    machine.done("tar", "--extract", "--file", place, "--directory", "/opt")
    (directory,) = machine.done("sh", "-c", "ls -d /opt/forebay-*/").split()
    assert "usage" in machine.run(f"{directory}install.sh", "--wrong").stderr
    machine.done(f"{directory}install.sh")
    installed(machine)
    assert all(machine.has(file) for file in OF_EVERY_PACKAGE)
    machine.write(CONFIGURATION, machine.read(CONFIGURATION) + "# edited\n")
    machine.done(f"{directory}install.sh")
    assert "# edited" in machine.read(CONFIGURATION)
    machine.done(f"{directory}install.sh", "--remove")
    assert not machine.has("/usr/bin/forebay")
    assert machine.has(CONFIGURATION)


def test_a_binary_for_newer_systems_is_refused(ground: Ground) -> None:
    """The binary under test needs the OpenSSL of this system."""
    check = str(DEPLOY / "package/check-symbols.sh")
    refused = subprocess.run([check, str(ground.forebay)], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "needs libssl" in refused.stderr
    absent = subprocess.run([check, os.devnull], capture_output=True, text=True, check=False)
    assert absent.returncode != 0
