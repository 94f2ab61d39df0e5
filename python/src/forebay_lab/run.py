"""A run: a directory with rows, a description of the environment, and pictures."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from .deadline import Deadline
from .errors import LabError
from .programs import REPOSITORY, Programs

Row = dict[str, object]

PACKAGES = ("uproot", "awkward", "numpy", "pythia8mc", "xrootd", "fsspec-xrootd")


class Run:
    """The rows of one experiment in a run's directory.

    Each row is appended as soon as it is measured. The key of a row is the values of some fields. Rows that are
    already there are not measured again, so an interrupted run can be resumed.
    """

    def __init__(
        self,
        directory: Path,
        experiment: str,
        key: Sequence[str],
        parameters: Mapping[str, object],
        deadline: Deadline | None = None,
    ) -> None:
        self.directory = directory
        self.experiment = experiment
        self.parameters = dict(parameters)
        self.deadline = deadline or Deadline()
        self._key = tuple(key)
        self._file = directory / f"{experiment}.jsonl"
        self._started = time.monotonic()
        directory.mkdir(parents=True, exist_ok=True)
        self._check_parameters()
        self.rows = list(read_rows(self._file))
        self._known = {self._key_of(row) for row in self.rows}

    def has(self, **fields: object) -> bool:
        """Whether the row with this key is there."""
        return self._key_of(fields) in self._known

    def add(self, row: Mapping[str, object]) -> None:
        """Appends a row, with when it was measured and how busy the machine was."""
        whole = {
            "experiment": self.experiment,
            **row,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "load_average": round(os.getloadavg()[0], 2),
        }
        with self._file.open("a") as file:
            file.write(json.dumps(whole) + "\n")
        self.rows.append(whole)
        self._known.add(self._key_of(whole))

    def progress(self, text: str) -> None:
        """Prints a line of progress."""
        print(f"[{time.monotonic() - self._started:7.1f} s] {self.experiment}: {text}", flush=True)

    def _key_of(self, row: Mapping[str, object]) -> tuple[object, ...]:
        return tuple(row[field] for field in self._key)

    def _check_parameters(self) -> None:
        """Rows of different parameters never meet in one run."""
        path = self.directory / f"{self.experiment}.parameters.json"
        text = json.dumps(self.parameters, indent=2, sort_keys=True) + "\n"
        if path.exists() and path.read_text() != text:
            raise LabError(
                f"{self.directory} holds `{self.experiment}` with other options ({path}): use another --name"
            )
        path.write_text(text)


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file; an incomplete last row, after a crash, is dropped."""
    if not path.exists():
        return
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    for line in whole.splitlines():
        yield json.loads(line)


def record_environment(directory: Path, programs: Programs) -> None:
    """Adds programs and machine to `environment.json`; a run resumed on another machine has both."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "environment.json"
    sessions = json.loads(path.read_text()) if path.exists() else []
    session = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain").splitlines()),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "programs": programs.versions(),
        "client_settings": {name: value for name, value in os.environ.items() if name.startswith("XRD_")},
    }
    growing = path.with_suffix(".growing")
    growing.write_text(json.dumps([*sessions, session], indent=2) + "\n")
    growing.replace(path)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _git(*arguments: str) -> str:
    """The output of git, or nothing outside of a checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(REPOSITORY), *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
