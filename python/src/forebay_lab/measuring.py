"""Measures the missing rows of a run, path by path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from . import network
from .engines.job import Job
from .inputs import catalogue
from .options import Place
from .programs import Programs
from .run import Row, Run, record_environment
from .servers import Servers
from .setups import Scene, same_histograms

KEY = ("path", "setup", "engine", "events", "tree_cache", "repetition")
"""The key of a row of an event loop."""

LOOPBACK = "loopback"


def measure(
    results: Run,
    cells: Iterable[Row],
    *,
    place: Place,
    programs: Programs,
    kind: str,
    xcache: str,
    paths: Mapping[str, str] | None = None,
) -> None:
    """Measures the cells that have no row yet, and checks the histograms of all.

    `paths` describes each emulated path for `forebay-wan`; cells name theirs, and those on loopback need none.
    """
    wanted = list(cells)
    missing = [cell for cell in wanted if not results.has(**cell)]
    results.progress(f"{len(wanted) - len(missing)} of {len(wanted)} rows are there")
    if missing:
        record_environment(place.run, programs)
        size = int(str(results.parameters["events_in_file"]))
        data = catalogue.prepare(place.data, kind, size, int(str(results.parameters["seed"])), results.progress)
        done = 0
        for name in dict.fromkeys(str(cell["path"]) for cell in missing):
            here = [cell for cell in missing if cell["path"] == name]
            with path_named(programs, name, paths or {}) as path, place.work() as work:
                with Scene(Servers(programs, work, path, xcache=xcache), data) as scene:
                    for cell in here:
                        done += 1
                        results.deadline.check()
                        _measure_cell(results, scene, cell, f"{done}/{len(missing)}")
    same_histograms(results.rows)


def _measure_cell(results: Run, scene: Scene, cell: Row, count: str) -> None:
    job = Job(
        url="", events=int(str(cell["events"])), output="", kind=scene.data.kind, tree_cache=str(cell["tree_cache"])
    )
    row = scene.measure(str(cell["setup"]), str(cell["engine"]), job)
    results.add({**row, **cell})
    what = ", ".join(str(cell[field]) for field in ("path", "engine", "setup"))
    results.progress(f"{count} {what}, {cell['events']} events: {row['wall_s']:.3f} s")


def path_named(programs: Programs, name: str, paths: Mapping[str, str]) -> AbstractContextManager[network.Path]:
    """A path to be entered; `loopback` needs no description."""
    if name == LOOPBACK:
        return nullcontext(network.loopback())
    return network.emulated(programs.wan, name, paths[name])
