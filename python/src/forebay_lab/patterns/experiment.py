"""The comparison as an experiment: one job recorded, every strategy replayed in every set-up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .. import network
from ..inputs.catalogue import TREE, Input
from ..measuring import path_named
from ..memory import AFTER, BEFORE, file_system, refaults
from ..options import Place
from ..programs import Programs
from ..run import Row, Run
from ..servers import Servers, settle
from ..setups import Scene
from ..statistics import balanced_order
from . import compare
from .replay import Target
from .strategies import STRATEGIES
from .trace import Trace

EXPERIMENT = "patterns"
KEY = ("path", "setup", "strategy", "repetition")
RECORDINGS = 5
"""How often each job is recorded."""
TRACES = {False: "without-tree-cache", True: "with-tree-cache"}
"""Names of the two recorded jobs; their traces stay with the run."""


@dataclass(frozen=True)
class Settings:
    """The parameters of the comparison."""

    paths: list[str]
    setups: list[str]
    branches: str
    events: int
    kind: str
    events_in_file: int
    xcache: str
    repetitions: int
    seed: int
    quick: bool

    def cells(self) -> Iterator[Row]:
        """One row each: strategies side by side within a set-up, in orders that change with the repetition."""
        names = [strategy.name for strategy in STRATEGIES]
        for path in self.paths:
            for repetition in range(self.repetitions):
                for setup in balanced_order(self.setups, repetition, self.seed):
                    for strategy in balanced_order(names, repetition, self.seed):
                        yield {"path": path, "setup": setup, "strategy": strategy, "repetition": repetition}

    def parameters(self) -> dict[str, object]:
        """Parameters that must be equal for comparable rows."""
        return {**asdict(self), "tree_cache_bytes": compare.TREE_CACHE_BYTES}


def measure(settings: Settings, programs: Programs, place: Place, data: Input, run: Run) -> None:
    """Adds the rows that the run does not have.

    # Errors
    `LabError` when a server or a job fails, or a replay makes other reads than the recorded ones.
    """
    missing = missing_cells(settings, run)
    if not missing:
        return
    ways = compare.changed(recorded_jobs(settings, programs, place, data, run))
    done = 0
    for name in dict.fromkeys(str(cell["path"]) for cell in missing):
        with path_named(programs, name, {name: name}) as path, _scene(settings, programs, place, data, path) as scene:
            for cell in [cell for cell in missing if cell["path"] == name]:
                done += 1
                run.deadline.check()
                row = _row(scene, str(cell["setup"]), ways[str(cell["strategy"])])
                run.add({**row, **cell})
                what = f"{name}, {cell['setup']}, {cell['strategy']}"
                run.progress(f"{done}/{len(missing)} {what}: {row['wall_s']:.3f} s")


def missing_cells(settings: Settings, run: Run) -> list[Row]:
    """The cells that have no row yet."""
    return [cell for cell in settings.cells() if not run.has(**cell)]


def traces(directory: Path) -> dict[bool, Trace]:
    """The recorded jobs in a run's directory: without and with TTreeCache."""
    files = {cached: directory / f"{name}.trace" for cached, name in TRACES.items()}
    return {cached: Trace.load(file) for cached, file in files.items() if file.exists()}


def recorded_jobs(settings: Settings, programs: Programs, place: Place, data: Input, run: Run) -> dict[bool, Trace]:
    """Records the jobs at an origin on loopback, if not done yet: a resumed run replays the same."""
    recorded = traces(run.directory)
    if len(recorded) == len(TRACES):
        return recorded
    run.progress("recording the job without and with TTreeCache")
    with _scene(settings, programs, place, data, network.loopback()) as scene:
        url = scene.origin.url(data.origin_path)
        job = compare.RootJob(programs.root_python, url, TREE, settings.branches, settings.events)
        recorded = compare.record(job, 1 if settings.quick else RECORDINGS)
    for cached, trace in recorded.items():
        trace.save(run.directory / f"{TRACES[cached]}.trace")
    return recorded


@contextmanager
def _scene(settings: Settings, programs: Programs, place: Place, data: Input, path: network.Path) -> Iterator[Scene]:
    with place.work() as work, Scene(Servers(programs, work, path, xcache=settings.xcache), data) as scene:
        yield scene


def _row(scene: Scene, setup: str, trace: Trace) -> Row:
    """One replay, and its cost at all servers."""
    with scene.target(setup) as target:
        watched = [scene.origin, *([target.server] if target.server else [])]
        place = f"root://{urlsplit(target.url).netloc}" if target.server else str(scene.local.parent)
        settle(*watched)
        before = [server.usage() for server in watched]
        lost = refaults()
        figures = compare.figures(trace, Target(place), enter=scene.servers.path.near.enter)
        lost_after = refaults()
        settle(*watched)
        after = [server.usage() for server in watched]
    used = [now.cpu_since(then) for now, then in zip(after, before, strict=True)]
    return {
        **scene.servers.path.facts,
        **scene.data.facts(),
        "xcache": scene.servers.xcache_settings,
        "warm_store": file_system(scene.servers.warm_directory),
        BEFORE: lost,
        AFTER: lost_after,
        **figures,
        "server_cpu_s": used[-1] if target.server else 0.0,
        "origin_cpu_s": used[0],
        "origin_bytes": after[0].bytes_since(before[0]),
    }
