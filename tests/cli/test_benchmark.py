"""The benchmark: all kinds of clients log in at all servers, and jobs report results. Speed is not tested."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import xrootd
from harness.forebay import Forebay
from harness.ground import REPOSITORY, Ground, MissingProgram

LOGINS = ["no security", "sss", "gsi", "gsi with VOMS", "TLS", "TLS resumed", "TLS + ztn"]
READS = [
    "read 1 MiB sequential, 1 connection",
    "read 128 KiB random, 8 connections",
    "read 4 KiB random, 8 connections",
]
RESUMED = "login, TLS resumed, 4 clients"
"""Stock servers resume sessions only if configured to, and then crash occasionally."""

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


def jobs(server: str, *arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Runs jobs, and returns the rows: of all, of each job, of each second."""
    command: list[str | Path] = [benchmark(), "jobs", server, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    asked, *rows, summary = [json.loads(line) for line in done.stdout.splitlines()]
    assert (asked["kind"], summary["kind"]) == ("run", "summary")
    return summary, *([row for row in rows if row["kind"] == kind] for kind in ("job", "second"))


@pytest.mark.parametrize("how", [["--ranges", "40"], ["--ranges", "200", "--vector", "16"]])
def test_jobs_report_their_results_over_time(ground: Ground, cache_of: Callable[..., Forebay], how: list[str]) -> None:
    exported = ground.directory("jobs")
    names = ["one", "two", "three"]
    for name in names:
        subprocess.run([benchmark(), "make-file", exported / name, "300KiB"], check=True)
    origin = xrootd.plain(ground, exported)
    paths = [f"/{name}" for name in names]
    cache = cache_of(origin.url)
    arguments = ["--file-size", "300KiB", "--jobs", "8", "--visits", "3", "--range-size", "32KiB", *how]
    summary, every_job, seconds = jobs(cache.url, *paths, *arguments)
    assert [(row["visits"], row["error"]) for row in every_job] == [(3, None)] * 8
    assert (summary["visits"], summary["errors"]) == (24, 0)
    for count in ("visits", "reads", "bytes"):
        assert summary[count] == sum(row[count] for row in every_job) > 0
    for count in ("visits", "reads"):
        assert summary[count] == sum(row[count] for row in seconds)
    assert sum(row["received_bytes"] for row in seconds) > summary["bytes"]
    assert sum(row["jobs_done"] for row in seconds) == 8
    again, _, _ = jobs(cache.url, *paths, *arguments)
    assert again["bytes"] == summary["bytes"], "the same seed makes the same choices"
    origin.stop()


def test_a_job_that_fails_leaves_the_others_alone(ground: Ground, cache_of: Callable[..., Forebay]) -> None:
    exported = ground.directory("jobs")
    subprocess.run([benchmark(), "make-file", exported / "there", "64KiB"], check=True)
    origin = xrootd.plain(ground, exported)
    cache = cache_of(origin.url)
    summary, every_job, seconds = jobs(
        cache.url, "/there", "/not-there", "--file-size", "64KiB", "--jobs", "16", "--visits", "1", "--ranges", "4"
    )
    failed = [row["error"] for row in every_job if row["error"]]
    assert 0 < len(failed) == summary["errors"] == sum(row["jobs_failed"] for row in seconds) < 16
    assert all("not-there" in error for error in failed), failed
    assert summary["visits"] == 16 - len(failed)
    origin.stop()
