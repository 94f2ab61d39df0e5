"""Reports: every number follows from the raw rows, verdicts follow from numbers, and the file needs nothing else."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from forebay_lab import cli
from forebay_lab.patterns.strategies import STRATEGIES
from forebay_lab.programs import REPOSITORY
from forebay_lab.report import comparison, pages, pdf, sections
from forebay_lab.report.claims import VERDICTS
from forebay_lab.report.document import Heading, Items, Picture, Table, Text, from_markdown
from forebay_lab.report.html import PUBLISHED
from forebay_lab.report.measured import experiments
from forebay_lab.report.studies import load
from forebay_lab.run import Row

RECORDED = REPOSITORY / "bench" / "runs"
PDF_PAGE = re.compile(rb"/Type /Page\b")
WALLS = {
    "local": [1.00, 1.01, 0.99],
    "direct": [2.00, 2.02, 1.98],
    "forebay-cold": [2.03, 2.01, 2.02],
    "forebay-warm": [1.50, 1.52, 1.48],
    "forebay-file": [1.00, 1.02, 0.98],
    "xcache-cold": [3.00, 3.10, 2.90],
    "xcache-warm": [1.20, 1.21, 1.19],
}


def loop_rows(walls: Mapping[str, Sequence[float]] = WALLS, **more: object) -> list[Row]:
    return [
        {
            "experiment": "loop",
            "setup": setup,
            "engine": "pyroot",
            "events": 1000,
            "repetition": repetition,
            "path": "loopback",
            "rtt_ms": 0.0,
            "wall_s": wall_s,
            "cpu_s": wall_s / 2,
            "server_cpu_s": 0.25,
            "origin_bytes": 5_000_000,
            **more,
        }
        for setup, of_setup in walls.items()
        for repetition, wall_s in enumerate(of_setup)
    ]


def pattern_rows() -> list[Row]:
    return [
        {
            "experiment": "patterns",
            "path": "loopback",
            "setup": setup,
            "strategy": strategy.name,
            "repetition": repetition,
            "events": 100,
            "think_s": 1.0,
            "wall_s": 2.0 + number + repetition / 10 + (setup == "direct"),
            "calls": 10 * (number + 1),
            "bytes_got": 1000 * (number + 1),
            "file_bytes": 10_000,
        }
        for setup in ("local", "direct")
        for number, strategy in enumerate(STRATEGIES)
        for repetition in range(2)
    ]


def make_run(directory: Path, experiments: Mapping[str, Sequence[Row]]) -> Path:
    """A run directory as written by experiments."""
    directory.mkdir(parents=True)
    for name, rows in experiments.items():
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (directory / f"{name}.parameters.json").write_text('{"quick": false, "seed": 13}')
    (directory / "environment.json").write_text(
        '[{"at": "2026-01-01", "processor": "a <chip>", "packages": {"a": "1"}}]'
    )
    return directory


class Page(HTMLParser):
    """The tables of a page as text, its links, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.links: list[str] = []
        self.words = ""
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Cells, rows, tables and links begin."""
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        """Cells end."""
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        """Words, of a cell or not."""
        self.words += data
        if self._in_cell:
            self.tables[-1][-1][-1] += data

    def table(self, first: str, other: str) -> dict[str, dict[str, str]]:
        """The table whose first and one other column have these titles: by the first cell of each row and by title."""
        [found] = [table for table in self.tables if table[0][0] == first and other in table[0][1:]]
        return {row[0]: dict(zip(found[0], row, strict=True)) for row in found[1:]}


def verdict_rows(page: Page) -> dict[str, dict[str, str]]:
    """The table of verdicts by claim."""
    [found] = [table for table in page.tables if table[0][0] == "study"]
    return {row[1]: dict(zip(found[0], row, strict=True)) for row in found[1:]}


def report_on(*runs: Path) -> Page:
    assert cli.main(["report", *map(str, runs)]) == 0
    assert (runs[0] / "report.pdf").read_bytes().startswith(b"%PDF")
    return Page((runs[0] / "report.html").read_text())


def test_numbers_follow_from_the_raw_rows(tmp_path: Path) -> None:
    page = report_on(make_run(tmp_path / "run", {"loop": loop_rows()}))
    table = page.table("set-up", "overhead")
    assert set(table) == set(WALLS)
    for setup, walls in WALLS.items():
        mean, deviation = statistics.mean(walls), statistics.stdev(walls)
        assert table[setup]["1000 events, s"] == f"{mean:.3g} ± {deviation:.2g}"
        assert table[setup]["overhead"].split(" ")[0] == f"{100 * (mean / statistics.mean(WALLS['local']) - 1):+.1f}"
        assert table[setup]["from origin, MB"] == "5.00"


def test_a_changed_row_changes_the_report_and_old_tables_do_not_count(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"loop": loop_rows({**WALLS, "direct": [4.0, 4.0, 4.0]})})
    (run / "loop.md").write_text("| set-up |\n| --- |\n| an old table |\n")
    page = report_on(run)
    assert page.table("set-up", "overhead")["direct"]["1000 events, s"] == "4 ± 0"
    assert "an old table" not in page.words


def test_the_comparison_of_strategies_follows_from_the_raw_rows(tmp_path: Path) -> None:
    page = report_on(make_run(tmp_path / "run", {"patterns": pattern_rows()}))
    [table] = [table for table in page.tables if table[0][:3] == ["path", "set-up", "strategy"]]
    titles, lines = table[0], {(row[1], row[2]): row for row in table[1:]}
    assert len(lines) == 2 * len(STRATEGIES)
    for number, strategy in enumerate(STRATEGIES):
        wall_s = 3.05 + number
        cells = dict(zip(titles, lines["direct", strategy.name], strict=True))
        assert cells["events/s, %"] == f"{100 * 2.05 / wall_s:.1f}"
        assert cells["bytes, %"] == f"{100 * (number + 1):.1f}"
        assert cells["of the file, %"] == f"{10 * (number + 1):.1f}"
        assert cells["CPU efficiency, %"] == f"{100 / wall_s:.1f}"


def test_the_job_over_dcap_follows_from_the_raw_rows(tmp_path: Path) -> None:
    walls = {("local", "off"): 2.0, ("local", "on"): 1.6, ("remote", "off"): 8.0, ("cache-warm", "off"): 2.5}
    rows: list[Row] = [
        {
            "experiment": "dcap",
            "path": "FZU-Pilsen",
            "setup": setup,
            "way": way,
            "repetition": 0,
            "wall_s": wall_s,
            "think_s": 1.5,
            "calls": 40,
            "bytes": 1000,
            "distant_bytes": {"local": 0, "remote": 1200, "cache-warm": 10}[setup],
        }
        for (setup, way), wall_s in walls.items()
    ]
    page = report_on(make_run(tmp_path / "run", {"dcap": rows}))
    tables = [table for table in page.tables if table[0][:3] == ["set-up", "TTreeCache", "wall, s"]]
    assert len(tables) == 2, "on the page of the study, and in the section of the experiment"
    for table in tables:
        assert [row[:2] for row in table[1:]] == [list(key) for key in walls]
        assert table[3] == ["remote", "off", "8", "20", "120", "18.8", "40"]
        assert table[4] == ["cache-warm", "off", "2.5", "64", "1", "60.0", "40"]


def test_sites_round_trips_and_stress_follow_from_the_raw_rows(tmp_path: Path) -> None:
    path: dict[str, object] = {"rtt_ms": 95.0, "mbit": 137.0, "tree_cache": "on", "read_bytes": 8_000_000}
    sites = loop_rows({"local": [1.0, 1.1, 0.9], "direct": [4.0, 4.2, 3.8]}, **path)
    stress: list[Row] = [
        {
            "setup": setup,
            "jobs": 50,
            "visits": 2,
            "wall_s": 2.0,
            "repetition": repetition,
            "megabytes_per_s": 100.0 + repetition,
            "read_p99_us": 900.0,
            "origin_bytes": 7,
            "server_cpu_s": 1.5,
            "jobs_failed": 0,
            "server_survived": True,
            "out_per_s": [50_000_000, 60_000_000],
            "in_per_s": [7, 0],
        }
        for setup in ("direct", "forebay-cold")
        for repetition in range(3)
    ]
    page = report_on(make_run(tmp_path / "run", {"sites": sites, "rtt": sites, "stress": stress}))
    assert page.table("site", "Mbit/s")["loopback"]["direct"].startswith("4 ± 0.2 (+300.0 ±")
    _stress, _by_distance, efficiency, rate, fit, *_ = [table for table in page.tables if table[0][0] == "set-up"]
    assert efficiency[2] == ["direct", "0.5 ± 0"]
    assert rate[2][1].startswith(f"{statistics.mean(8 / wall_s for wall_s in (4.0, 4.2, 3.8)):.3g} ± ")
    assert fit[0][-1] == "round trips"
    assert ["forebay-cold", "101 ± 1"] in [row for table in page.tables for row in table]


def test_quick_runs_decide_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"loop": loop_rows()})
    claim = "A cached file is read as fast as a file of the local file system"
    assert verdict_rows(report_on(run))[claim]["holds?"] == "does not hold"
    (run / "loop.parameters.json").write_text('{"quick": true}')
    page = report_on(run)
    assert "Rows of quick runs do not count here" in page.words
    assert {row["holds?"] for row in verdict_rows(page).values()} == {"not measured"}


def test_the_recorded_run_has_a_page_of_verdicts_and_one_for_each_study(tmp_path: Path) -> None:
    measured = experiments(RECORDED / "2026-11-23-lab")
    studies, chosen = load(), pages.sources(measured)
    machines = pages.machines([RECORDED / "2026-11-23-lab"])
    blocks = list(pages.verdicts(studies, chosen, quick=False))
    for study in studies:
        page = list(pages.study_page(study, chosen, machines, tmp_path))
        assert len([block for block in page if isinstance(block, Picture)]) == 1
        assert [block for block in page if isinstance(block, Table) and block.published]
        words = " ".join(block.text for block in page if isinstance(block, Text))
        assert str(study.year) in words
        assert study.hardware in words
        assert "AMD EPYC" in words
        blocks += page
    pdf.render("test", blocks, tmp_path / "report.pdf")
    assert len(PDF_PAGE.findall((tmp_path / "report.pdf").read_bytes())) == 1 + len(studies)
    [table] = [block for block in blocks if isinstance(block, Table) and block.header[0] == "study"]
    assert {row[-1] for row in table.rows} == set(VERDICTS)
    assert all((row[-1] == "not measured") == (not row[-2]) for row in table.rows), "no value without rows, and back"


def test_cases_where_forebay_is_slower_are_listed() -> None:
    [slower] = comparison.worse(loop_rows())
    assert slower.startswith("forebay-warm against xcache-warm: +25.0 ±")


def test_runs_of_other_inputs_or_settings_are_cases_of_their_own() -> None:
    rows = loop_rows()
    others = [{**row, change: value} for change, value in (("kind", "rntuple"), ("xcache", "default")) for row in rows]
    one, each = comparison.cases(rows), comparison.cases([*rows, *others])
    assert [case.walls for case in each] == 3 * [case.walls for case in one]
    assert ["rntuple" in str(case) for case in each].count(True) == len(one)
    assert ["XCache default" in str(case) for case in each].count(True) == len(one)


def test_several_runs_make_one_document_that_needs_nothing_else(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first", {"loop": loop_rows()})
    second = make_run(tmp_path / "second", {"patterns": pattern_rows(), "strange": [{"what": "a", "took_s": 1.5}]})
    page = report_on(first, second)
    assert {"loop (first)", "patterns (second)", "strange (second)"} <= set(page.words.splitlines())
    assert len(page.links) == 3 + len(load())
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    published = [table for study in load() for table in study.tables if not table.drawn]
    assert page.words.count(PUBLISHED) == len(published)
    assert "a <chip>" in page.words, "markup in the rows is escaped"


@pytest.mark.parametrize(
    ("run", "pictures"),
    [
        ("2026-11-23-lab/rntuple", ["loop-rdataframe-per-event", "loop-rdataframe-setups"]),
        ("2026-11-23-lab/xcache-default", ["sites-pyroot"]),
        ("2026-11-23-spare-time", ["sites-pyroot"]),
    ],
)
def test_a_recorded_run_is_drawn_from_its_rows(run: str, pictures: list[str], tmp_path: Path) -> None:
    recorded = RECORDED / run
    assert not (recorded / "pictures").exists(), "drawings are not kept"
    assert cli.main(["report", str(recorded), "--out", str(tmp_path / "report")]) == 0
    page = Page((tmp_path / "report.html").read_text())
    assert all(f"{recorded.name}: {picture}" in page.words for picture in pictures)
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert not (recorded / "report.html").exists()


def test_the_patterns_of_the_recorded_run_are_drawn_from_rows_and_traces(tmp_path: Path) -> None:
    [measured] = [one for one in experiments(RECORDED / "2026-11-23-lab") if one.name == "patterns"]
    drawn = {block.file.stem for block in sections.section(measured, tmp_path) if isinstance(block, Picture)}
    traces = {f"patterns-{job}-tree-cache-{kind}" for job in ("with", "without") for kind in ("offsets", "sizes")}
    assert drawn == {"patterns-loopback", "patterns-FZU-Pilsen", "patterns-FNAL", *traces}


@pytest.mark.parametrize("make", [False, True])
def test_a_directory_without_rows_is_refused(make: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if make:
        (tmp_path / "run").mkdir()
    assert cli.main(["report", str(tmp_path / "run")]) == 1
    assert str(tmp_path / "run") in capsys.readouterr().err


def test_markdown_becomes_blocks() -> None:
    text = "# One\n\nfirst\nline\n\n## Two\n\n- a\n- b\n\n| x | y |\n| --- | --- |\n| 1 \\| 2 | 3 |\n"
    assert list(from_markdown(text, deeper=1)) == [
        Heading(2, "One"),
        Text("first line"),
        Heading(3, "Two"),
        Items(("a", "b")),
        Table(("x", "y"), (("1 | 2", "3"),)),
    ]
