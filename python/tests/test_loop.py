"""The event loop: every set-up gives the same histograms, rows are kept and not measured again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay_lab.errors import LabError
from forebay_lab.run import Row, read_rows
from forebay_lab.setups import SETUPS, same_histograms


def test_every_setup_gives_the_same_histograms(lab: Callable[..., Path]) -> None:
    run = lab("loop", "--engines", "uproot", "--repetitions", "1", "--events", "30")
    rows = list(read_rows(run / "loop.jsonl"))
    assert {row["setup"] for row in rows} == set(SETUPS)
    assert len({row["histograms"] for row in rows}) == 1
    for row in rows:
        cold = row["setup"] == "direct" or str(row["setup"]).endswith("-cold")
        assert (int(str(row["origin_bytes"])) > 500_000) == cold, row
        assert row["warm_store"] == "tmpfs"
        assert int(str(row["workingset_refault_file_after"])) >= int(str(row["workingset_refault_file_before"]))
    assert {path.suffix for path in (run / "pictures").iterdir()} == {".png", ".svg"}
    assert all(setup in (run / "loop.md").read_text() for setup in SETUPS)
    before = (run / "loop.jsonl").read_bytes()
    lab("loop", "--engines", "uproot", "--repetitions", "1", "--events", "30")
    assert (run / "loop.jsonl").read_bytes() == before, "existing rows are not measured again"
    lab("loop", "--engines", "uproot", "--repetitions", "1", "--events", "20", status=1)


def test_roots_engines_agree_with_uproot(lab: Callable[..., Path]) -> None:
    setups = "forebay-cold,forebay-file"
    run = lab(
        "loop", "--engines", "pyroot,rdataframe,uproot", "--setups", setups, "--repetitions", "1", "--events", "20"
    )
    rows = list(read_rows(run / "loop.jsonl"))
    assert len(rows) == 6
    assert len({row["histograms"] for row in rows}) == 1


def test_histograms_that_differ_are_a_failure() -> None:
    row: Row = {"events": 1, "events_in_file": 1, "seed": 1, "engine": "uproot", "setup": "local", "histograms": "a"}
    same_histograms([row, {**row, "setup": "direct"}, {**row, "events": 2, "histograms": "b"}])
    with pytest.raises(LabError, match="histograms of 1 events differ"):
        same_histograms([row, {**row, "setup": "direct", "histograms": "b"}])
