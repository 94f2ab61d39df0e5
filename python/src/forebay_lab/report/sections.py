"""The parts of a report: a section for each experiment of a run directory, from its raw rows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from .. import dcap_summary, loop_summary, memory, rtt_summary, sites_summary, stress_summary
from ..mix import read_mix
from ..patterns import summary as patterns_summary
from ..run import Row
from ..statistics import Value
from . import comparison
from .document import Block, Heading, Items, Picture, Table, Text, from_markdown
from .measured import Measured

METHODS = {
    "loop": (
        "An event loop over top-pair events opens a file, reads events, fills two histograms and writes them. Set-ups "
        "take turns within each repetition, in an order that changes. Every job is a new process; cold set-ups have an "
        "empty cache each time; the histograms of all set-ups are the same, which is checked."
    ),
    "sites": (
        "The same event loop over emulated paths to the sites of published set-ups. forebay-wan joins network "
        "namespaces, so windows, slow start and retransmission are the kernel's own. Client and cache are at one end, "
        "the origin is at the other."
    ),
    "rtt": (
        "The same event loop over paths of one rate and several round-trip times, with and without TTreeCache. CPU "
        "efficiency is CPU time over wall time; a curve is fitted to it for each set-up."
    ),
    "stress": (
        "Many jobs at once read random parts of random files, as in a published stress test: directly, through an "
        "empty cache, and through one that holds the files. Traffic is counted on both sides every second."
    ),
    "patterns": (
        "A job of PyROOT is recorded without and with TTreeCache, each read with its time. Other ways of reading are "
        "made from these traces, and all are replayed with the job's own time in between. The client's recorder proves "
        "that each replay read exactly that."
    ),
    "dcap": (
        "The recorded jobs read over dCap, by the same library as in the study: at a distant server, and through a "
        "cache near the job whose origin is distant. A TTreeCache reads up to 256 kB at a time, as ROOT does without "
        "vector reads, or vectors. All set-ups have read the same bytes, which is checked."
    ),
}


IDENTITY_FIELDS = ("repetition", "at", "load_average", "experiment", "seed")


def _rtt(measured: Measured) -> str:
    mix = measured.directory / rtt_summary.MIX
    return rtt_summary.text(measured.rows, read_mix(mix) if mix.exists() else [])


TABLES: Mapping[str, Callable[[Measured], str]] = {
    "loop": lambda measured: loop_summary.text(measured.rows),
    "sites": lambda measured: sites_summary.text(measured.rows),
    "rtt": _rtt,
    "stress": lambda measured: stress_summary.text(measured.rows),
    "patterns": lambda measured: "\n" + patterns_summary.comparison_table(measured.rows),
    "dcap": lambda measured: dcap_summary.text(measured.rows),
}
"""Experiments whose tables are made of rows; others get the means of all their figures."""

PICTURES: Mapping[str, Callable[[Measured, Path], None]] = {
    "loop": lambda measured, folder: loop_summary.draw(measured.rows, folder),
    "sites": lambda measured, folder: sites_summary.draw(measured.rows, folder),
    "rtt": lambda measured, folder: rtt_summary.draw(measured.rows, folder),
    "stress": lambda measured, folder: stress_summary.draw(measured.rows, folder),
    "patterns": lambda measured, folder: patterns_summary.draw(measured.rows, measured.directory, folder),
}
"""Experiments that have pictures; they are drawn into `pictures` of the given directory."""


def section(measured: Measured, drawn: Path) -> Iterator[Block]:
    """The section on one experiment; its pictures are drawn into a directory of its own below `drawn`."""
    yield Heading(2, f"{measured.name} ({measured.directory.name})")
    if measured.name in METHODS:
        yield Text(METHODS[measured.name])
    if measured.parameters.get("quick"):
        yield Text("A quick run: it shows that everything works. Its times mean nothing.")
    yield Table(("parameter", "value"), tuple((key, _plain(value)) for key, value in measured.parameters.items()))
    yield Heading(3, f"Measured: {len(measured.rows)} rows")
    in_memory = memory.note(measured.rows) if measured.name in TABLES else ""
    if in_memory:
        yield Text(in_memory)
    make = TABLES.get(measured.name)
    if make:
        # The section's own heading stands for the text's.
        yield from from_markdown(make(measured).partition("\n")[2], deeper=2)
    else:
        yield means(measured.rows)
    folder = Path(tempfile.mkdtemp(prefix=f"{measured.name}-", dir=drawn))
    if measured.name in PICTURES:
        PICTURES[measured.name](measured, folder)
    for file in sorted((folder / "pictures").glob("*.png")):
        yield Picture(file, f"{measured.directory.name}: {file.stem}")


def means(rows: Sequence[Row]) -> Table:
    """Mean and deviation of every figure that differs between repetitions, for each combination of the rest."""
    fields = [field for field in rows[0] if field not in IDENTITY_FIELDS]
    measured = [field for field in fields if all(isinstance(row.get(field), float) for row in rows)]
    by = [field for field in fields if field not in measured and len({str(row.get(field)) for row in rows}) > 1]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row.get(field)) for field in by), []).append(row)
    lines = [
        (*key, *(str(Value.of(float(str(row[field])) for row in group)) for field in measured))
        for key, group in groups.items()
    ]
    return Table((*by, *measured), tuple(lines))


def not_better(all_measured: Sequence[Measured]) -> Iterator[Block]:
    """The event loops in which Forebay is slower than XCache."""
    rows = [
        row
        for measured in all_measured
        if measured.name in ("loop", "sites") and not measured.parameters.get("quick")
        for row in measured.rows
    ]
    slower = list(comparison.worse(rows))
    none = "Nowhere among these event loops, beyond the errors." if rows else "These rows do not decide it."
    yield Heading(2, "Where Forebay is not better than XCache")
    yield Items(tuple(slower)) if slower else Text(none)


def environment(directories: Sequence[Path]) -> Iterator[Block]:
    """The programs and the machine of the measurement."""
    yield Heading(2, "Environment")
    for directory in directories:
        file = directory / "environment.json"
        sessions = json.loads(file.read_text()) if file.exists() else []
        for session in sessions:
            yield Heading(3, f"{directory.name}, {session.get('at', '')}")
            yield Table(("what", "value"), tuple((key, _plain(value)) for key, value in session.items()))
        if not sessions:
            yield Text(f"{directory.name}: no environment was recorded.")


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(part)}" for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(part) for part in value)
    return str(value)
