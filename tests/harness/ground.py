"""Where tests work: programs to run, free ports, and directories that unprivileged servers may enter."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from itertools import count
from pathlib import Path

from .process import give_to_service

REPOSITORY = Path(__file__).resolve().parents[2]
FIRST_PORT = 15000
PORTS_PER_WORKER = 1500


class MissingProgram(AssertionError):
    """A program that the suite needs is not there. That is a failure, never a skipped test."""


class Ground:
    """A temporary area of one test worker, removed at its end."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="forebay-test-"))
        self.root.chmod(0o755)
        self.forebay = self._copy_of_binary()
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        self._ports = count(FIRST_PORT + worker * PORTS_PER_WORKER)
        self._numbers = count()

    def directory(self, name: str) -> Path:
        """A new empty directory that servers may write in."""
        path = self.root / f"{next(self._numbers)}-{name}"
        path.mkdir(mode=0o755)
        return give_to_service(path)

    def free_port(self) -> int:
        """A port for a server that cannot choose its own; from a range that the system does not assign."""
        while True:
            port = next(self._ports)
            with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
                try:
                    probe.bind(("::", port))
                except OSError:
                    continue
            return port

    def remove(self) -> None:
        """Deletes everything made here."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _copy_of_binary(self) -> Path:
        """The binary under test, copied to where an unprivileged user can run it: checkouts may be private."""
        built = Path(os.environ.get("FOREBAY", REPOSITORY / "target" / "release" / "forebay"))
        if not built.is_file():
            raise MissingProgram(f"{built} does not exist: run `make build`")
        folder = self.root / "bin"
        folder.mkdir(mode=0o755)
        copy = folder / "forebay"
        shutil.copyfile(built, copy)
        copy.chmod(0o755)
        return copy


def program(name: str) -> Path:
    """The full path of a program of the distribution."""
    found = shutil.which(name)
    if found is None:
        raise MissingProgram(f"{name} is not installed: run `make setup`")
    return Path(found)


def proxy_plugin() -> Path:
    """The stock client plug-in that sends every open through a forwarding proxy."""
    for candidate in sorted(Path("/usr").glob("lib*/**/libXrdClProxyPlugin-[0-9].so")):
        return candidate
    raise MissingProgram("libXrdClProxyPlugin is not installed (Debian: xrootd-client-plugins): run `make setup`")


def root_python() -> Path:
    """The interpreter of the virtual environment that holds ROOT."""
    python = Path(os.environ.get("ROOT_PYTHON", REPOSITORY / ".venv-root" / "bin" / "python"))
    if not python.is_file():
        raise MissingProgram(f"{python} does not exist: run `make setup`")
    return python


def libcachesim_python() -> Path:
    """The interpreter of the virtual environment that holds libCacheSim."""
    python = Path(os.environ.get("LIBCACHESIM_PYTHON", REPOSITORY / ".venv-libcachesim" / "bin" / "python"))
    if not python.is_file():
        raise MissingProgram(f"{python} does not exist: run `make setup`")
    return python


def s3fs_python() -> Path:
    """The interpreter of the environment of s3fs: it needs other versions of boto3's libraries than the tests."""
    python = Path(os.environ.get("S3FS_PYTHON", REPOSITORY / ".venv-s3fs" / "bin" / "python"))
    if not python.is_file():
        raise MissingProgram(f"{python} does not exist: run `make setup`")
    return python


def search_servers() -> Path:
    """The directory that holds OpenSearch and Elasticsearch."""
    directory = Path(os.environ.get("SEARCH_SERVERS", REPOSITORY / "target" / "tools" / "search"))
    if not (directory / ".installed").is_file():
        raise MissingProgram(f"{directory} has no search servers: run `make setup`")
    return directory


def jsroot() -> Path:
    """The directory that holds JSROOT."""
    directory = Path(os.environ.get("JSROOT", REPOSITORY / "target" / "tools" / "jsroot"))
    if not (directory / ".installed").is_file():
        raise MissingProgram(f"{directory} has no JSROOT: run `make setup`")
    return directory


def package() -> Path:
    """The package that `make deb` has built."""
    if given := os.environ.get("FOREBAY_PACKAGE"):
        return Path(given)
    for built in (REPOSITORY / "target" / "debian").glob("forebay_*.deb"):
        return built
    raise MissingProgram("there is no package in target/debian: run `make deb`")
