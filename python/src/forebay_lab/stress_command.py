"""Many jobs that read at random from many files: direct, through cold caches, and through warm ones."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from . import options as shared
from . import stress_summary
from .measuring import LOOPBACK, path_named
from .run import Row, Run, record_environment
from .servers import Servers
from .statistics import balanced_order
from .stress import Load, Scene, prepare

JOBS, JOBS_QUICK = [50, 150, 300, 500, 750], [4]
FILES_PER_JOB = 5000 / 750
"""As published. Files are short, so that two warm caches of them are in memory."""
SETUPS = ["direct", "forebay-cold", "forebay-warm", "xcache-cold", "xcache-warm"]
KEY = ("path", "setup", "jobs", "repetition")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    shared.add_place(parser)
    shared.add_programs(parser)
    shared.add_repetitions(parser)
    parser.add_argument("--jobs", type=shared.numbers, help="jobs at a time (default: 50,150,300,500,750)")
    parser.add_argument("--setups", type=shared.names, default=SETUPS, help=f"some of {','.join(SETUPS)}")
    parser.add_argument(
        "--files-per-job",
        type=float,
        help="files that jobs choose from, by the number of jobs (default: 5000 for 750 jobs, as published)",
    )
    parser.add_argument("--file-mib", type=shared.positive, help="length of each in MiB (default: 1)")
    parser.add_argument("--visits", type=shared.positive, help="files that each job reads from (default: 2)")
    parser.add_argument("--ranges", type=shared.positive, help="most ranges that are read of one (default: 1024)")
    parser.add_argument(
        "--vector",
        type=shared.positive,
        default=1,
        help="most ranges of one read (default: %(default)s: single reads, as published)",
    )
    parser.add_argument(
        "--site", default=LOOPBACK, help="preset of forebay-wan for the way to the origin (default: none)"
    )


@dataclass(frozen=True)
class Settings:
    """The parameters of the experiment."""

    jobs: list[int]
    setups: list[str]
    load: Load
    site: str
    xcache: str
    repetitions: int
    seed: int
    quick: bool

    def cells(self) -> Iterator[Row]:
        """One row each: set-ups side by side for each number of jobs."""
        for repetition in range(self.repetitions):
            for jobs in self.jobs:
                for setup in balanced_order(self.setups, repetition, self.seed):
                    yield {"path": self.site, "setup": setup, "jobs": jobs, "repetition": repetition}


def run(options: argparse.Namespace) -> None:
    """Measures missing rows, and draws."""
    place, programs, settings = shared.place(options), shared.programs(options), _settings(options)
    results = Run(place.run, "stress", KEY, asdict(settings), shared.deadline(options))
    missing = [cell for cell in settings.cells() if not results.has(**cell)]
    if missing:
        record_environment(place.run, programs)
        data = prepare(programs, place.data, settings.load, settings.load.files(max(settings.jobs)), results.progress)
        with ExitStack() as stack:
            path = stack.enter_context(path_named(programs, settings.site, {settings.site: settings.site}))
            servers = Servers(programs, stack.enter_context(place.work()), path, xcache=settings.xcache)
            scene = stack.enter_context(Scene(servers, data, settings.load))
            for number, cell in enumerate(missing, start=1):
                results.deadline.check()
                row = scene.measure(
                    str(cell["setup"]), int(str(cell["jobs"])), settings.seed + int(str(cell["repetition"]))
                )
                results.add({**row, **cell})
                what = f"{cell['setup']}, {cell['jobs']} jobs"
                results.progress(f"{number}/{len(missing)} {what}: {row['wall_s']:.2f} s, {row['jobs_failed']} failed")
    stress_summary.write(results)


def _settings(options: argparse.Namespace) -> Settings:
    quick: bool = options.quick
    load = Load(
        files_per_job=options.files_per_job or (1.0 if quick else FILES_PER_JOB),
        file_mib=options.file_mib or 1,
        visits=options.visits or (1 if quick else 2),
        ranges=options.ranges or (32 if quick else 1024),
        vector=options.vector,
    )
    return Settings(
        jobs=options.jobs or (JOBS_QUICK if quick else JOBS),
        setups=shared.known("--setups", options.setups, SETUPS),
        load=load,
        site=options.site,
        xcache=options.xcache,
        repetitions=shared.repetitions(options),
        seed=options.seed,
        quick=quick,
    )
