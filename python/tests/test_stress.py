"""Many concurrent jobs: data is compared byte by byte, and traffic is recorded per second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forebay_lab.run import read_rows


def test_jobs_read_direct_cold_and_warm(lab: Callable[..., Path]) -> None:
    run = lab("stress", "--setups", "direct,forebay-cold,forebay-warm,xcache-warm")
    rows = {str(row["setup"]): row for row in read_rows(run / "stress.jsonl")}
    assert len(rows) == 4
    for setup, row in rows.items():
        assert row["jobs_failed"] == 0, row
        assert row["read_bytes"] == rows["direct"]["read_bytes"], "the same seed makes the same choices"
        assert (int(str(row["origin_bytes"])) == 0) == setup.endswith("-warm"), row
        assert row["warm_store"] == "tmpfs"
        assert int(str(row["workingset_refault_file_after"])) >= int(str(row["workingset_refault_file_before"]))
    assert (run / "pictures" / "stress-forebay-cold-4.png").is_file()
    assert "none" in (run / "stress.md").read_text()
