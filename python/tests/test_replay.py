"""Recording and replaying with real clients and servers: the replayed reads equal the recorded ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay_lab import cli
from forebay_lab.patterns import recorder, strace, stream, summary
from forebay_lab.patterns.replay import Target, differences, replay, replay_exactly, replay_recorded
from forebay_lab.patterns.schedule import plan
from forebay_lab.patterns.trace import Kind, Operation, Range, Trace, TraceError
from forebay_lab.process import Process, service_directory
from forebay_lab.programs import Programs
from forebay_lab.run import Row
from forebay_lab.servers import Server, Servers, Work

SIZE = 3_000_000


@pytest.fixture(scope="module")
def place(data_dir: Path) -> Path:
    """A directory that servers may enter."""
    return service_directory(data_dir / "replay")


@pytest.fixture(scope="module")
def file(place: Path) -> Path:
    """The file that an origin serves."""
    path = place / "data" / "a.bin"
    path.parent.mkdir()
    path.write_bytes(bytes(number % 251 for number in range(SIZE)))
    return path


@pytest.fixture(scope="module")
def origin(place: Path, file: Path) -> Iterator[Server]:
    """The distribution's server."""
    programs = Programs.find(Programs.default_forebay(), Programs.default_root_python(), Programs.default_benchmarks())
    with Servers(programs, Work(place / "servers", place / "warm")).origin(file.parent) as server:
        yield server


def call(kind: Kind, start_s: float, end_s: float, *ranges: tuple[int, int], handle: int = 1) -> Operation:
    path = "root://recorded//a.bin" if kind is Kind.OPEN else ""
    return Operation(kind, handle, start_s, end_s, path=path, ranges=tuple(Range(*part) for part in ranges))


MIXED = Trace(
    (
        call(Kind.OPEN, 0.0, 0.01),
        call(Kind.READ, 0.02, 0.03, (0, 300)),
        call(Kind.OPEN, 0.025, 0.03, handle=2),
        call(Kind.READ, 0.04, 0.09, (1_000_000, 500_000)),
        call(Kind.READ, 0.05, 0.08, (SIZE - 100, 4096)),
        call(Kind.READ, 0.06, 0.07, (7, 1), handle=2),
        call(Kind.VECTOR, 0.10, 0.11, (5, 10), (2_000_000, 65_536), (90, 3)),
        call(Kind.PAGES, 0.12, 0.13, (4096, 8192)),
        call(Kind.READ, 0.14, 0.15, (SIZE + 10, 10)),
        call(Kind.CLOSE, 0.16, 0.17),
        call(Kind.CLOSE, 0.16, 0.17, handle=2),
    )
)


def test_a_replay_makes_exactly_the_recorded_reads(origin: Server) -> None:
    outcome, seen = replay_recorded(MIXED, Target(f"root://{origin.address}"))
    assert outcome.failures == ()
    assert differences(MIXED, seen) == []
    assert [one.got for one in outcome.trace.reads] == [300, 500_000, 100, 1, 65_549, 8192, 0]


def test_a_replay_waits_for_answers_and_thinks_as_the_job_did(origin: Server) -> None:
    steps = plan(MIXED)
    outcome = replay(MIXED, Target(f"root://{origin.address}"))
    played = outcome.trace.operations
    assert [one.start_s for one in played] == sorted(one.start_s for one in played), "in the recorded order"
    for step, now in zip(steps, played, strict=True):
        answered_s = max((played[number].end_s for number in step.after), default=0.0)
        assert now.start_s >= answered_s + step.think_s - 1e-6


def clipped(read: Operation) -> Operation:
    """A read as a server reports it: the available bytes."""
    ranges = tuple(Range(part.offset, max(0, min(part.length, SIZE - part.offset))) for part in read.ranges)
    return replace(read, ranges=ranges)


def test_a_servers_stream_tells_the_recorded_reads(place: Path, file: Path) -> None:
    traces = service_directory(place / "traces")
    settings = place / "forebay.toml"
    settings.write_text(
        f'[server]\nlisten = ["127.0.0.1:0"]\n[[export]]\ndirectory = "{file.parent}"\n[trace]\npath = "{traces}"\n'
    )
    command: list[str | Path] = [Programs.default_forebay().resolve(), "serve", "--config", settings]
    with Process("traced", command, place, keep_user=True) as process:
        ready = process.wait_for_line(r"^ready (root://\S+)$")
        replay_exactly(MIXED, Target(ready[1]), think=0)
    # The server has ended, so every line is there.
    seen = stream.parse(traces)
    reported = [clipped(one) for one in MIXED.operations]
    wanted = Trace(tuple(one for one in reported if not one.is_read or any(part.length for part in one.ranges)))
    assert differences(wanted, seen) == []
    assert len(seen.reads) == len(wanted.reads) > 0


