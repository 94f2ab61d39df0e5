"""Access patterns of jobs: record a trace, show it, replay it, compare read strategies."""

from __future__ import annotations

import argparse
import json
from fnmatch import fnmatch
from pathlib import Path

from . import options as shared
from .errors import LabError
from .inputs import catalogue
from .patterns import experiment, pictures, recorder, strace, stream, summary
from .patterns.measures import Measures, measure
from .patterns.replay import Target, replay_exactly
from .patterns.trace import Trace
from .run import Run, record_environment
from .setups import SETUPS

MIB = 1 << 20
PATHS, PATHS_QUICK = ["loopback", "FZU-Pilsen", "FNAL"], ["loopback"]
FILE_EVENTS, QUICK_EVENTS = 20_000, 2_000
BRANCHES = "nJet,Jet_pt,Jet_eta,Jet_phi,Jet_mass,nMuon,Muon_pt,Muon_eta,Muon_phi"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`record`, `show`, `replay` and `compare`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_record(actions.add_parser("record", help="run a job and keep each of its reads, or take over a record"))
    show = actions.add_parser("show", help="figures and pictures of a trace")
    show.add_argument("trace", type=Path)
    show.add_argument("--out", type=Path, help="directory for pictures and figures (default: that of the trace)")
    _add_replay(actions.add_parser("replay", help="make the recorded reads again, at any server"))
    _add_compare(actions.add_parser("compare", help="compare read strategies of a PyROOT job in several set-ups"))


def run(options: argparse.Namespace) -> None:
    """Runs one of the actions."""
    {"record": _record, "show": _show, "replay": _replay, "compare": _compare}[options.action](options)


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", type=Path, required=True, help="the trace")
    parser.add_argument(
        "--by",
        choices=("recorder", "strace", "stream"),
        default="recorder",
        help="by the recorder of XRootD's client (files by root://), by strace (local files), or by the stream of a "
        "server ([trace]; needs --from); default: %(default)s",
    )
    parser.add_argument(
        "--files",
        type=shared.names,
        help=f"patterns of paths, with commas (strace: {','.join(strace.DEFAULT_FILES)}; stream: all; recorder: all)",
    )
    parser.add_argument(
        "--from",
        dest="record",
        type=Path,
        help="a record that is there already, instead of a job; a file or, of a stream, a directory",
    )
    parser.add_argument("job", nargs="*", metavar="COMMAND", help="the job, after --")


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path)
    parser.add_argument(
        "--at", default="", metavar="URL", help="root://HOST:PORT, or a directory (default: as recorded)"
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="A=B",
        help="paths that begin with A begin with B; may be repeated",
    )
    parser.add_argument(
        "--think", type=float, default=1.0, metavar="FACTOR", help="scales the job's own time; 0 omits it"
    )
    parser.add_argument("--out", type=Path, help="keeps the trace of the replay")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    shared.add_place(parser)
    shared.add_programs(parser)
    shared.add_repetitions(parser)
    parser.add_argument(
        "--kind", choices=("nano", "ttree"), default="nano", help="the input file (default: %(default)s)"
    )
    parser.add_argument(
        "--events-in-file", type=shared.positive, help=f"(default: {FILE_EVENTS}; {QUICK_EVENTS} if quick)"
    )
    parser.add_argument("--events", type=shared.positive, help="how many of them the job reads (default: all)")
    parser.add_argument(
        "--branches",
        default=BRANCHES,
        help="patterns of the branches that the job reads, with commas (default: %(default)s)",
    )
    parser.add_argument(
        "--paths", type=shared.names, help=f"loopback, presets of forebay-wan (default: {','.join(PATHS)})"
    )
    parser.add_argument("--setups", type=shared.names, default=list(SETUPS), help=f"some of {','.join(SETUPS)}")


def _record(options: argparse.Namespace) -> None:
    if bool(options.job) == bool(options.record):
        raise LabError("trace record: give either a job after `--`, or a record by --from")
    trace = _taken_over(options) if options.record else _recorded(options)
    if not trace.reads:
        raise LabError(f"{options.record or options.job[0]} holds no read of a file")
    trace.save(options.out)
    print(f"{options.out}\n{_text(measure(trace))}")


