"""Experiments over emulated paths. Where hosts cannot be made, the lab has to say so."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay_lab.run import Row, read_rows


def is_permitted() -> bool:
    """Whether hosts can be made here."""
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return made.returncode == 0 and os.access("/dev/net/tun", os.R_OK | os.W_OK)


PERMITTED = is_permitted()

Lab = Callable[..., Path]


def run_over_paths(lab: Lab, capsys: pytest.CaptureFixture[str], *arguments: str) -> Path:
    """Runs an experiment; where it is not permitted, that must have been said."""
    run = lab(*arguments, status=0 if PERMITTED else 1)
    if not PERMITTED:
        said = capsys.readouterr().err
        assert "takes root" in said or "/dev/net/tun" in said
    return run


def test_sites_are_compared(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_over_paths(lab, capsys, "sites", "--engines", "uproot", "--repetitions", "1")
    if not PERMITTED:
        return
    rows = list(read_rows(run / "sites.jsonl"))
    assert {row["path"] for row in rows} == {"KIT"}
    assert {row["rtt_ms"] for row in rows} == {4.0}
    assert len(rows) == 6
    assert "| KIT | 4 | 802 |" in (run / "sites.md").read_text()


def test_efficiency_is_measured_against_distance(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    mix = Path(__file__).parents[1] / "mixes" / "example.json"
    arguments = ["--rtts", "1,9", "--setups", "direct,forebay-cold", "--tree-cache", "on", "--repetitions", "1"]
    run = run_over_paths(lab, capsys, "rtt", *arguments, "--mix", str(mix))
    if not PERMITTED:
        return
    rows = list(read_rows(run / "rtt.jsonl"))
    assert {row["rtt_ms"] for row in rows} == {1.0, 9.0}
    assert len({row["histograms"] for row in rows}) == 1
    assert "overseas" in (run / "rtt.md").read_text()
    assert (run / "pictures" / "rtt-efficiency-tree-cache-on.svg").is_file()


def test_ways_of_reading_are_compared_over_a_path(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--paths", "loopback,FZU-Pilsen", "--setups", "direct,forebay-cold", "--repetitions", "1"]
    run = run_over_paths(lab, capsys, "trace compare", *arguments)
    rows = list(read_rows(run / "patterns.jsonl"))
    near, far = ({_read(row): row for row in rows if row["path"] == path} for path in ("loopback", "FZU-Pilsen"))
    assert len(near) == 10, "five ways in two set-ups"
    assert set(far) == (set(near) if PERMITTED else set()), "the same reads over every path"
    assert {row["rtt_ms"] for row in far.values()} <= {3.5}
    text = (run / "patterns.md").read_text()
    assert ("| FZU-Pilsen |" in text) == PERMITTED, "measured rows are in the table"
    assert ("10 rows were not measured, on these paths: FZU-Pilsen" in text) != PERMITTED


def test_a_job_is_read_over_dcap(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_over_paths(lab, capsys, "dcap")
    if not PERMITTED:
        return
    rows = {(str(row["setup"]), str(row["way"])): row for row in read_rows(run / "dcap.jsonl")}
    assert len(rows) == 18, "three ways of a local file, five in three set-ups"
    for way in ("off", "on", "on, vectors"):
        same = {row["checksum"] for (_, known), row in rows.items() if known.removesuffix(", read-ahead") == way}
        assert len(same) == 1, way
        assert rows["remote", way]["calls"] == rows["local", way]["calls"]

    def moved(setup: str, way: str) -> int:
        return int(str(rows[setup, way]["distant_bytes"]))

    asked = int(str(rows["local", "off"]["bytes"]))
    assert moved("remote", "off") >= asked, "the distant server sends what the job reads"
    assert moved("remote", "off, read-ahead") > moved("remote", "off")
    assert moved("cache-cold", "off") >= asked
    assert max(moved("cache-warm", way) for setup, way in rows if setup == "cache-warm") < asked / 10
    assert "| cache-warm | on, vectors |" in (run / "dcap.md").read_text()


def _read(row: Row) -> tuple[object, ...]:
    return row["setup"], row["strategy"], row["calls"], row["bytes"]
