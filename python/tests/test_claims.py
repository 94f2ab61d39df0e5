"""Verdicts on claims of studies: computed from rows, decided by the stated rule, and never from too few rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from forebay_lab.patterns.strategies import STRATEGIES
from forebay_lab.report import study_figures, study_tables
from forebay_lab.report.claim_measures import MEASURES, Part
from forebay_lab.report.claims import judge, part_verdict
from forebay_lab.report.document import Table
from forebay_lab.report.measured import Measured
from forebay_lab.report.pages import sources, verdicts
from forebay_lab.report.studies import Claim, Study, load
from forebay_lab.run import Row
from forebay_lab.statistics import Value


def study(letter: str) -> Study:
    return next(one for one in load() if one.id.startswith(letter))


def claim(letter: str, words: str) -> Claim:
    return next(one for one in study(letter).claims if words in one.text)


def loops(walls: Mapping[str, float], *, path: str, events: int, repetitions: int = 10) -> list[Row]:
    """Wall times with a spread of 1 %."""
    return [
        {
            "setup": setup,
            "engine": "pyroot",
            "events": events,
            "path": path,
            "repetition": repetition,
            "wall_s": wall_s * (1 + 0.01 * (-1) ** repetition),
        }
        for setup, wall_s in walls.items()
        for repetition in range(repetitions)
    ]


def round_trips(slower: Mapping[str, float], repetitions: int = 4) -> list[Row]:
    """Jobs of 10 s CPU time; those of a set-up wait for so many round trips."""
    return [
        {
            "setup": setup,
            "engine": "pyroot",
            "tree_cache": "on",
            "rtt_ms": rtt_ms,
            "repetition": repetition,
            "cpu_s": 10.0,
            "wall_s": 10.2 + 0.01 * repetition + trips * rtt_ms / 1e3,
        }
        for setup, trips in slower.items()
        for rtt_ms in (0.2, 9.0, 150.0, 300.0)
        for repetition in range(repetitions)
    ]


def jobs(rates: Mapping[str, float], taken: Mapping[str, int], failed: int = 0) -> list[Row]:
    return [
        {
            "setup": setup,
            "jobs": 750,
            "visits": 2,
            "repetition": repetition,
            "wall_s": 1e5 / rate,
            "megabytes_per_s": rate + repetition,
            "origin_bytes": taken[setup],
            "jobs_failed": failed,
        }
        for setup, rate in rates.items()
        for repetition in range(3)
    ]


@pytest.mark.parametrize(
    ("mean", "error", "count", "verdict"),
    [
        (1.00, 0.02, 3, "holds"),
        (1.00, 0.02, 2, "not decided"),
        (1.00, 0.03, 9, "not decided"),
        (1.09, 0.02, 9, "not decided"),
        (1.10, 0.02, 9, "does not hold"),
        (0.90, 0.02, 9, "does not hold"),
        (1.00, float("nan"), 9, "not decided"),
    ],
)
def test_a_verdict_needs_two_standard_errors_and_three_repetitions(
    mean: float, error: float, count: int, verdict: str
) -> None:
    rule = Claim("a", "b", "c", "d", "loop", "wall-ratio", at_least=0.95, at_most=1.05)
    assert part_verdict(rule, Part("x", Value(mean, error, count))) == verdict


def test_a_cold_read_may_be_longer_by_the_resolution_of_the_published_table() -> None:
    rule = claim("a", "no significant overhead")
    short = loops({"direct": 0.05, "forebay-cold": 0.07}, path="KIT", events=1)
    long = loops({"direct": 100.0, "forebay-cold": 101.0}, path="KIT", events=50_000)
    found = judge(rule, {"sites": short + long}, "forebay")
    assert [part.label for part in found.parts] == ["KIT, 1 events", "KIT, 50000 events"]
    assert found.verdict == "holds"
    slower = loops({"direct": 100.0, "forebay-cold": 120.0}, path="KIT", events=50_000)
    assert judge(rule, {"sites": short + slower}, "forebay").verdict == "does not hold"
    assert judge(rule, {"sites": short + slower}, "xcache").verdict == "not measured"


def test_the_first_read_of_a_far_site_needs_50_000_events() -> None:
    rule = claim("a", "first read already is faster")
    walls = {"direct": 190.0, "forebay-cold": 120.0}
    assert judge(rule, {"sites": loops(walls, path="TRIUMF", events=1000)}, "forebay").verdict == "not measured"
    assert judge(rule, {"sites": loops(walls, path="TRIUMF", events=50_000)}, "forebay").verdict == "holds"
    swapped = {"direct": 120.0, "forebay-cold": 190.0}
    assert judge(rule, {"sites": loops(swapped, path="TRIUMF", events=50_000)}, "forebay").verdict == "does not hold"


def test_near_and_far_sites_have_opposite_rules() -> None:
    equal, faster = {"direct": 10.0, "forebay-warm": 10.1}, {"direct": 10.0, "forebay-warm": 5.0}
    near = [row for path in ("KIT", "LRZ", "DESY") for row in loops(equal, path=path, events=1000)]
    far = [row for path in ("BNL", "TRIUMF") for row in loops(faster, path=path, events=1000)]
    assert judge(claim("a", "Near sites"), {"sites": near + far}, "forebay").verdict == "holds"
    assert judge(claim("a", "Far sites"), {"sites": near + far}, "forebay").verdict == "holds"
    one_slow = [*far, *loops(faster, path="KIT", events=1000)]
    assert judge(claim("a", "Near sites"), {"sites": one_slow}, "forebay").verdict == "does not hold"


@pytest.mark.parametrize(("start_s", "verdict"), [(3.0, "holds"), (30.0, "does not hold")])
def test_the_plateau_is_reached_when_the_start_no_longer_counts(start_s: float, verdict: str) -> None:
    rows = [
        row
        for events in (1000, 50_000)
        for row in loops(
            dict.fromkeys(("local", "forebay-cold"), start_s + 0.002 * events), path="loopback", events=events
        )
    ]
    assert judge(claim("a", "plateau"), {"loop": rows}, "forebay").verdict == verdict
    few = [row for row in rows if row["events"] == 1000]
    assert judge(claim("a", "plateau"), {"loop": few}, "forebay").verdict == "not measured"


def test_stress_compares_rates_and_traffic() -> None:
    taken = {"direct": 1000, "forebay-cold": 900, "forebay-warm": 0}
    rows = jobs({"direct": 1000.0, "forebay-cold": 850.0, "forebay-warm": 990.0}, taken)
    verdicts = {one.text: judge(one, {"stress": rows}, "forebay") for one in study("c").claims}
    assert [finding.verdict for finding in verdicts.values()] == ["holds", "holds"]
    assert [finding.parts[0].value.mean for finding in verdicts.values()] == [pytest.approx(0.85, abs=0.001), 0.0]
    slow = jobs({"direct": 1000.0, "forebay-cold": 500.0}, taken, failed=1)
    found = judge(claim("c", "at least 80 %"), {"stress": slow}, "forebay")
    assert found.verdict == "does not hold"
    assert found.parts[0].label == "750 jobs, 3 jobs failed"


def test_files_per_job_are_scaled_to_the_published_time() -> None:
    rows = jobs({"direct": 1000.0, "forebay-cold": 500.0}, {"direct": 1, "forebay-cold": 1})
    blocks = list(study_tables.stress_rates({"stress": rows}))
    cells = {row[1]: row[2] for row in blocks[-1].rows}  # type: ignore[union-attr]
    assert cells["direct"].startswith("180 "), "2 visits in 100 s, for 9000 s"
    assert cells["forebay-cold"].startswith("90 ")


def test_efficiency_falls_with_distance_and_a_cache_restores_it() -> None:
    rows = round_trips({"direct": 20.0, "forebay-warm": 0.0})
    assert judge(claim("d", "falls with the distance"), {"rtt": rows}, "forebay").verdict == "holds"
    assert judge(claim("d", "close to local"), {"rtt": rows}, "forebay").verdict == "holds"
    saved = judge(claim("d", "saves slot time"), {"rtt": rows}, "forebay")
    assert saved.verdict == "holds"
    regions = claim("d", "saves slot time").parameters["regions"]
    waits = {region["rtt_ms"]: 20 * region["rtt_ms"] / 1e3 for region in regions}
    shares = [(region["share"], waits[region["rtt_ms"]] / (10.215 + waits[region["rtt_ms"]])) for region in regions]
    expected = sum(share * part for share, part in shares) / sum(share for share, _ in shares)
    assert saved.parts[0].value.mean == pytest.approx(expected, rel=0.01)
    useless = round_trips({"direct": 20.0, "forebay-warm": 20.0})
    assert judge(claim("d", "close to local"), {"rtt": useless}, "forebay").verdict == "does not hold"


def test_a_claim_without_an_experiment_is_not_measured() -> None:
    assert judge(claim("d", "fill level"), {"rtt": round_trips({"direct": 1.0})}, "forebay").verdict == "not measured"


def test_strategies_are_relative_to_the_references_of_the_study() -> None:
    rows: list[Row] = [
        {
            "path": "FZU-Pilsen",
            "setup": setup,
            "strategy": strategy.name,
            "repetition": repetition,
            "events": 100,
            "think_s": 1.0,
            "wall_s": 1.0 + number + (setup == "direct") + repetition / 1000,
            "calls": 10 * (number + 1),
            "bytes_got": 1000 * (number + 1),
            "file_bytes": 10_000,
        }
        for setup in ("local", "direct")
        for number, strategy in enumerate(STRATEGIES)
        for repetition in range(3)
    ]
    found = {(line.setup, line.strategy): (events, sent) for line, events, sent in study_tables.relative(rows)}
    assert found["local", "cache, single reads"][0] == pytest.approx(100)
    assert found["local", "plain"] == pytest.approx((300, 100), rel=0.01)
    assert found["direct", "read-ahead"] == pytest.approx((100, 200), rel=0.01)
    verdicts = [judge(one, {"patterns": rows}, "forebay").verdict for one in study("e").claims]
    assert verdicts == [
        "does not hold",
        "does not hold",
        "holds",
        "does not hold",
        "holds",
        "holds",
        "does not hold",
    ]


def test_every_study_states_its_sources_and_its_rules() -> None:
    studies = load()
    assert [one.id[0] for one in studies] == ["a", "b", "c", "d", "e"]
    for one in studies:
        assert one.hardware
        assert one.reference
        assert all(table.source and table.unit for table in one.tables)
        assert all(len(row) == len(table.header) for table in one.tables for row in table.rows)
        for rule in one.claims:
            assert rule.source
            assert rule.rule
            assert not rule.experiment or rule.measure in MEASURES
            assert not rule.experiment or ("at most" in rule.rule or "at least" in rule.rule or "from" in rule.rule)
        assert one.figure in study_figures.FIGURES
        assert one.measured in study_tables.TABLES


def test_figures_are_drawn_without_rows_too(tmp_path: Path) -> None:
    for one in load():
        drawn = study_figures.draw(one, {}, tmp_path)
        assert drawn.file.read_bytes().startswith(b"\x89PNG")
        assert str(one.year) in drawn.caption


@pytest.mark.parametrize("other", [{"quick": True}, {"xcache": "default"}, {"kind": "rntuple"}])
def test_rows_of_other_settings_are_not_compared_with_studies(other: Mapping[str, object]) -> None:
    def run(name: str, parameters: Mapping[str, object]) -> Measured:
        return Measured("loop", Path(name), [{"wall_s": 1.0}], parameters)

    first, second = run("first", {"quick": False, **other}), run("second", {"quick": False})
    assert [source.run for source in sources([first, second])["loop"]] == ["second"]
    assert sources([first]) == {}


def test_a_claim_is_judged_by_the_first_run_that_has_measured_it() -> None:
    def run(name: str, events: int) -> Measured:
        walls = {"direct": 10.0, "forebay-cold": 8.0}
        return Measured("sites", Path(name), loops(walls, path="TRIUMF", events=events), {})

    chosen = sources([run("short", 1000), run("long", 50_000), run("later", 50_000)])
    rows = [row for block in verdicts(load(), chosen, quick=False) if isinstance(block, Table) for row in block.rows]
    [first_read] = [row for row in rows if "the first read already is faster" in row[1]]
    assert first_read[-1] == "holds"
    only_short = list(verdicts(load(), sources([run("short", 1000)]), quick=False))
    rows = [row for block in only_short if isinstance(block, Table) for row in block.rows]
    assert [row[-1] for row in rows if "the first read already is faster" in row[1]] == ["not measured"]