def _taken_over(options: argparse.Namespace) -> Trace:
    match options.by:
        case "strace":
            return strace.parse(options.record, options.files or strace.DEFAULT_FILES)
        case "stream":
            return stream.parse(options.record, options.files or stream.ALL_FILES)
        case _:
            return _matching(recorder.parse(options.record), options.files)


def _recorded(options: argparse.Namespace) -> Trace:
    match options.by:
        case "strace":
            return strace.record(options.job, options.files or strace.DEFAULT_FILES)
        case "stream":
            raise LabError("trace record --by stream: name the server's directory of traces by --from")
        case _:
            return _matching(recorder.record(options.job), options.files)


def _matching(trace: Trace, files: list[str] | None) -> Trace:
    if files is None:
        return trace
    return trace.only(path for path in trace.paths.values() if any(fnmatch(path, pattern) for pattern in files))


def _show(options: argparse.Namespace) -> None:
    trace = Trace.load(options.trace)
    folder = options.out or options.trace.parent
    measures = measure(trace)
    written = pictures.draw(trace, folder, options.trace.stem)
    figures = folder / f"{options.trace.stem}-measures.json"
    figures.write_text(json.dumps({**measures.as_json(), "facts": dict(trace.facts)}, indent=1) + "\n")
    print(_text(measures), *written, figures, sep="\n")


def _replay(options: argparse.Namespace) -> None:
    trace = Trace.load(options.trace)
    target = Target(options.at, tuple(_renaming(text) for text in options.map))
    outcome = replay_exactly(trace, target, think=options.think)
    if options.out:
        outcome.trace.save(options.out)
    measures = measure(outcome.trace)
    print(f"wall {outcome.wall_s:.3f} s (recorded {trace.duration_s:.3f} s), of it waiting {measures.waiting_s:.3f} s")
    print(f"exactly the recorded reads\n{_text(measures)}")


def _compare(options: argparse.Namespace) -> None:
    place, programs, settings = shared.place(options), shared.programs(options), _settings(options)
    run = Run(place.run, experiment.EXPERIMENT, experiment.KEY, settings.parameters(), shared.deadline(options))
    data = catalogue.prepare(place.data, settings.kind, settings.events_in_file, settings.seed, run.progress)
    record_environment(place.run, programs)
    try:
        experiment.measure(settings, programs, place, data, run)
    finally:
        # If a path cannot be created, the summary still has the rows of the previous ones.
        if run.rows:
            summary.write(run, experiment.missing_cells(settings, run))


def _settings(options: argparse.Namespace) -> experiment.Settings:
    quick: bool = options.quick
    return experiment.Settings(
        paths=options.paths or (PATHS_QUICK if quick else PATHS),
        setups=shared.known("--setups", options.setups, SETUPS),
        branches=options.branches,
        events=options.events or -1,
        kind=options.kind,
        events_in_file=options.events_in_file or (QUICK_EVENTS if quick else FILE_EVENTS),
        xcache=options.xcache,
        repetitions=shared.repetitions(options),
        seed=options.seed,
        quick=quick,
    )


def _renaming(text: str) -> tuple[str, str]:
    before, equals, after = text.partition("=")
    if not equals:
        raise LabError(f"--map {text}: must be A=B")
    return before, after


def _text(measures: Measures) -> str:
    return (
        f"{measures.calls} calls ({measures.vector_calls} vectors), {measures.ranges} ranges, {measures.files} files\n"
        f"{measures.bytes / MIB:.2f} MiB asked for, {measures.bytes_got / MIB:.2f} MiB got, "
        f"{measures.bytes_again / MIB:.2f} MiB more than once\n"
        f"sequential: {measures.sequential_share:.1%} of ranges, {measures.sequential_byte_share:.1%} of bytes\n"
        f"size of a range: {measures.size_min} to {measures.size_max} bytes, median {measures.size_median:.0f}\n"
        f"{measures.duration_s:.3f} s, of it waiting {measures.waiting_s:.3f} s"
    )
