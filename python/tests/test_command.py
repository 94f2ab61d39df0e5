"""The command as its users type it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from forebay_lab.cli import COMMANDS
from forebay_lab.programs import REPOSITORY


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the lab in the repository's directory, as `make lab` does."""
    line = [sys.executable, "-m", "forebay_lab", *arguments]
    return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)


def test_command_runs_where_the_repository_is() -> None:
    done = command("--help")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


def test_inputs_are_generated_where_the_repository_is(tmp_path: Path) -> None:
    done = command("inputs", "--events", "2", "--data-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("inputs/*.root"))) == 3