def test_local_files_are_replayed_too(file: Path) -> None:
    outcome = replay_exactly(MIXED, Target(str(file.parent)), think=0)
    assert outcome.trace.reads[1].got == 500_000


def test_a_replay_of_a_file_that_is_not_there_fails(origin: Server) -> None:
    target = Target(f"root://{origin.address}", (("/a.bin", "/missing.bin"),))
    with pytest.raises(TraceError, match=r"failed: open 0: .*[Nn]o such file"):
        replay_exactly(MIXED, target, think=0)


def test_a_recorded_copy_is_replayed(origin: Server, tmp_path: Path) -> None:
    recorded = recorder.record(["xrdcp", "--nopbar", origin.url("/a.bin"), str(tmp_path / "copy")])
    assert sum(one.got for one in recorded.reads) == SIZE
    assert recorded.facts["file_sizes"] == {origin.url("/a.bin"): SIZE}
    outcome = replay_exactly(recorded, Target(), think=0)
    assert sum(one.got for one in outcome.trace.reads) == SIZE


def test_a_job_that_fails_is_not_recorded(origin: Server, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="ended with"):
        recorder.record(["xrdcp", "--nopbar", origin.url("/missing.bin"), str(tmp_path / "copy")])


LOCAL_JOB = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.read(file, 100)
os.read(file, 50)
os.pread(file, 4096, 1_000_000)
os.lseek(file, 2_000_000, os.SEEK_SET)
os.read(file, 10)
os.close(file)
"""


def test_strace_records_the_reads_of_a_local_job(file: Path, origin: Server) -> None:
    recorded = strace.record([sys.executable, "-c", LOCAL_JOB, str(file)], ["*.bin"])
    asked = [(part.offset, part.length) for one in recorded.reads for part in one.ranges]
    assert asked == [(0, 100), (100, 50), (1_000_000, 4096), (2_000_000, 10)]
    replay_exactly(recorded, Target(f"root://{origin.address}", ((str(file.parent), ""),)), think=0)


def test_the_command_records_shows_and_replays(origin: Server, tmp_path: Path) -> None:
    kept = tmp_path / "copy.trace"
    job = ["xrdcp", "--nopbar", origin.url("/a.bin"), str(tmp_path / "copy")]
    assert cli.main(["trace", "record", "--out", str(kept), "--", *job]) == 0
    assert cli.main(["trace", "show", str(kept)]) == 0
    assert (tmp_path / "copy-offsets.svg").exists()
    again = tmp_path / "again.trace"
    assert cli.main(["trace", "replay", str(kept), "--think", "0", "--out", str(again)]) == 0
    assert differences(Trace.load(kept), Trace.load(again)) == []
    elsewhere = ["--at", f"root://{origin.address}", "--map", "/a.bin=/b.bin"]
    assert cli.main(["trace", "replay", str(kept), *elsewhere]) == 1


def test_the_comparison_measures_every_strategy(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setups = ["--setups", "local,forebay-cold", "--repetitions", "1", "--events-in-file", "200", "--branches", "Jet_*"]
    where = ["--runs-dir", str(tmp_path), "--name", "ways", "--data-dir", str(data_dir)]
    assert cli.main(["trace", "compare", "--quick", *setups, *where]) == 0
    table = (tmp_path / "ways" / "patterns.md").read_text()
    assert table.count("| loopback | forebay-cold |") == 5
    assert "Not complete" not in table
    pictures = {path.name for path in (tmp_path / "ways" / "pictures").iterdir()}
    assert {"patterns-loopback.png", "patterns-loopback.svg", "patterns-with-tree-cache-offsets.png"} <= pictures
    rows = (tmp_path / "ways" / "patterns.jsonl").read_bytes()
    capsys.readouterr()
    assert cli.main(["trace", "compare", "--quick", *setups, *where]) == 0
    assert (tmp_path / "ways" / "patterns.jsonl").read_bytes() == rows, "existing rows are not measured again"
    assert cli.main(["report", str(tmp_path / "ways")]) == 0


def test_a_comparison_names_missing_rows() -> None:
    missing: list[Row] = [{"path": path, "setup": "direct"} for path in ("near", "far", "far")]
    assert summary.incomplete([]) == ""
    assert "3 rows were not measured, on these paths: near, far." in summary.incomplete(missing)


def test_a_trace_with_a_read_of_no_open_file_is_refused(file: Path) -> None:
    headless = replace(MIXED, operations=MIXED.operations[1:2])
    with pytest.raises(TraceError, match="does not open"):
        replay(headless, Target(str(file.parent)))
