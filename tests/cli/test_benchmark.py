"""The benchmark's rows on security: clients of every kind get in at all servers. How fast, nobody asks here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.ground import REPOSITORY, Ground, MissingProgram

LOGINS = ["no security", "sss", "gsi", "gsi with VOMS", "TLS", "TLS resumed", "TLS + ztn"]
READS = [
    "read 1 MiB sequential, 1 connection",
    "read 128 KiB random, 8 connections",
    "read 4 KiB random, 8 connections",
]
RESUMED = "login, TLS resumed, 4 clients"
"""Stock servers resume no sessions unless they are told to, and then crash now and then."""

SMALL = ["--file-size", "16MiB", "--cold-size", "1MiB", "--cold-files", "1", "--cold-medium-files", "1"]


def benchmark() -> Path:
    """The benchmark's program."""
    built = Path(os.environ.get("FOREBAY_BENCH", REPOSITORY / "target" / "release" / "forebay-bench"))
    if not built.is_file():
        raise MissingProgram(f"{built} does not exist: run `cargo build --release -p forebay-bench`")
    return built


@pytest.mark.parametrize(
    ("rows", "servers", "titles"),
    [
        ("login", ["plain xrootd", "Forebay"], [f"login, {way}, 4 clients" for way in LOGINS]),
        ("tls-read", ["XCache", "plain xrootd", "Forebay"], [f"TLS, {read}" for read in READS]),
    ],
)
def test_every_row_is_measured_on_every_server(
    ground: Ground, rows: str, servers: list[str], titles: list[str]
) -> None:
    command: list[str | Path] = [benchmark(), "compare", "--quick", "--rows", rows, *SMALL]
    command += ["--servers", "xcache,plain,forebay", "--forebay", ground.forebay]
    command += ["--work-dir", ground.directory("benchmark")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    for table in done.stdout.split("### ")[1:3]:
        cells = [[cell.strip() for cell in line.split("|")] for line in table.splitlines() if line.startswith("|")]
        measured = {row[1]: dict(zip(cells[0], row, strict=True)) for row in cells[2:]}
        assert list(measured) == titles
        for title in titles:
            took_part = ["Forebay"] if title == RESUMED else servers
            assert all(float(measured[title][server]) > 0 for server in took_part), table
