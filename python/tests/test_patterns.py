"""Figures and strategies of traces: exact values for small handmade traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay_lab.patterns import pictures, recorder, strace, stream
from forebay_lab.patterns.measures import covered, measure
from forebay_lab.patterns.replay import Target, differences
from forebay_lab.patterns.schedule import plan, thinking_s
from forebay_lab.patterns.strategies import joined_reads, read_ahead, single_reads
from forebay_lab.patterns.trace import Kind, Operation, Range, Trace, TraceError

URL = "root://here//a.root"


def opened(handle: int = 1, *, at: float = 0.0, path: str = URL) -> Operation:
    return Operation(Kind.OPEN, handle, at, at + 1, path=path)


def read(start_s: float, end_s: float, *ranges: tuple[int, int], handle: int = 1, job: int = 0) -> Operation:
    parts = tuple(Range(*part) for part in ranges)
    kind = Kind.VECTOR if len(parts) > 1 else Kind.READ
    return Operation(kind, handle, start_s, end_s, job, ranges=parts, got=sum(part.length for part in parts))


def closed(at: float, handle: int = 1) -> Operation:
    return Operation(Kind.CLOSE, handle, at, at)


def trace(*operations: Operation) -> Trace:
    return Trace(operations, {"source": "hand"})


def asked(of: Trace) -> list[list[tuple[int, int]]]:
    return [[(part.offset, part.length) for part in one.ranges] for one in of.reads]


def test_a_saved_trace_is_read_back_the_same(tmp_path: Path) -> None:
    wanted = trace(opened(), read(2, 3, (0, 10), (20, 5)), closed(4))
    assert Trace.load(wanted.save(tmp_path / "deep" / "trace")) == wanted


@pytest.mark.parametrize(
    "text", ["", "{}\n", "no json\n", '{"format": "forebay-lab-trace", "version": 1}\n{"op": "?"}\n']
)
def test_a_file_that_is_no_trace_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text(text)
    with pytest.raises(TraceError, match="trace"):
        Trace.load(file)


def test_figures_count_calls_bytes_sequence_and_what_is_read_again() -> None:
    one = trace(opened(), read(1, 2, (0, 100)), read(3, 5, (100, 50)), read(4, 6, (300, 10), (50, 100)), closed(7))
    figures = measure(one)
    assert (figures.files, figures.calls, figures.vector_calls, figures.ranges) == (1, 3, 1, 4)
    assert (figures.bytes, figures.bytes_once, figures.bytes_again) == (260, 160, 100)
    assert (figures.sequential_ranges, figures.sequential_bytes) == (2, 150)
    assert (figures.size_min, figures.size_median, figures.size_max) == (10, 75, 100)
    assert (figures.duration_s, figures.waiting_s) == (7, 4)


def test_a_trace_without_reads_has_figures_too() -> None:
    figures = measure(trace(opened()))
    assert (figures.calls, figures.bytes, figures.sequential_share) == (0, 0, 0)


def test_two_handles_of_one_file_share_its_bytes_and_not_their_order() -> None:
    figures = measure(trace(opened(1), opened(2), read(1, 2, (0, 8)), read(2, 3, (0, 8), handle=2)))
    assert (figures.files, figures.bytes_again, figures.sequential_ranges) == (1, 8, 2)


def test_overlapping_ranges_are_covered_once() -> None:
    assert covered([Range(10, 10), Range(0, 12), Range(5, 2), Range(30, 1)]) == 21


def test_calls_that_overlapped_do_not_wait_for_each_other() -> None:
    steps = plan(trace(opened(), read(2, 6, (0, 1)), read(3, 4, (1, 1)), read(5, 7, (2, 1)), closed(8)))
    assert [sorted(step.after) for step in steps] == [[], [0], [0], [0, 2], [0, 1, 2, 3]]
    assert [step.think_s for step in steps] == [0, 1, 2, 1, 1]


def test_jobs_do_not_wait_for_each_other() -> None:
    other = Operation(Kind.OPEN, 2, 0.5, 1, job=1, path=URL)
    steps = plan(trace(opened(), other, read(2, 3, (0, 1)), read(2, 3, (0, 1), handle=2, job=1)))
    assert [sorted(step.after) for step in steps] == [[], [], [0], [1]]


def test_thinking_can_be_left_out() -> None:
    one = trace(opened(), read(5, 6, (0, 1)), closed(9))
    assert [step.think_s for step in plan(one, think=0)] == [0, 0, 0]
    assert thinking_s(one) == 7


def test_a_read_ahead_asks_once_for_what_lies_in_its_buffer() -> None:
    one = trace(opened(), read(2, 3, (0, 10)), read(4, 5, (10, 80)), read(6, 7, (95, 10)), read(9, 10, (500, 300)))
    ahead = read_ahead(one, 100)
    assert asked(ahead) == [[(0, 100)], [(100, 100)], [(500, 300)]]
    assert thinking_s(ahead) == thinking_s(one)


def test_a_read_ahead_forgets_when_the_job_goes_back() -> None:
    ahead = read_ahead(trace(opened(), read(2, 3, (1000, 10)), read(4, 5, (0, 10)), read(6, 7, (1000, 10))), 100)
    assert asked(ahead) == [[(1000, 100)], [(0, 100)], [(1000, 100)]]


def test_single_reads_follow_each_other_without_thinking() -> None:
    one = trace(opened(), read(2, 4, (0, 10), (50, 5)), read(7, 8, (90, 1)), closed(9))
    single = single_reads(one)
    assert asked(single) == [[(0, 10)], [(50, 5)], [(90, 1)]]
    assert all(call.kind is not Kind.VECTOR for call in single.operations)
    assert thinking_s(single) == thinking_s(one)
    assert [step.think_s for step in plan(single)] == [0, 1, 0, 3, 1]


def test_neighbours_in_a_vector_are_read_together() -> None:
    one = trace(opened(), read(2, 4, (0, 10), (50, 5), (99, 1), (150, 10), (900, 200)), read(7, 8, (90, 1)), closed(9))
    joined = joined_reads(one, 100)
    assert asked(joined) == [[(0, 55)], [(99, 61)], [(900, 200)], [(90, 1)]]
    assert all(call.kind is not Kind.VECTOR for call in joined.operations)
    assert thinking_s(joined) == thinking_s(one)


def test_differences_name_the_first_read_that_is_not_the_same() -> None:
    wanted = trace(opened(), read(2, 3, (0, 10)), read(4, 5, (10, 10)))
    assert differences(wanted, wanted) == []
    assert differences(wanted, trace(opened(), read(2, 3, (0, 10)))) == ["file 1: 1 reads instead of 2"]
    other = trace(opened(), read(2, 3, (0, 10)), read(4, 5, (10, 11)))
    assert differences(wanted, other) == ["file 1, read 2: 11 bytes at 10 instead of 10 bytes at 10"]


def test_only_reads_that_overlapped_may_change_places() -> None:
    together = trace(opened(), read(2, 5, (0, 1)), read(3, 4, (9, 1)))
    turned = trace(opened(), read(2, 5, (9, 1)), read(3, 4, (0, 1)))
    assert differences(together, turned) == []
    assert differences(together, trace(opened(), read(2, 2.5, (9, 1)), read(3, 4, (0, 1)))) == []
    one_by_one = trace(opened(), read(2, 3, (0, 1)), read(4, 5, (9, 1)))
    assert differences(one_by_one, trace(opened(), read(2, 3, (9, 1)), read(4, 5, (0, 1)))) != []


@pytest.mark.parametrize(
    ("endpoint", "renames", "recorded", "url"),
    [
        ("", (), URL, URL),
        ("root://there:1095", (), URL, "root://there:1095//a.root"),
        ("root://there", (("/a", "/b"),), "root://here//a.root?x=1", "root://there//b.root?x=1"),
        ("root://there/", (("/data", "/store"),), "/data/a.root", "root://there//store/a.root"),
        ("/data/", (), URL, "/data/a.root"),
        ("", (("/data", "/other"),), "/data/a.root", "/other/a.root"),
    ],
)
def test_targets_rename_paths(endpoint: str, renames: tuple[tuple[str, str], ...], recorded: str, url: str) -> None:
    assert Target(endpoint, renames).url(recorded) == url


RECORD = """\
"7","Open","100.5","root://here//a;b.root;16;0;0","101.0","[SUCCESS]",""
"7","Stat","101.0","false;0","101.0","[SUCCESS]","4096;16;1;1;1;r--r--r--;*;*;"
"7","Read","102.0","10;20;0","104.0","[SUCCESS]","20"
"7","VectorRead","101.5","0;4;100;8;0","103.0","[SUCCESS]","12;0;4;100;8"
"7","Read","105.0","0;4;0","105.5","[ERROR] Server responded with an error",""
"7","Close","106.0","0","106.5","[SUCCESS]",""
"7","Open","107.0","root://here//c.root;16;0;0","107.5","[SUCCESS]",""
"7","PgRead","108.0","0;4096;0","109.0","[SUCCESS]","100;0"
"8","Open","107.0","/out;34;420;0","107.5","[SUCCESS]",""
"8","Write","108.0","0;4096;0","109.0","[SUCCESS]",""
"""


def test_the_recorders_file_becomes_a_trace(tmp_path: Path) -> None:
    record = tmp_path / "record.csv"
    record.write_text(RECORD)
    found = recorder.parse(record)
    assert found.paths == {1: "root://here//a;b.root", 2: "root://here//c.root"}
    assert found.facts["file_sizes"] == {"root://here//a;b.root": 4096}
    kinds = [(one.kind, one.handle, one.start_s) for one in found.reads]
    assert kinds == [(Kind.VECTOR, 1, 1.0), (Kind.READ, 1, 1.5), (Kind.PAGES, 2, 7.5)]
    assert asked(found) == [[(0, 4), (100, 8)], [(10, 20)], [(0, 4096)]]
    assert [one.got for one in found.reads] == [12, 20, 100]


def test_a_file_that_the_recorder_has_not_written_is_refused(tmp_path: Path) -> None:
    record = tmp_path / "record.csv"
    record.write_text("a,b\n")
    with pytest.raises(TraceError, match="line 1"):
        recorder.parse(record)


STRACE = """\
5 100.0 openat(AT_FDCWD</tmp>, ""..., O_RDONLY) = 3</d/a.root> <0.1>
5 100.2 openat(AT_FDCWD</tmp>, ""..., O_RDONLY) = 4</d/a.txt> <0.1>
5 101.0 lseek(3</d/a.root>, 50, SEEK_SET) = 50 <0.0>
5 101.5 read(3</d/a.root>, ""..., 300) = 100 <0.5>
5 102.5 read(3</d/a.root>, ""..., 8) = 8 <0.5>
5 103.0 pread64(3</d/a.root>,  <unfinished ...>
6 103.1 read(4</d/a.txt>, ""..., 10) = 10 <0.1>
6 103.2 readv(3</d/a.root>, [{iov_base=""..., iov_len=4}, {iov_base=""..., iov_len=6}], 2) = 10 <0.1>
5 103.9 <... pread64 resumed>""..., 4096, 8192) = 4096 <0.9>
5 104.0 preadv2(3</d/a.root>, [{iov_base=""..., iov_len=7}], 1, -1, 0) = 7 <0.1>
5 104.5 preadv(3</d/a.root>, [{iov_base=""..., iov_len=9}], 1, 77) = 9 <0.1>
5 104.7 read(3</d/a.root>, 0x1, 5) = -1 EIO (Input/output error) <0.1>
5 105.0 close(3</d/a.root>) = 0 <0.1>
5 106.0 openat(AT_FDCWD</tmp>, ""..., O_RDONLY) = 3</d/b.root> <0.1>
5 106.5 close(3</d/b.root>) = 0 <0.1>
"""


def test_what_strace_has_written_becomes_a_trace(tmp_path: Path) -> None:
    output = tmp_path / "strace"
    output.write_text(STRACE)
    found = strace.parse(output)
    assert found.paths == {1: "/d/a.root"}
    assert asked(found) == [[(50, 300)], [(150, 8)], [(8192, 4096)], [(158, 10)], [(168, 7)], [(77, 9)]]
    assert [one.got for one in found.reads] == [100, 8, 4096, 10, 7, 9]
    assert found.operations[-1].kind is Kind.CLOSE
    assert found.reads[2].end_s - found.reads[2].start_s == pytest.approx(0.9)


STREAM = """\
{"e":"open","t":1700000000000000,"f":17,"path":"/s/a.root","size":9000,"user":"","peer":"[::1]:40000","pid":7,"app":"x"}
{"e":"open","t":1700000000500000,"f":18,"path":"/s/b.txt","size":10,"user":"","peer":"[::1]:40001","pid":7,"app":"x"}
{"e":"readv","t":1700000003000000,"f":17,"v":[[26,40],[100,5]],"r":"hit","us":250000}
{"e":"read","t":1700000001000000,"f":17,"o":5,"n":300,"r":"missed","us":500000}
{"e":"read","t":1700000001000000,"f":17,"o":9000,"n":0,"r":"hit","us":5}
{"e":"read","t":1700000001100000,"f":18,"o":0,"n":10,"r":"hit","us":5}
{"e":"read","t":1700000001100000,"f":9,"o":0,"n":10,"r":"hit","us":5}
{"e":"close","t":1700000004000000,"f":17,"hit":45,"missed":300,"coalesced":0,"bypassed":0}
"""
STREAM_NEXT = """\
{"e":"open","t":1700000009000000,"f":17,"path":"/s/c.root","size":10,"user":"","peer":"[::1]:40002","pid":8,"app":"x"}
{"e":"pgread","t":1700000009000000,"f":17,"o":0,"n":10,"r":"hit","us":9}
{"e":"re"""


def test_a_servers_stream_becomes_a_trace(tmp_path: Path) -> None:
    (tmp_path / "trace-1700000000-000002.jsonl").write_text(STREAM_NEXT)
    (tmp_path / "trace-1700000000-000001.jsonl").write_text(STREAM)
    found = stream.parse(tmp_path, ["*.root"])
    assert found.paths == {1: "/s/a.root", 2: "/s/c.root"}
    assert found.facts["file_sizes"] == {"/s/a.root": 9000, "/s/c.root": 10}
    assert asked(found) == [[(5, 300)], [(26, 40), (100, 5)], [(0, 10)]]
    assert [(one.kind, one.start_s, one.end_s, one.job) for one in found.reads] == [
        (Kind.READ, 1.0, 1.5, 0),
        (Kind.VECTOR, 3.0, 3.25, 0),
        (Kind.PAGES, 9.0, pytest.approx(9.000009), 1),
    ]
    assert len(stream.parse(tmp_path).paths) == 3


@pytest.mark.parametrize("line", ["no json", '{"e":"open","t":1,"f":1}', '{"t":1,"f":1}', "[]"])
def test_a_line_that_is_not_of_a_stream_is_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "trace-1-1.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(TraceError, match="line 1"):
        stream.parse(file)


def test_pictures_are_drawn_as_png_and_svg(tmp_path: Path) -> None:
    one = trace(opened(), read(2, 3, (0, 1 << 20)), read(4, 5, (1 << 20, 100), (3 << 20, 1 << 16)), closed(6))
    written = pictures.draw(one, tmp_path, "job")
    assert [path.name for path in written] == ["job-offsets.png", "job-offsets.svg", "job-sizes.png", "job-sizes.svg"]
    assert written[0].read_bytes().startswith(b"\x89PNG")
    again = pictures.draw(one, tmp_path / "again", "job")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]
    assert "vector read" in written[1].read_text()
