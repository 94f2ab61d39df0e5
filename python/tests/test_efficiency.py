"""The model of distance, and the savings of a mix of sites."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay_lab.efficiency import Curve, curves
from forebay_lab.errors import LabError
from forebay_lab.mix import Site, read_mix, saving
from forebay_lab.run import Row


def rows(setup: str, wall_s: float, round_trips: float) -> list[Row]:
    """Rows of a job that computes for one second and waits for its round trips."""
    return [
        {
            "setup": setup,
            "tree_cache": "on",
            "rtt_ms": rtt_ms,
            "wall_s": wall_s + round_trips * rtt_ms / 1e3,
            "cpu_s": 1.0,
        }
        for rtt_ms in (0.2, 9.0, 150.0)
    ]


def test_curve_gives_back_what_the_rows_follow_from() -> None:
    fitted = curves([*rows("direct", 2.0, 40.0), *rows("forebay-warm", 2.0, 0.0)])
    direct = fitted["direct", "on"]
    assert [direct.cpu_s, direct.wall_s, direct.round_trips] == pytest.approx([1.0, 2.0, 40.0])
    assert direct.efficiency_at(50.0) == pytest.approx(0.25)
    assert fitted["forebay-warm", "on"].efficiency_at(300.0) == pytest.approx(0.5)


def test_nobody_waits_for_less_than_no_round_trip() -> None:
    shrinking = [{**row, "wall_s": 3.0 - float(str(row["rtt_ms"])) / 1e3} for row in rows("forebay-warm", 0.0, 0.0)]
    curve = curves(shrinking)["forebay-warm", "on"]
    assert curve.round_trips == 0.0
    assert 2.8 < curve.wall_s < 3.0


def test_mix_counts_only_jobs_that_read_from_far() -> None:
    direct, cached = Curve(1.0, 2.0, 40.0), Curve(1.0, 2.0, 0.0)
    sites = [Site("near", 0.0, 100.0, 1.0), Site("far", 50.0, 100.0, 0.5)]
    assert saving(sites, direct, cached).hours == pytest.approx(25.0)
    assert saving(sites, direct, cached).share == pytest.approx(0.125)
    assert saving([], direct, cached).share == 0.0


def test_mix_is_read_from_a_file(tmp_path: Path) -> None:
    example = Path(__file__).parents[1] / "mixes" / "example.json"
    assert [site.site for site in read_mix(example)] == ["near", "same continent", "overseas"]
    for wrong in ('[{"site": "a"}]', '[{"site": "a", "rtt_ms": 1, "hours": 1, "share": 2}]', "{"):
        file = tmp_path / "mix.json"
        file.write_text(wrong)
        with pytest.raises(LabError, match=r"mix\.json"):
            read_mix(file)
