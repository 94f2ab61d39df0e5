"""A release with the binary under test, made once for all tests of packages."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.ground import REPOSITORY, Ground, program
from harness.plugin import client_plugin

BUILD_ALL = REPOSITORY / "deploy/package/build-all.sh"


@dataclass(frozen=True)
class Release:
    """The directory of a release."""

    directory: Path

    @property
    def rpm(self) -> Path:
        """The RPM."""
        return self._only("forebay-[0-9]*.rpm")

    @property
    def plugin(self) -> Path:
        """The RPM of the plug-in."""
        return self._only("forebay-plugin-*.el9.*.rpm")

    @property
    def source(self) -> Path:
        """The source RPM of the plug-in."""
        return self._only("forebay-plugin-*.src.rpm")

    @property
    def tarball(self) -> Path:
        """The tarball."""
        return self._only("forebay-*-linux-*.tar.xz")

    @property
    def deb(self) -> Path:
        """The Debian package."""
        return self._only("forebay_*.deb")

    @property
    def document(self) -> Path:
        """The bill of materials."""
        return self._only("forebay-*.cdx.json")

    @property
    def packages(self) -> list[Path]:
        """All files but the checksums."""
        return [self.rpm, self.plugin, self.source, self.tarball, self.deb, self.document]

    @property
    def checksums(self) -> str:
        """The checksums of the packages."""
        return (self.directory / "SHA256SUMS").read_text()

    def _only(self, pattern: str) -> Path:
        (found,) = self.directory.glob(pattern)
        return found


def query(package: Path, *arguments: str) -> str:
    """The output of rpm about a package file."""
    command = [str(program("rpm")), "--query", "--package", *arguments, str(package)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def plugin_library() -> Path:
    """The plug-in for XRootD 5."""
    return client_plugin().with_name("libXrdClForebay-5.so")


@pytest.fixture(scope="session")
def release(ground: Ground, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Release:
    """A release with the binary under test, built by one worker for all; only `make release` has the portable one."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    built = shared / "release"
    with (shared / "release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # They are written last.
        if not (built / "SHA256SUMS").exists():
            subprocess.run([str(BUILD_ALL), str(ground.forebay), str(plugin_library()), str(built)], check=True)
    return Release(Path(shutil.copytree(built, ground.directory("release"), dirs_exist_ok=True)))
