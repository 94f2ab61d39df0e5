"""The recorded full run: the published parameters by default, made in parts by one command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from forebay_lab import all_command, loop_command, rtt_command, sites_command, stress_command, trace_command
from forebay_lab.cli import OUT_OF_TIME
from forebay_lab.deadline import Deadline
from forebay_lab.errors import LabError, OutOfTime
from forebay_lab.report.studies import load
from forebay_lab.run import read_rows
from forebay_lab.stress import Load


def defaults(module: ModuleType, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize("module", [loop_command, sites_command])
def test_event_loops_have_all_columns_of_the_published_table(module: ModuleType) -> None:
    settings = module._settings(defaults(module))
    assert settings.events[:3] == [1, 100, 1000]
    assert settings.events[-1] >= 50_000
    assert settings.events_in_file >= settings.events[-1]
    assert settings.repetitions == 10
    assert "pyroot" in settings.engines
    cells = list(settings.cells())
    assert len({tuple(cell.values()) for cell in cells}) == len(cells)
    assert {cell["events"] for cell in cells} == set(settings.events)


def test_sites_are_those_of_the_published_table() -> None:
    settings = sites_command._settings(defaults(sites_command))
    [table] = [table for study in load() for table in study.tables if table.id == "total"]
    published = {str(row[0]) for row in table.rows} - {"local file system", "Freiburg dCache"}
    assert published <= set(settings.sites)


def test_the_longest_jobs_can_be_left_to_some_sites_and_set_ups() -> None:
    limits = ("--longest-sites", "TRIUMF", "--longest-setups", "direct,forebay-cold")
    settings = sites_command._settings(defaults(sites_command, *limits))
    cells = list(settings.cells())
    longest = {(cell["path"], cell["setup"]) for cell in cells if cell["events"] == max(settings.events)}
    assert longest == {("TRIUMF", "direct"), ("TRIUMF", "forebay-cold")}
    others = {(cell["path"], cell["setup"]) for cell in cells if cell["events"] != max(settings.events)}
    assert len(others) == len(settings.sites) * len(settings.setups)
    with pytest.raises(LabError, match="--longest-sites"):
        sites_command._settings(defaults(sites_command, "--sites", "KIT", "--longest-sites", "TRIUMF"))


def test_stress_has_the_published_job_and_files_per_job() -> None:
    settings = stress_command._settings(defaults(stress_command))
    assert max(settings.jobs) == 750
    assert settings.load.files(750) == 5000
    assert (settings.load.ranges, settings.load.vector) == (1024, 1)
    assert settings.repetitions == 10
    assert Load(files_per_job=0.1, file_mib=1, visits=1, ranges=1, vector=1).files(1) == 1


def test_distances_are_those_of_the_published_points() -> None:
    settings = rtt_command._settings(defaults(rtt_command))
    [study] = [study for study in load() if study.points]
    [order] = [claim for claim in study.claims if claim.measure == "efficiency-order"]
    assert set(order.parameters["rtts_ms"]) <= set(settings.rtts_ms)
    assert set(settings.tree_caches) == {"on", "off"}
    assert settings.repetitions == 10


def test_strategies_are_replayed_over_the_published_path() -> None:
    settings = trace_command._settings(defaults(trace_command, "compare"))
    assert "FZU-Pilsen" in settings.paths
    assert {"local", "direct", "forebay-cold", "forebay-warm"} <= set(settings.setups)
    assert settings.repetitions == 10


def test_a_run_is_made_in_parts(lab: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("loop", "--engines", "uproot", "--setups", "local,direct", "--events", "2", "--minutes", "30")
    begun: list[float] = []

    def one_row(deadline: Deadline) -> None:
        begun.append(deadline.minutes_left)
        if len(begun) > 1:
            raise OutOfTime

    with monkeypatch.context() as patch:
        patch.setattr(Deadline, "check", one_row)
        run = lab(*arguments, status=OUT_OF_TIME)
    assert 29 < begun[0] <= 30
    [first] = read_rows(run / "loop.jsonl")
    lab(*arguments)
    rows = list(read_rows(run / "loop.jsonl"))
    assert len(rows) == 2
    assert rows[0] == first, "what was measured stays"
    lab("loop", "--engines", "uproot", "--setups", "local,direct", "--events", "2", "--minutes", "0")


def test_the_time_of_all_experiments_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def stop(_module: ModuleType, arguments: list[str]) -> None:
        given.append(float(arguments[arguments.index("--minutes") + 1]))
        if len(given) == 2:
            raise OutOfTime

    monkeypatch.setattr(all_command, "_run", stop)
    with pytest.raises(OutOfTime):
        all_command.run(defaults(all_command, "--minutes", "55", "--runs-dir", str(tmp_path)))
    assert 54 < given[1] <= given[0] <= 55


def test_a_deadline_ends_measuring_once_it_is_over() -> None:
    Deadline.after(None).check()
    Deadline.after(1).check()
    with pytest.raises(OutOfTime):
        Deadline.after(0).check()
