"""Programs that take part in experiments."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

REPOSITORY = Path(__file__).resolve().parents[3]
VERSION_SECONDS = 60


@dataclass(frozen=True)
class Programs:
    """Paths of the programs, all absolute."""

    forebay: Path
    root_python: Path
    benchmarks: Path
    """Where `forebay-bench` and `forebay-wan` are; looked for when they are needed."""

    @staticmethod
    def default_forebay() -> Path:
        """The release binary of this repository, unless the environment names another."""
        return Path(os.environ.get("FOREBAY", REPOSITORY / "target" / "release" / "forebay"))

    @staticmethod
    def default_root_python() -> Path:
        """The interpreter that `make setup` has made, unless the environment names another."""
        return Path(os.environ.get("ROOT_PYTHON", REPOSITORY / ".venv-root" / "bin" / "python"))

    @staticmethod
    def default_benchmarks() -> Path:
        """The release binaries of this repository, unless the environment names another benchmark."""
        return Path(os.environ.get("FOREBAY_BENCH", REPOSITORY / "target" / "release" / "forebay-bench")).parent

    @property
    def wan(self) -> Path:
        """The program that emulates networks."""
        return self._benchmark("forebay-wan")

    @property
    def bench(self) -> Path:
        """The load generator."""
        return self._benchmark("forebay-bench")

    @classmethod
    def find(cls, forebay: Path, root_python: Path, benchmarks: Path) -> Programs:
        """Checks that all are there, the distribution's as well."""
        if not forebay.is_file():
            raise LabError(f"{forebay} does not exist: run `make build`, or name the binary with --forebay")
        if not root_python.is_file():
            raise LabError(f"{root_python} does not exist: run `make setup`, or name one with --root-python")
        for name in ("xrootd", "xrdcp", "setpriv"):
            distribution(name)
        # An interpreter's path is not resolved: the target of its link does not know its environment.
        return cls(forebay.resolve(), Path(os.path.abspath(root_python)), benchmarks.absolute())

    def _benchmark(self, name: str) -> Path:
        found = self.benchmarks / name
        if not found.is_file():
            raise LabError(f"{found} does not exist: run `cargo build --release -p forebay-bench`, or use --bench-dir")
        return found

    def versions(self) -> dict[str, str]:
        """The version of each program."""
        return {
            "forebay": said([self.forebay, "--version"]),
            "xrootd": said([distribution("xrootd"), "-v"]),
            "root": said([self.root_python, "-c", "import ROOT; print(ROOT.gROOT.GetVersion())"]),
        }


def distribution(name: str) -> Path:
    """A program of the distribution."""
    found = shutil.which(name)
    if found is None:
        raise LabError(f"{name} is not installed: run `make setup`")
    return Path(found)


def said(command: list[str | Path]) -> str:
    """The last line that a program prints, its errors included."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=VERSION_SECONDS,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise LabError(f"{command[0]} does not say its version: {done.stdout.strip()[-500:]}")
    return lines[-1]
