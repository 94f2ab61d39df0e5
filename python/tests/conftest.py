"""Shared by all tests of the lab: a directory for input files, and short names for commands."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay_lab.cli import main


@pytest.fixture(scope="session")
def data_dir() -> Iterator[Path]:
    """A directory for input files and servers, which unprivileged servers may enter."""
    directory = Path(tempfile.mkdtemp(prefix="forebay-lab-test-", dir="/var/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def memory_dir() -> Iterator[Path]:
    """A directory on the tmpfs of this machine, for warm data."""
    directory = Path(tempfile.mkdtemp(prefix="forebay-lab-test-", dir="/dev/shm"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def lab(data_dir: Path, memory_dir: Path, tmp_path: Path) -> Callable[..., Path]:
    """Runs an experiment, which must succeed; gives the run's directory."""

    def run(experiment: str, *arguments: str, status: int = 0) -> Path:
        places = [
            "--data-dir",
            str(data_dir),
            "--memory-dir",
            str(memory_dir),
            "--runs-dir",
            str(tmp_path),
            "--name",
            "test",
        ]
        assert main([*experiment.split(), "--quick", *places, *arguments]) == status
        left = [*data_dir.glob("work/*"), *memory_dir.iterdir()]
        assert not left, "nothing is left of servers"
        return tmp_path / "test"

    return run
